// Loaded into a program before it starts (LD_PRELOAD): a worker's reading of a model's weights
// never ends, as on a network disk whose server is gone.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

bool IsWorker() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string arguments((std::istreambuf_iterator<char>(in)), {});
  return arguments.find("--roles") != std::string::npos;
}

// $BATON_HANG_BELOW: a folder; models' weights in it can be opened once it has no file `hang`.
// A worker that is held up writes a file `hangs` there first, so that a test knows it.
void Hang(const char* path) {
  const char* folder = std::getenv("BATON_HANG_BELOW");
  const std::string file(path);
  const std::string weights = ".safetensors";
  if (folder == nullptr || file.rfind(folder, 0) != 0 || file.size() < weights.size() ||
      file.compare(file.size() - weights.size(), weights.size(), weights) != 0 || !IsWorker()) {
    return;
  }
  if (access((std::string(folder) + "/hang").c_str(), F_OK) == 0) {
    std::ofstream(std::string(folder) + "/hangs");
  }
  while (access((std::string(folder) + "/hang").c_str(), F_OK) == 0) usleep(50'000);
}

using Open = int (*)(const char*, int, ...);

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static const auto real = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "open"));
  Hang(path);
  return real(path, flags, mode);
}
