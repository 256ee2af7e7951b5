#include "sdk/cli/shared/controller_seen.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/cli/shared/state_file.h"
#include "tests/support/sdk/command_line.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A process that is stopped: the kernel takes connections for it, and nothing answers.
class StoppedControllerTest : public CommandTest {
 protected:
  StoppedControllerTest() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~StoppedControllerTest() override { ::close(fd_); }
  Outcome Run(std::vector<std::string> arguments) const override {
    arguments.insert(arguments.end(), {"--state-dir", folder_.path()});
    return RunBaton(arguments);
  }

  const int fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string address_;
};

TEST_F(StoppedControllerTest, CallsFailSoonWithoutAdvisingToStartAController) {
  for (const char* call : {"jobs", "workers"}) {
    const absl::Time begin = absl::Now();
    const Outcome outcome = Run({call, "--controller", address_});
    EXPECT_LT(absl::Now() - begin, absl::Seconds(12)) << call;
    EXPECT_EQ(outcome.code, 4);
    EXPECT_THAT(outcome.err,
                HasSubstr("something listens at " + address_ + " but does not answer"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("baton up")));
  }
}

TEST_F(StoppedControllerTest, StatusAsksTheControllerItself) {
  const auto lock = StateLock::Take(folder_.path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  ClusterState state;
  state.supervisor = ::getpid();
  state.controller = address_;
  state.ready = true;
  state.processes = {{"controller", ::getpid(), 0, 0, "controller.log"}};
  ASSERT_TRUE(WriteStateFile(folder_.path(), state).ok());
  Outcome outcome = Run({"status"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("something listens at " + address_));
  outcome = Run({"status", "-o", "json"});
  EXPECT_EQ(outcome.code, 4);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["up"], false);
  EXPECT_EQ(json["controller_seen"], "silent");
}

TEST(OutageNoticeTest, ReportsTheStartRemindersAndTheEndOfAnOutage) {
  OutageNotice notice("host:7077");
  const auto after = [&](int seconds, bool over = false) {
    return notice.TextOf({absl::UnavailableError("no route"), absl::Seconds(seconds), over});
  };
  EXPECT_EQ(after(0, true), "");
  EXPECT_EQ(after(0),
            "no connection to the controller at host:7077 (no route); it is tried again, "
            "and the job goes on");
  EXPECT_EQ(after(14), "");
  EXPECT_EQ(after(15), "still no connection to the controller at host:7077 after 15s (no route)");
  EXPECT_EQ(after(29), "");
  EXPECT_EQ(after(31), "still no connection to the controller at host:7077 after 31s (no route)");
  EXPECT_EQ(after(40, true),
            "the controller at host:7077 answers again after 40s; nothing is left out");
  EXPECT_THAT(after(0), HasSubstr("it is tried again"));
}

TEST(SeenTextTest, GivesAdviceForEachProbeResult) {
  using What = ServerSeen::What;
  EXPECT_THAT(SeenText("h:1", {What::kNothingListens, ""}), HasSubstr("`baton up`"));
  EXPECT_THAT(SeenText("h:1", {What::kNotReady, "the disk is full"}),
              HasSubstr("answers, and is not ready: the disk is full"));
  EXPECT_THAT(SeenText("h:1", {What::kAway, "No route to host"}), HasSubstr("is the network up"));
  EXPECT_THAT(SeenText("h:1", {What::kOther, "x"}), HasSubstr("is not a controller of Baton"));
}

}  // namespace
}  // namespace baton::cli
