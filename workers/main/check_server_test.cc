#include "workers/main/check_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/process/memory_file.h"
#include "workers/main/check_limits.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

int began = -1;  // a pipe's end for the order "spin"

// The model path of a spec tells the checking process what to do.
absl::StatusOr<v1::ValidateJobResponse> Obey(const v1::JobSpec& spec,
                                             const CheckRequestLine& request) {
  static int checked = 0;
  const std::string& order = spec.model().path();
  if (order == "die") ::raise(SIGKILL);
  if (order == "exit") std::exit(7);
  if (order == "refuse") return absl::InvalidArgumentError("there is no folder");
  if (order == "spin") {
    static_cast<void>(!::write(began, "x", 1));
    while (true) static_cast<void>(::getppid());
  }
  static volatile size_t much = size_t{1} << 40;
  if (order == "devour") return absl::InternalError(std::string(much, 'x'));
  if (order == "print") std::cout << "a word" << std::flush;
  v1::ValidateJobResponse answer;
  if (order == "flood") answer.add_violations()->set_description(std::string(17 << 20, 'x'));
  answer.mutable_effective_spec()->mutable_model()->set_path(
      absl::StrCat(order, ", the ", ++checked, ". for ", request.folder));
  return answer;
}

class CheckServerTest : public ::testing::Test {
 protected:
  // At most so many files may be open in the server; negative: as in the test.
  explicit CheckServerTest(int max_files = -1) {
    static_cast<void>(!::pipe2(pipe_, O_CLOEXEC));
    began = pipe_[1];
    int ends[2] = {-1, -1};
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    server_ = ::fork();
    if (server_ == 0) {
      ::close(ends[0]);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(said_.fd(), STDERR_FILENO);
      if (max_files >= 0) {
        const rlimit few = {static_cast<rlim_t>(max_files), static_cast<rlim_t>(max_files)};
        ::setrlimit(RLIMIT_NOFILE, &few);
      }
      ::_exit(ServeChecks(ends[1], STDOUT_FILENO, Obey));
    }
    ::close(ends[1]);
    end_ = ends[0];
  }
  ~CheckServerTest() override {
    if (server_ > 0) Leave();
    ::close(end_);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  // No more is asked; answers the exit code.
  int Leave() {
    ::shutdown(end_, SHUT_WR);
    int status = 0;
    ::waitpid(server_, &status, 0);
    server_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void Send(const std::string& bytes) const {
    ASSERT_EQ(::write(end_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void Ask(const std::string& order, int64_t seconds = 60) const {
    v1::JobSpec spec;
    spec.mutable_model()->set_path(order);
    const std::string bytes = spec.SerializeAsString();
    Send(FormatCheckLine(CheckRequestLine{bytes.size(), seconds, 0, "/a folder"}) + bytes);
  }
  std::string Read(size_t bytes) const {
    std::string out(bytes, '\0');
    const ssize_t n = bytes == 0 ? 0 : ::recv(end_, out.data(), bytes, MSG_WAITALL);
    out.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return out;
  }
  // "found PATH" or "failed WHY".
  std::string Answer() const {
    std::string line;
    for (std::string next = Read(1); next != "\n" && !next.empty(); next = Read(1)) line += next;
    const auto response = ParseCheckResponseLine(line);
    if (!response.ok()) return std::string(response.status().message());
    const std::string bytes = Read(response->bytes);
    if (!response->found) return absl::StrCat("failed: ", bytes);
    v1::ValidateJobResponse answer;
    return answer.ParseFromString(bytes)
               ? absl::StrCat("found ", answer.effective_spec().model().path())
               : "no answer";
  }

  int pipe_[2] = {-1, -1};
  MemoryFile said_{"said"};  // on standard error
  int end_ = -1;
  pid_t server_ = -1;
};

TEST_F(CheckServerTest, ManyRequestsAreAnsweredInOrderAndKnowNothingOfEachOther) {
  Ask("a");
  Ask("b");
  EXPECT_EQ(Answer(), "found a, the 1. for /a folder");
  EXPECT_EQ(Answer(), "found b, the 1. for /a folder");
  for (int i = 0; i < 50; ++i) {
    Ask("c");
    ASSERT_EQ(Answer(), "found c, the 1. for /a folder");
  }
  EXPECT_EQ(Leave(), 0);
}

TEST_F(CheckServerTest, ReportsWhyACheckEndedAndServesTheNext) {
  Ask("die");
  EXPECT_EQ(Answer(), "failed: was killed by signal 9");
  Ask("exit");
  EXPECT_EQ(Answer(), "failed: ended with exit code 7");
  Ask("refuse");
  EXPECT_EQ(Answer(), "failed: there is no folder");
  Ask("flood");
  EXPECT_THAT(Answer(), HasSubstr("bytes, more than 16777216"));
  Ask("a");
  EXPECT_EQ(Answer(), "found a, the 1. for /a folder");
}

TEST_F(CheckServerTest, EachRequestHasItsOwnProcessorTime) {
  for (int i = 0; i < 2; ++i) {
    Ask("spin", 1);
    EXPECT_EQ(Answer(), absl::StrCat("failed: was killed by signal ", SIGKILL));
  }
}

TEST_F(CheckServerTest, MemoryIsBounded) {
  if (!kCheckBoundsMemory) GTEST_SKIP() << "a sanitizer";
  Ask("devour");
  EXPECT_THAT(Answer(), HasSubstr("needs more memory"));
}

TEST_F(CheckServerTest, IgnoresWhatACheckPrints) {
  Ask("print");
  EXPECT_EQ(Answer(), "found print, the 1. for /a folder");
}

TEST_F(CheckServerTest, WhenItIsEndedItsForkIsReaped) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // an orphan of it would become a child of this process
  Ask("spin");
  char byte = 0;
  ASSERT_EQ(::read(pipe_[0], &byte, 1), 1);
  ::kill(server_, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(server_, &status, 0), server_);
  server_ = 0;
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(::waitpid(-1, &status, 0), -1);
  EXPECT_EQ(errno, ECHILD);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(CheckServerTest, WithNothingToDoItEndsAtOnce) {
  Ask("a");
  EXPECT_EQ(Answer(), "found a, the 1. for /a folder");
  ::kill(server_, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(server_, &status, 0), server_);
  server_ = 0;
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

class ShortCheckServerTest : public CheckServerTest {
 protected:
  ShortCheckServerTest() : CheckServerTest(0) {}
};

TEST_F(ShortCheckServerTest, ReportsAShortageOfTheMachineByItsExitCode) {
  Ask("a");
  EXPECT_EQ(Leave(), kCheckCannotBeginCode);
  EXPECT_THAT(Read(1), IsEmpty());
}

TEST_F(CheckServerTest, OtherInputEndsIt) {
  Send("hello\n");
  EXPECT_EQ(Leave(), 1);
  EXPECT_THAT(Read(1), IsEmpty());
}

TEST_F(CheckServerTest, ARequestThatIsCutOffIsAnError) {
  Send("check 10 1 0 /a\nhalf");
  EXPECT_EQ(Leave(), 1);
  EXPECT_THAT(said_.ReadEnd(1000), HasSubstr("ended in the middle of a request"));
}

TEST_F(CheckServerTest, ReportsALineThatIsTooLong) {
  Send(std::string(kMaxCheckLineBytes, 'x') + "\n");
  EXPECT_EQ(Leave(), 1);
  EXPECT_THAT(said_.ReadEnd(1000), HasSubstr("the line of a request has 8192 bytes or more"));
}

}  // namespace
}  // namespace baton
