// A record of the files and folders that a test's process has synced: no test would notice a
// missing fsync otherwise. This header defines fsync and fdatasync anew, so only one source of a
// test program includes it.
#ifndef BATON_SDK_COMMON_BASE_TEST_SYNCS_H_
#define BATON_SDK_COMMON_BASE_TEST_SYNCS_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

/// The paths that were synced, in order, as they were called at that moment. Any thread.
class TestSyncs {
 public:
  static void Add(int fd) {
    std::error_code code;
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const std::string path = std::filesystem::read_symlink(link, code).string();
    State& state = Shared();
    absl::MutexLock lock(&state.mu);
    state.paths.push_back(path);
  }
  /// The paths synced since the last call.
  static std::vector<std::string> Take() {
    State& state = Shared();
    absl::MutexLock lock(&state.mu);
    return std::exchange(state.paths, {});
  }

 private:
  struct State {
    absl::Mutex mu;
    std::vector<std::string> paths ABSL_GUARDED_BY(mu);
  };
  static State& Shared() {
    static auto* const kState = new State;
    return *kState;
  }
};

}  // namespace baton

extern "C" int fsync(int fd) {
  baton::TestSyncs::Add(fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  baton::TestSyncs::Add(fd);
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

#endif  // BATON_SDK_COMMON_BASE_TEST_SYNCS_H_
