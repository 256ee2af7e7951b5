// Child processes of a test: Baton's own programs, as a user starts them.
#ifndef BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_TESTING_H_
#define BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_TESTING_H_

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/common/process/test_process.h"

namespace baton::testing {

/// A program of the build, its output in a file.
class Process : public TestProcess {
 public:
  /// `arguments[0]` is a name in the build's bin/. `log` gets standard output and error.
  Process(std::vector<std::string> arguments, std::string log);

  /// The most memory that it has had so far; bytes.
  int64_t PeakMemory() const;
  /// No file of the process may grow beyond this from now on: a full disk of its own.
  /// RLIM_INFINITY gives the space back.
  void LimitFileSize(rlim_t bytes) const;
};

/// Status line and body of a GET, or "" without an answer.
std::string HttpGet(int port, const std::string& path);

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_TESTING_H_
