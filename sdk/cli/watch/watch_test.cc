// `watch` against a service made up for it: what of the past is shown, why a job waits, Ctrl-C.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/cli/shared/fake_job_service.h"
#include "tests/support/sdk/command_line.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WatchTest : public CommandTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) const override {
    arguments.insert(arguments.end(), {"--controller", service_.address()});
    return RunBaton(arguments);
  }
  static v1::JobEvent Happened(int64_t revision, const std::string& type, int64_t step) {
    v1::JobEvent event;
    event.set_revision(revision);
    event.set_type(type);
    event.set_step(step);
    event.mutable_time()->set_seconds(1000 + revision);
    return event;
  }
  static v1::JobEvent Became(int64_t revision, v1::Job::State state) {
    v1::JobEvent event = Happened(revision, "state", 0);
    event.set_state(state);
    return event;
  }
  // 20 steps, revisions 2 to 21, of a job that then succeeds.
  void MakeLongJob() {
    service_.job.set_total_steps(21);
    service_.job.set_step(20);
    service_.job.set_revision(21);
    std::vector<v1::JobEvent> events = {Became(1, v1::Job::STATE_RUNNING)};
    for (int step = 1; step <= 20; ++step) events.push_back(Happened(step + 1, "step", step));
    events.push_back(Happened(22, "step", 21));
    events.push_back(Became(23, v1::Job::STATE_SUCCEEDED));
    service_.watches = {events};
  }

  FakeJobService service_;
};

TEST_F(WatchTest, ShowsTheStateAndTheLastTenStepsThenWhatHappens) {
  MakeLongJob();
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              StartsWith("add is RUNNING, step 20 of 21\nstep 11/21\nstep 12/21  left"));
  EXPECT_THAT(outcome.out, HasSubstr("step 20/21  left 1s\nstep 21/21\nstate SUCCEEDED\n"));
  // The summary is of the three steps that the service has numbers of.
  EXPECT_THAT(outcome.out, EndsWith("reward 0.250 → 0.750: step 1 and step 3\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("step 10/21")));
}

TEST_F(WatchTest, ShowsAllFromTheStart) {
  MakeLongJob();
  const Outcome outcome = Run({"watch", "add", "--from-start"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("state RUNNING\nstep 1/21\nstep 2/21  left 19s\n"));
  EXPECT_THAT(outcome.out, HasSubstr("step 21/21\nstate SUCCEEDED\n"));
  EXPECT_THAT(service_.watched_after, ElementsAre(0));
  EXPECT_EQ(Run({"watch", "add", "--from-start", "--after", "3"}).code, 2);
}

// The past ends as the job did, although the header has the state too.
TEST_F(WatchTest, PrintsTheEndOfAnEndedJobLast) {
  service_.job.set_state(v1::Job::STATE_SUCCEEDED);
  service_.job.set_revision(3);
  service_.watches = {{Happened(1, "step", 10), Became(2, v1::Job::STATE_STOPPING),
                       Became(3, v1::Job::STATE_SUCCEEDED)}};
  EXPECT_EQ(
      Run({"watch", "add"}).out,
      "add is SUCCEEDED, step 3 of 10\nstep 10/10\nstate STOPPING\nstate SUCCEEDED\n"
      "2 checkpoints take 554.1kB: `baton checkpoints add` lists them; `baton delete add` deletes "
      "the job with its files\n"
      "reward 0.250 → 0.750: step 1 and step 3\n");
}

TEST_F(WatchTest, NoMessageCommandsTheTerminal) {
  v1::JobEvent warning = Happened(501, "warning", 3);
  warning.set_message("a\x1b[2Jb\u009bc\nd");
  v1::JobEvent end = Became(502, v1::Job::STATE_FAILED);
  end.set_message("e\x1b[2Jf");
  service_.watches = {{warning, end}};
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_THAT(outcome.out, HasSubstr("step 3  warning: a [2Jb c⏎d\n"));
  EXPECT_THAT(outcome.err, HasSubstr("the job failed: e [2Jf\n"));
}

TEST_F(WatchTest, JsonHasTheSameEvents) {
  MakeLongJob();
  Outcome outcome = Run({"watch", "add", "-o", "json"});
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 12);
  EXPECT_EQ(nlohmann::json::parse(outcome.out.substr(0, outcome.out.find('\n')))["step"], "11");
  service_.watched_after.clear();
  outcome = Run({"watch", "add", "-o", "json", "--from-start"});
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 23);
}

// An outage before the first event is told too: the stream was open.
TEST_F(WatchTest, AnOutageIsSpokenOfAndNothingIsLeftOut) {
  service_.job.set_revision(0);
  service_.watches = {{}, {Happened(1, "step", 1)}, {Became(2, v1::Job::STATE_SUCCEEDED)}};
  const Outcome outcome = Run({"watch", "add", "-o", "json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(service_.watched_after, ElementsAre(0, 0, 1));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2);
  EXPECT_THAT(outcome.err, HasSubstr(absl::StrCat(
                               "baton: no connection to the controller at ", service_.address(),
                               " (the stream breaks); it is tried "
                               "again, and the job goes on\nbaton: the controller at ",
                               service_.address(),
                               " answers again after 0s; nothing is "
                               "left out\n")));
}

// Between the first answer of the controller and the stream.
TEST_F(WatchTest, AnOutageBeforeTheStreamOpensIsNoWrongAddress) {
  service_.unopened = 1;
  service_.watches = {{Became(1, v1::Job::STATE_SUCCEEDED)}};
  const Outcome outcome = Run({"watch", "add", "-o", "json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("(the link is down); it is tried again"));
}

// A job that went on from another controller's checkpoint has a revision, and no events before it.
TEST_F(WatchTest, AJobWithoutItsOldEventsIsWatchedFromNowOn) {
  service_.job.set_revision(500);
  service_.watches = {{Happened(501, "step", 10), Became(502, v1::Job::STATE_SUCCEEDED)}};
  service_.oldest_event = 501;
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(
      outcome.out,
      "add is RUNNING, step 3 of 10\nstep 10/10\nstate SUCCEEDED\n"
      "2 checkpoints take 554.1kB: `baton checkpoints add` lists them; `baton delete add` deletes "
      "the job with its files\n"
      "reward 0.250 → 0.750: step 1 and step 3\n");
}

TEST_F(WatchTest, SaysWhatAQueuedJobWaitsFor) {
  service_.job.set_state(v1::Job::STATE_QUEUED);
  v1::Wait& wait = *service_.explanation.add_waits();
  wait.set_subject("job add");
  wait.set_cause("1 actor worker to attach or to become free");
  wait.mutable_since()->set_seconds(12);
  wait.set_action("it goes on as soon as they exist");
  service_.watches = {{Became(1, v1::Job::STATE_SUCCEEDED)}};
  // Asked again, it has said what it was told.
  service_.before_events = [this] { service_.AwaitCall("why projects/default/jobs/add", 2); };
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("add is QUEUED, step 3 of 10\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("job add has waited 12s for 1 actor worker to attach or to become free; "
                        "it goes on as soon as they exist\n"));
}

TEST_F(WatchTest, CtrlCSaysThatTheJobGoesOn) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  service_.watches = {{Became(1, v1::Job::STATE_RUNNING)}};
  service_.before_events = [] { ::kill(::getpid(), SIGINT); };
  const std::string address = service_.address();
  const std::vector<const char*> argv = {"baton", "watch", "add", "--controller", address.c_str()};
  EXPECT_EXIT(RunCommandLine(static_cast<int>(argv.size()), argv.data()),
              ::testing::ExitedWithCode(130),
              "the job goes on; `baton watch add --controller 127.0.0.1:[0-9]+` follows it again, "
              "`baton cancel add");
}

}  // namespace
}  // namespace baton::cli
