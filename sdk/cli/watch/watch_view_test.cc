#include "sdk/cli/watch/watch_view.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WatchViewTest : public ::testing::Test {
 protected:
  WatchViewTest() {
    job_.set_name("projects/default/jobs/add");
    job_.set_state(v1::Job::STATE_RUNNING);
    job_.set_total_steps(100);
  }

  WatchView View(bool terminal = false, size_t width = 80) {
    WatchViewOptions options;
    options.terminal = terminal;
    options.width = width;
    options.print = [this](absl::string_view text) { absl::StrAppend(&out_, text); };
    options.now = [this] { return now_; };
    return WatchView(job_, std::move(options));
  }
  v1::JobEvent Event(const std::string& type, int64_t step, const std::string& message = "") const {
    v1::JobEvent event;
    event.set_revision(1);
    event.set_type(type);
    event.set_step(step);
    event.set_message(message);
    event.mutable_time()->set_seconds(absl::ToUnixSeconds(now_));
    return event;
  }
  v1::JobEvent State(v1::Job::State state) const {
    v1::JobEvent event = Event("state", 0);
    event.set_state(state);
    return event;
  }
  v1::JobEvent Progress(const std::string& phase, int64_t done, int64_t total) const {
    v1::JobEvent event = Event("progress", 0);
    event.set_phase(phase);
    event.set_phase_done(done);
    event.set_phase_total(total);
    return event;
  }
  static v1::ExplainJobResponse Waits(const std::string& subject, const std::string& cause,
                                      int64_t seconds) {
    v1::ExplainJobResponse answer;
    v1::Wait& wait = *answer.add_waits();
    wait.set_kind("workers");
    wait.set_subject(subject);
    wait.set_cause(cause);
    wait.mutable_since()->set_seconds(seconds);
    answer.add_waits()->set_cause("what follows from it");
    return answer;
  }
  /// The trainer's update, begun `seconds` ago and allowed an hour.
  static v1::ExplainJobResponse Updates(int64_t step, int64_t seconds) {
    v1::ExplainJobResponse answer;
    v1::Wait& wait = *answer.add_waits();
    wait.set_kind("update");
    wait.set_subject(absl::StrCat("step ", step));
    wait.set_cause("worker actor-0 to finish update");
    wait.mutable_since()->set_seconds(seconds);
    wait.mutable_deadline_in()->set_seconds(3600 - seconds);
    wait.set_action("the trainer restarts from its checkpoint");
    return answer;
  }
  // The output since the last call.
  std::string Out() { return std::exchange(out_, ""); }
  void Pass(int seconds) { now_ += absl::Seconds(seconds); }

  v1::Job job_;
  std::string out_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
};

TEST_F(WatchViewTest, TheStateComesFirst) {
  job_.set_step(41);
  job_.set_phase("training");
  WatchView view = View();
  view.Header(job_);
  EXPECT_EQ(Out(), "add is RUNNING, training, step 41 of 100\n");
}

// Ten steps a second: a line every five seconds, and the last step of all.
TEST_F(WatchViewTest, WithoutATerminalFastStepsAreALineEveryFewSeconds) {
  WatchView view = View();
  int lines = 0;
  for (int step = 1; step <= 100; ++step) {
    now_ += absl::Milliseconds(100);
    view.OnEvent(Event("step", step));
    if (step % 5 == 0) view.OnTick();
    const std::string out = Out();
    lines += static_cast<int>(std::count(out.begin(), out.end(), '\n'));
    if (step == 1) EXPECT_EQ(out, "step 1/100\n");
  }
  EXPECT_EQ(lines, 2);  // steps 1 and 51
  view.OnEvent(State(v1::Job::STATE_SUCCEEDED));
  EXPECT_EQ(Out(), "step 100/100\nstate SUCCEEDED\n");
}

TEST_F(WatchViewTest, WithoutATerminalTheFirstStepIsPrintedAtOnce) {
  WatchView view = View();
  view.OnEvent(State(v1::Job::STATE_RUNNING));
  view.OnEvent(Event("step", 1));
  view.OnEvent(Event("step", 2));
  EXPECT_EQ(Out(), "state RUNNING\nstep 1/100\n");
}

TEST_F(WatchViewTest, WithoutATerminalALongPhaseIsALineEveryFewSeconds) {
  WatchView view = View();
  view.OnEvent(Event("step", 3));
  EXPECT_EQ(Out(), "step 3/100\n");
  std::string out;
  for (int i = 1; i <= 24; ++i) {  // 12 seconds
    now_ += absl::Milliseconds(500);
    view.OnEvent(Progress("generating", i, 64));
    view.OnTick();
    out += Out();
  }
  EXPECT_EQ(out, "step 3/100  generating 10/64\nstep 3/100  generating 20/64\n");
}

TEST_F(WatchViewTest, AQueuedJobSaysWhatItWaitsFor) {
  job_.set_state(v1::Job::STATE_QUEUED);
  WatchView view = View();
  ASSERT_TRUE(view.WantsReason());
  view.OnExplained(Waits("job add", "1 actor worker", 1));
  EXPECT_EQ(Out(), "job add has waited 1s for 1 actor worker\n");
  // An unchanged reason is repeated ever more rarely: after 5, 10, 20 and 40 seconds, then every
  // minute.
  std::string out;
  for (int seconds = 2; seconds <= 140; ++seconds) {
    Pass(1);
    view.OnExplained(Waits("job add", "1 actor worker", seconds));
    out += Out();
  }
  EXPECT_EQ(out,
            "job add has waited 6s for 1 actor worker\n"
            "job add has waited 16s for 1 actor worker\n"
            "job add has waited 36s for 1 actor worker\n"
            "job add has waited 1m16s for 1 actor worker\n"
            "job add has waited 2m16s for 1 actor worker\n");
  view.OnExplained(Waits("job copy", "1 rollout worker", 141));  // another reason: at once
  EXPECT_THAT(Out(), HasSubstr("1 rollout worker"));
  view.OnEvent(State(v1::Job::STATE_SUCCEEDED));
  EXPECT_FALSE(view.WantsReason());
}

// A wait that every start has for a moment is no news.
TEST_F(WatchViewTest, AShortWaitOfAStartIsNotPrinted) {
  job_.set_state(v1::Job::STATE_STARTING);
  WatchView view = View();
  ASSERT_TRUE(view.WantsReason());
  view.OnExplained(Waits("role actor", "worker actor-0 to take on the role", 1));
  EXPECT_EQ(Out(), "");
  view.OnExplained(Waits("role actor", "worker actor-0 to take on the role", 3));
  EXPECT_EQ(Out(), "role actor has waited 3s for worker actor-0 to take on the role\n");
}

TEST_F(WatchViewTest, ARunningJobThatIsSilentSaysWhatItWaitsFor) {
  WatchView view = View();
  view.OnEvent(Event("step", 3));
  Out();
  Pass(4);
  EXPECT_FALSE(view.WantsReason());
  Pass(1);
  EXPECT_TRUE(view.WantsReason());
  view.OnExplained(Waits("step 4", "worker actor-0 to finish update", 5));
  EXPECT_EQ(Out(), "step 3/100  step 4 has waited 5s for worker actor-0 to finish update\n");
  view.OnEvent(Event("step", 4));
  view.OnExplained(Waits("step 4", "worker actor-0 to finish update", 5));  // asked before
  EXPECT_THAT(Out(), Not(HasSubstr("waits")));
}

// Ten steps of a minute: each step's line, and between them now and then what the job does.
TEST_F(WatchViewTest, HealthyUpdatesOfAMinuteAreNoAlarm) {
  WatchView view = View();
  int works = 0;
  for (int step = 1; step <= 10; ++step) {
    view.OnEvent(Progress("training", 0, 0));
    for (int seconds = 1; seconds < 60; ++seconds) {
      Pass(1);
      view.OnTick();
      if (view.WantsReason()) view.OnExplained(Updates(step, seconds));
      const std::string out = Out();
      EXPECT_THAT(out, Not(HasSubstr("has waited"))) << step;
      works += absl::StrContains(out, "training, ") ? 1 : 0;
    }
    Pass(1);
    view.OnEvent(Event("step", step));
    EXPECT_THAT(Out(), HasSubstr(absl::StrCat("step ", step, "/100")));
  }
  EXPECT_LE(works, 13);  // four in the first minute, then one a minute
  EXPECT_GE(works, 10);
}

TEST_F(WatchViewTest, WorkThatTakesLongSaysWhatItWaitsForAndUntilWhen) {
  WatchView view = View();
  view.OnEvent(Progress("training", 0, 0));
  Pass(5);
  view.OnExplained(Updates(1, 5));
  EXPECT_EQ(Out(), "step 0/100  training, 5s\n");
  Pass(1795);  // half of the hour, and no step has been timed
  view.OnExplained(Updates(1, 1800));
  EXPECT_EQ(Out(),
            "step 0/100  step 1 has waited 30m00s for worker actor-0 to finish update; in 30m00s "
            "the trainer restarts from its checkpoint\n");
  view.OnPast(Event("step", 1));
  Pass(20);
  view.OnPast(Event("step", 2));
  view.OnEvent(Progress("training", 0, 0));
  Out();
  Pass(40);
  view.OnExplained(Updates(3, 40));
  EXPECT_THAT(Out(), HasSubstr("training, 40s"));
  Pass(1);
  view.OnExplained(Updates(3, 41));  // steps take 20 s
  EXPECT_THAT(Out(), HasSubstr("step 3 has waited 41s for worker actor-0 to finish update"));
}

// Steps of 20 s, then an update of five minutes that gets on: a micro-batch every 15 s.
TEST_F(WatchViewTest, ALongUpdateThatGetsOnIsNoAlarm) {
  WatchView view = View();
  for (int step = 1; step <= 3; ++step) {
    view.OnPast(Event("step", step));
    Pass(20);
  }
  Out();
  std::string out;
  for (int seconds = 1; seconds <= 300; ++seconds) {
    Pass(1);
    if (seconds % 15 == 1) view.OnEvent(Progress("training", 1 + seconds / 15, 20));
    view.OnTick();
    if (view.WantsReason()) view.OnExplained(Updates(4, seconds));
    out += Out();
  }
  EXPECT_THAT(out, Not(HasSubstr("has waited")));
  EXPECT_THAT(out, HasSubstr("step 3/100  left 32m20s  training 2/20, 21s\n"));
  EXPECT_THAT(out, HasSubstr("training 20/20"));
  Pass(41);  // not a word for longer than two steps
  view.OnExplained(Updates(4, 341));
  EXPECT_THAT(Out(), HasSubstr("step 4 has waited 5m41s for worker actor-0 to finish update"));
}

// Steps of 2 s, and a checkpoint that takes half a minute to save.
TEST_F(WatchViewTest, AFewSecondsOfWorkAreNoAlarmHoweverFastTheStepsAre) {
  WatchView view = View();
  for (int step = 1; step <= 3; ++step) {
    view.OnPast(Event("step", step));
    Pass(2);
  }
  view.OnEvent(Progress("saving a checkpoint", 0, 0));
  Out();
  v1::ExplainJobResponse answer = Updates(3, 29);
  answer.mutable_waits(0)->set_kind("save_checkpoint");
  Pass(29);
  view.OnExplained(answer);
  EXPECT_THAT(Out(), HasSubstr("saving a checkpoint, 29s"));
  Pass(1);
  answer.mutable_waits(0)->mutable_since()->set_seconds(30);
  view.OnExplained(answer);
  EXPECT_THAT(Out(), HasSubstr("has waited 30s"));
}

TEST_F(WatchViewTest, TheHeaderSaysHowMuchOfThePhaseIsDone) {
  job_.set_step(41);
  job_.set_phase("training");
  job_.set_phase_done(3);
  job_.set_phase_total(8);
  WatchView view = View();
  view.Header(job_);
  EXPECT_EQ(Out(), "add is RUNNING, training 3/8, step 41 of 100\n");
}

TEST_F(WatchViewTest, ATerminalShowsHowLongTheWorkOfAStepTakes) {
  WatchView view = View(/*terminal=*/true);
  view.OnEvent(Progress("training", 0, 0));
  Out();
  Pass(30);
  view.OnExplained(Updates(1, 30));
  EXPECT_EQ(Out(), "\r\033[K░░░░░░░░░░░░░░░░░░░░░░░░ step 0/100  training, 30s");
}

// Steps of 2 s each, then ten minutes without the trainer, which goes back from step 10 to step 6.
TEST_F(WatchViewTest, TheTimeLeftIsThatOfStepsAndNotOfARecovery) {
  WatchView view = View();
  for (int step = 1; step <= 10; ++step) {
    view.OnPast(Event("step", step));
    Pass(2);
  }
  EXPECT_THAT(Out(), HasSubstr("step 10/100  left 3m00s\n"));  // 90 steps of 2 s
  view.OnEvent(State(v1::Job::STATE_RECOVERING));
  Pass(600);
  view.OnEvent(State(v1::Job::STATE_RUNNING));
  Pass(2);
  view.OnPast(Event("step", 7));
  EXPECT_THAT(Out(), HasSubstr("step 7/100  left 3m06s\n"));  // 93 steps of 2 s
  Pass(2);
  view.OnPast(Event("step", 8));
  EXPECT_EQ(Out(), "step 8/100  left 3m04s\n");
}

// A step that comes again without a word of a recovery is no measure either.
TEST_F(WatchViewTest, IgnoresRepeatedStepsInTheTimeLeft) {
  WatchView view = View();
  view.OnPast(Event("step", 5));
  Pass(300);
  view.OnPast(Event("step", 4));
  EXPECT_EQ(Out(), "step 5/100\nstep 4/100\n");
  Pass(3);
  view.OnPast(Event("step", 5));
  EXPECT_EQ(Out(), "step 5/100  left 4m45s\n");  // 95 steps of 3 s
}

TEST_F(WatchViewTest, AStepOfAnAsyncJobHasStalenessBufferAndIdleShares) {
  WatchView view = View();
  v1::JobEvent step = Event("step", 7);
  auto& metrics = *step.mutable_metrics();
  metrics["critic/score/mean"] = 0.25;
  metrics["idle/trainer"] = 0.126;
  metrics["idle/rollouts"] = 0.4;
  view.OnEvent(step);
  EXPECT_EQ(Out(), "step 7/100  reward 0.250\n") << "of mode sync";
  Pass(10);
  metrics["staleness/mean"] = 0.5;
  metrics["staleness/max"] = 2;
  metrics["buffer/complete_groups"] = 3;
  metrics["buffer/open_groups"] = 16;
  step.set_step(8);
  step.mutable_time()->set_seconds(absl::ToUnixSeconds(now_));
  view.OnEvent(step);
  EXPECT_EQ(Out(),
            "step 8/100  reward 0.250  left 15m20s  staleness 0.500/2  buffer 3/16  "
            "idle trainer 13% rollouts 40%\n");
}

TEST_F(WatchViewTest, ASilentAsyncJobSaysWhatEachSideWaitsFor) {
  WatchView view = View();
  view.OnEvent(Event("step", 3));
  Out();
  Pass(5);
  v1::ExplainJobResponse answer = Waits("step 4", "worker rollout-0", 5);
  const auto add = [&](const std::string& kind, const std::string& subject,
                       const std::string& cause, const std::string& action) {
    v1::Wait& wait = *answer.add_waits();
    wait.set_kind(kind);
    wait.set_subject(subject);
    wait.set_cause(cause);
    wait.set_action(action);
    wait.mutable_since()->set_seconds(5);
  };
  add("batch", "step 4", "2 complete groups", "the trainer goes on with them");
  add("staleness", "rollouts", "the trainer", "");
  view.OnExplained(answer);
  EXPECT_EQ(Out(),
            "step 3/100  step 4 has waited 5s for worker rollout-0  step 4 has waited 5s for 2 "
            "complete groups; the trainer goes on with them  rollouts has waited 5s for the "
            "trainer\n");
}

TEST_F(WatchViewTest, AnEvaluationHasItsNumbers) {
  WatchView view = View();
  view.OnEvent(Event("evaluation", 20, "accuracy 0.9375, reward 0.94"));
  EXPECT_EQ(Out(), "step 20  evaluation: accuracy 0.9375, reward 0.94\n");
}

TEST_F(WatchViewTest, ATerminalRedrawsOneLineThatNeverWraps) {
  WatchView view = View(/*terminal=*/true, /*width=*/60);
  v1::JobEvent step = Event("step", 50);
  (*step.mutable_metrics())["critic/score/mean"] = 0.25;
  view.OnEvent(step);
  EXPECT_EQ(Out(), "\r\033[K████████████░░░░░░░░░░░░ step 50/100  reward 0.250");
  Pass(30);
  view.OnExplained(Waits("step 51", "worker rollout-0, which has not answered for long", 30));
  std::string out = Out();
  EXPECT_THAT(out, Not(HasSubstr("\n")));
  EXPECT_THAT(out, HasSubstr("reward 0.250  step 5…"));
  size_t characters = 0;
  for (char c : out) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  EXPECT_LE(characters - 4, 60u);  // but for "\r\033[K"
  view.OnEvent(Event("warning", 50, "a worker is slow"));
  out = Out();
  EXPECT_THAT(out, HasSubstr("\r\033[Kstep 50  warning: a worker is slow\n\r\033[K█"));
  view.OnEvent(State(v1::Job::STATE_SUCCEEDED));
  EXPECT_EQ(Out(), "\r\033[Kstate SUCCEEDED\n");
}

TEST_F(WatchViewTest, ATerminalPrintsTheReasonOfAQueuedJobOnceInFull) {
  job_.set_state(v1::Job::STATE_QUEUED);
  WatchView view = View(/*terminal=*/true, /*width=*/40);
  const std::string cause = "1 actor worker to attach or to become free";
  view.OnExplained(Waits("job add", cause, 1));
  EXPECT_THAT(Out(), HasSubstr("job add has waited 1s for " + cause + "\n"));
  Pass(10);
  view.OnExplained(Waits("job add", cause, 11));
  EXPECT_THAT(Out(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace baton::cli
