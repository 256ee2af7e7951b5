// Child processes of a test: Baton's own programs, as a user starts them.
#ifndef BATON_TESTS_END_TO_END_PROCESS_TESTING_H_
#define BATON_TESTS_END_TO_END_PROCESS_TESTING_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace baton::testing {

/// A program of the build, its output in a file. Killed and awaited with the object, so that
/// nothing outlives its test.
class Process {
 public:
  /// `arguments[0]` is a name in the build's bin/. `log` gets standard output and error.
  Process(std::vector<std::string> arguments, std::string log);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) const;
  /// Exit status, or 128 and the signal that killed it; -1: it still runs after 10 s.
  int Wait();
  bool running();
  /// The most memory that it has had so far; bytes.
  int64_t PeakMemory() const;
  /// Everything it has written so far.
  std::string Log() const;
  /// The text behind `key` up to white space, once it is in the log; empty: it never came.
  std::string WaitForLog(const std::string& key) const;
  /// No file of the process may grow beyond this from now on: a full disk of its own.
  /// RLIM_INFINITY gives the space back.
  void LimitFileSize(rlim_t bytes) const;

 private:
  const std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Status line and body of a GET, or "" without an answer.
std::string HttpGet(int port, const std::string& path);

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_PROCESS_TESTING_H_
