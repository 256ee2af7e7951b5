// A program of the build, started by a bench.
#ifndef BATON_BENCH_SUPPORT_CHILD_PROCESS_H_
#define BATON_BENCH_SUPPORT_CHILD_PROCESS_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/process/test_process.h"

namespace baton::bench {

class ChildProcess : public TestProcess {
 public:
  /// `arguments[0]` is a name beside this program. `log` gets standard output and error.
  ChildProcess(std::vector<std::string> arguments, std::string log)
      : TestProcess(BesideThis(std::move(arguments)), std::move(log)) {}

 private:
  static std::vector<std::string> BesideThis(std::vector<std::string> arguments) {
    const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
    arguments[0] = (folder / arguments[0]).string();
    return arguments;
  }
};

}  // namespace baton::bench

#endif  // BATON_BENCH_SUPPORT_CHILD_PROCESS_H_
