#include "workers/main/check_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/process/memory_file.h"
#include "workers/main/check_limits.h"

namespace baton {
namespace {

constexpr int kToldWhy = 2;  // exit code of a fork whose answer is a text

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// False when `fd` ends before.
bool ReadAll(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::read(fd, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

// Without its end. False: `fd` ended, or it is too long; what was read of it is in `line`.
bool ReadLine(int fd, std::string* line) {
  line->clear();
  char next = 0;
  while (line->size() < kMaxCheckLineBytes && ReadAll(fd, &next, 1)) {
    if (next == '\n') return true;
    line->push_back(next);
  }
  return false;
}

// Ends the fork, which has no answer.
[[noreturn]] void Tell(const MemoryFile& out, absl::string_view why) {
  WriteAll(out.fd(), why);
  ::_exit(kToldWhy);
}

// In the fork. The answer, or why there is none, goes to `out`.
[[noreturn]] void CheckInFork(const std::string& spec_bytes, const CheckRequestLine& request,
                              const CheckFunction& check, const MemoryFile& out) {
  LimitCheckProcess(request.cpu_seconds);
  try {
    v1::JobSpec spec;
    if (!spec.ParseFromString(spec_bytes)) Tell(out, "was sent something else than a JobSpec");
    const auto answer = check(spec, request);
    if (!answer.ok()) Tell(out, answer.status().message());
    ::_exit(WriteAll(out.fd(), answer->SerializeAsString()) ? 0 : 1);
  } catch (const std::bad_alloc&) {
    Tell(out, absl::StrCat("needs more memory than ", kCheckAddressBytes, " bytes"));
  } catch (const std::exception& error) {
    Tell(out, error.what());
  }
}

struct Answer {
  bool found = false;
  std::string bytes;
};

// Code in a fork may not read requests, nor write responses.
void CutOff(int in, int out) {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, in);
  ::dup2(STDERR_FILENO, out);
}

// The fork of a check that is under way; 0: none.
std::atomic<pid_t> check_fork{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a handler of signals reads it");
std::atomic<bool> check_ending{false};

// The fork goes first, so that this process reaps it, and no other has to.
void EndCheckFork(int) {
  check_ending = true;
  if (const pid_t child = check_fork; child > 0) {
    ::kill(child, SIGKILL);
  } else {
    ::_exit(0);
  }
}

// While true, EndCheckFork does not run.
void HoldSigterm(bool held) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  ::sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &end, nullptr);
}

// Waits for the end of a fork; answers how it ended, as waitpid.
int ReapCheckFork(pid_t child) {
  siginfo_t ended = {};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  // From here on its number may be that of another process.
  HoldSigterm(true);
  int status = 0;
  ::waitpid(child, &status, 0);
  check_fork = 0;
  if (check_ending) ::_exit(0);
  HoldSigterm(false);
  return status;
}

// UNAVAILABLE: the machine is too short of something to begin.
absl::StatusOr<Answer> CheckOne(int in, int responses, const std::string& spec,
                                const CheckRequestLine& request, const CheckFunction& check) {
  const MemoryFile out("answer");
  const pid_t self = ::getpid();
  HoldSigterm(true);
  const pid_t child = out.fd() < 0 ? -1 : ::fork();
  if (child < 0) return absl::UnavailableError(std::strerror(errno));
  if (child > 0) check_fork = child;
  if (child == 0) ::signal(SIGTERM, SIG_DFL);
  HoldSigterm(false);
  if (child == 0) {
    CutOff(in, responses);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(1);
    CheckInFork(spec, request, check, out);
  }
  const int status = ReapCheckFork(child);
  if (WIFSIGNALED(status)) {
    return Answer{false, absl::StrCat("was killed by signal ", WTERMSIG(status))};
  }
  const auto bytes = static_cast<uint64_t>(out.size_bytes());
  if (bytes > kMaxCheckAnswerBytes) {
    return Answer{false,
                  absl::StrCat("answered ", bytes, " bytes, more than ", kMaxCheckAnswerBytes)};
  }
  const bool told = WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kToldWhy;
  if (!told) return Answer{false, absl::StrCat("ended with exit code ", WEXITSTATUS(status))};
  return Answer{WEXITSTATUS(status) == 0, out.ReadEnd(static_cast<off_t>(kMaxCheckAnswerBytes))};
}

}  // namespace

int ServeChecks(int in, int out, const CheckFunction& check) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  struct sigaction on_end = {};
  on_end.sa_handler = EndCheckFork;
  ::sigaction(SIGTERM, &on_end, nullptr);
  std::string line;
  while (ReadLine(in, &line)) {
    const auto request = ParseCheckRequestLine(line);
    if (!request.ok()) {
      std::cerr << "baton-worker check: " << request.status().message() << "\n";
      return 1;
    }
    std::string spec(request->spec_bytes, '\0');
    if (!ReadAll(in, spec.data(), spec.size())) break;
    const auto answer = CheckOne(in, out, spec, *request, check);
    if (!answer.ok()) {
      std::cerr << "cannot begin a check: " << answer.status().message() << "\n";
      return kCheckCannotBeginCode;
    }
    if (!WriteAll(out, FormatCheckLine(CheckResponseLine{answer->found, answer->bytes.size()})) ||
        !WriteAll(out, answer->bytes)) {
      return 0;  // The reader has closed its end.
    }
  }
  if (line.empty()) return 0;
  if (line.size() >= kMaxCheckLineBytes) {
    std::cerr << "baton-worker check: the line of a request has " << kMaxCheckLineBytes
              << " bytes or more\n";
  } else {
    std::cerr << "baton-worker check: the input ended in the middle of a request\n";
  }
  return 1;
}

}  // namespace baton
