// A folder of files that goes with its test.
#ifndef BATON_SDK_COMMON_BASE_TEST_FOLDER_H_
#define BATON_SDK_COMMON_BASE_TEST_FOLDER_H_

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace baton {

/// Empty at first; removed with all that is in it. Names are relative to the folder, or absolute.
/// Threads may share it.
class TestFolder {
 public:
  /// In the system's folder for temporary files.
  TestFolder() : TestFolder(std::filesystem::temp_directory_path().string()) {}
  /// Ends the process if no folder can be made in `parent`.
  explicit TestFolder(const std::string& parent) : path_(parent + "/baton-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      std::perror(("cannot make a folder " + path_).c_str());
      std::abort();
    }
  }
  ~TestFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  /// A parent whose files are in memory, where the machine has one.
  static std::string InMemory() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    return memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  }

  const std::string& path() const { return path_; }
  /// The path of a file or folder in this folder, which need not exist.
  std::string path(const std::string& name) const {
    return (std::filesystem::path(path_) / name).string();
  }
  /// Makes the folders on the way.
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  /// Empty: there is no such file.
  std::string Read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

 private:
  std::string path_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_TEST_FOLDER_H_
