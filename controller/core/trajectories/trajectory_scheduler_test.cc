#include "controller/core/trajectories/trajectory_scheduler.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "controller/core/prompts/trajectory_uids.h"
#include "controller/core/trajectories/running_tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Next = TrajectoryScheduler::Next;

const absl::Time kZero = absl::FromUnixSeconds(1000);

// A step of two prompts with two responses each, on two rollouts and a reward worker.
struct OneStep {
  explicit OneStep(const std::string& reward = "",
                   const std::string& graph = R"(generate { purpose: "train" }
      score { node: "r" role: "reward" method: "compute_reward" out: "reward" }
      update { role: "actor" })")
      : scheduler(
            SubmittedJob(
                "kind: JOB_KIND_RL rollout { n: 2 } data { train_batch_size: 2 } " + reward, graph),
            options) {
    EXPECT_TRUE(data.Loaded({absl::OkStatus(), 8}, {}).ok());
    versions.Updated(out);
    versions.Published(Roster(), out.now());
    for (const char* worker : {"g0", "g1"}) {
      scheduler.queues().Of("rollout").AddWorker(worker, 4);
      scheduler.queues().Of("rollout").SetEnabled(worker, true);
      scheduler.queues().Of("rollout").SetVersion(worker, versions.newest());
    }
    for (const char* worker : {"s0", "s1"}) {
      scheduler.queues().Of("reward").AddWorker(worker, 8);
      scheduler.queues().Of("reward").SetEnabled(worker, true);
    }
  }
  TrajectoryScheduler::Context Context() { return {out, buffer, data, versions, many_versions}; }
  std::vector<StartTask> Dispatch() {
    scheduler.Dispatch(Context());
    return TakeAll<StartTask>(out);
  }
  // The tasks of a step that has begun.
  std::vector<StartTask> Begin() {
    BeginGroups(2);
    return Dispatch();
  }
  void BeginGroups(uint64_t groups) {
    scheduler.BeginWork(/*evaluates=*/false, groups * 2);
    for (uint64_t prompt_index = 0; prompt_index < groups; ++prompt_index) {
      const uint64_t trajectory_uid =
          trajectory_uids.Take(scheduler.table().plan().PerPrompt(), out);
      scheduler.AddGroup(scheduler.admission().MakeGroup(
          v1::PURPOSE_TRAIN, prompt_index, data.PromptOf(prompt_index), trajectory_uid,
          scheduler.table(), Context()));
    }
  }
  static TaskDone Answer(const StartTask& task, absl::Status status = absl::OkStatus()) {
    TaskDone done;
    done.worker = task.worker;
    done.ref = task.ref;
    done.output.tokens = 3;
    if (task.ref.kind == TaskKind::kScore) done.output.metrics["reward"] = 0.5;
    if (!status.ok()) done.output = {};
    done.status = std::move(status);
    return done;
  }
  Next Generated(const StartTask& task, absl::Status status = absl::OkStatus()) {
    verdict = scheduler.OnGenerated(Answer(task, std::move(status)), Context());
    return verdict.next;
  }
  Next Scored(const StartTask& task, absl::Status status = absl::OkStatus()) {
    verdict = scheduler.OnScored(Answer(task, std::move(status)), /*late=*/false, Context());
    return verdict.next;
  }
  // The only task that is assigned now.
  StartTask Only() {
    const std::vector<StartTask> tasks = Dispatch();
    EXPECT_EQ(tasks.size(), 1u);
    return tasks.at(0);
  }
  // Generates all responses; returns the tasks that score them.
  std::vector<StartTask> GenerateAll() {
    for (const StartTask& task : Begin()) Generated(task);
    return Dispatch();
  }

  JobCoreOptions options;
  bool many_versions = false;
  EffectSink out = SinkAt(kZero);
  ExperienceBuffer buffer;
  PromptData data;
  PolicyVersions versions;
  TrajectoryUids trajectory_uids;
  TrajectoryScheduler scheduler;
  TrajectoryScheduler::Verdict verdict;
};

// If a response's payload is lost, its scores are begun again, as attempts that no worker has seen.
// An earlier controller's scores had attempts of its own epoch.
TEST(TrajectorySchedulerTest, AScoreAfterALostPayloadHasANewName) {
  OneStep world;
  const std::vector<StartTask> scores = world.GenerateAll();
  TrajectoryInfo& trajectory = world.scheduler.table().At(scores.at(0).ref.subject);
  trajectory.tries.at(0).attempt = FirstAttempt(1) - 1;
  world.scheduler.table().Reset(trajectory, 1, world.out);
  EXPECT_EQ(trajectory.tries.at(0).attempt, FirstAttempt(1));
  trajectory.tries.at(0).attempt = FirstAttempt(1) + 3;
  world.scheduler.table().Reset(trajectory, 1, world.out);
  EXPECT_EQ(trajectory.tries.at(0).attempt, FirstAttempt(1) + 4);
}

TEST(TrajectorySchedulerTest, EachResponseIsGeneratedThenScoredThenReady) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  ASSERT_EQ(tasks.size(), 4u);
  for (const StartTask& task : tasks) {
    EXPECT_TRUE(IsWanted(world.scheduler, task.worker, task.ref));
    EXPECT_EQ(world.Generated(task), Next::kDone);
    EXPECT_FALSE(IsWanted(world.scheduler, task.worker, task.ref)) << "a second answer is stale";
  }
  EXPECT_TRUE(world.scheduler.AllGenerated());
  const std::vector<StartTask> scores = world.Dispatch();
  ASSERT_EQ(scores.size(), 4u);
  for (const StartTask& task : scores) {
    EXPECT_FALSE(world.scheduler.table().AllReady());
    EXPECT_EQ(world.Scored(task), Next::kDone);
  }
  EXPECT_TRUE(world.scheduler.table().AllReady());
  EXPECT_EQ(world.scheduler.table().all().begin()->second.scores.at("reward"), 0.5);
}

TEST(TrajectorySchedulerTest, AFailedGenerationGoesToAnotherWorkerUntilItFailedTooOften) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  for (size_t i = 1; i < tasks.size(); ++i) world.Generated(tasks[i]);
  world.Dispatch();  // their scores; both rollouts have room now
  StartTask task = tasks[0];
  for (uint32_t tries = 1; tries < world.options.max_attempts; ++tries) {
    ASSERT_EQ(world.Generated(task, absl::InternalError("out of memory")), Next::kAgain) << tries;
    const std::string before = task.worker;
    task = world.Only();
    EXPECT_NE(task.worker, before);
  }
  EXPECT_EQ(world.Generated(task, absl::InternalError("out of memory")), Next::kFails);
  EXPECT_THAT(std::string(world.verdict.status.message()), HasSubstr("out of memory"));
}

TEST(TrajectorySchedulerTest, CancellationsAndLostWorkersCountAsNoFailures) {
  OneStep world;
  StartTask task = world.Begin().at(0);
  for (uint32_t i = 0; i < 3 * world.options.max_attempts; ++i) {
    ASSERT_EQ(world.Generated(task, absl::CancelledError("stopped")), Next::kAgain) << i;
    task = world.Only();
  }
  for (uint32_t i = 0; i < 3 * world.options.max_attempts; ++i) {  // its worker is lost
    TakeTasksBack(world.scheduler, "rollout", task.worker, "", world.out);
    world.scheduler.queues().Of("rollout").AddWorker(task.worker, 4);
    world.scheduler.queues().Of("rollout").SetEnabled(task.worker, true);
    const std::vector<StartTask> again = world.Dispatch();
    const auto same = std::find_if(again.begin(), again.end(), [&](const StartTask& one) {
      return one.ref.subject == task.ref.subject;
    });
    ASSERT_NE(same, again.end());
    task = *same;
  }
  EXPECT_EQ(world.scheduler.table().At(task.ref.subject).failures, 0u);
  EXPECT_EQ(world.Generated(task, absl::InternalError("once")), Next::kAgain);
}

TEST(TrajectorySchedulerTest, CancelledScoresFailNoJobHoweverManyThereAre) {
  OneStep world("reward { max_error_rate: 0 }");
  StartTask task = world.GenerateAll().at(0);
  for (uint32_t i = 0; i < 3 * world.options.max_attempts; ++i) {
    ASSERT_EQ(world.Scored(task, absl::CancelledError("its worker moves")), Next::kAgain) << i;
    task = world.Only();
  }
  for (uint32_t i = 1; i < world.options.max_attempts; ++i) {
    ASSERT_EQ(world.Scored(task, absl::InternalError("boom")), Next::kAgain) << i;
    task = world.Only();
  }
  EXPECT_EQ(world.Scored(task, absl::InternalError("boom")), Next::kFails)
      << "the fourth failure of its own leaves it without a reward, and none may be";
}

TEST(TrajectorySchedulerTest, ABrokenRewardEndsTheJobAtOnce) {
  OneStep world;
  EXPECT_EQ(world.Scored(world.GenerateAll().at(0), absl::AbortedError("no such module")),
            Next::kFails);
}

TEST(TrajectorySchedulerTest, AResponseWithoutARewardIsReadyAndCountsAsAnError) {
  OneStep world("reward { max_error_rate: 0.5 }");
  const std::vector<StartTask> scores = world.GenerateAll();
  EXPECT_EQ(world.Scored(scores[0], absl::InvalidArgumentError("cannot parse")), Next::kDone);
  const TrajectoryInfo& first = world.scheduler.table().At(scores[0].ref.subject);
  EXPECT_EQ(first.state, TrajectoryState::kReady);
  EXPECT_EQ(first.failed, 1u);
  EXPECT_EQ(first.scores.count("reward"), 0u);
  EXPECT_EQ(world.Scored(scores[1], absl::InvalidArgumentError("cannot parse")), Next::kDone);
  EXPECT_EQ(world.Scored(scores[2], absl::InvalidArgumentError("cannot parse")), Next::kFails)
      << "three of four are more than half";
}

TEST(TrajectorySchedulerTest, AnErrorRewardStandsInForAnError) {
  OneStep world("reward { error_reward: -1 max_error_rate: 0.5 }");
  const std::vector<StartTask> scores = world.GenerateAll();
  EXPECT_EQ(world.Scored(scores[0], absl::InvalidArgumentError("cannot parse")), Next::kDone);
  const TrajectoryInfo& first = world.scheduler.table().At(scores[0].ref.subject);
  EXPECT_EQ(first.failed, 0u);
  EXPECT_EQ(first.scores.at("reward"), -1);
}

TEST(TrajectorySchedulerTest, AStalledGenerationMovesAndOneThatProgressesStays) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  const absl::Duration stall = world.options.generate_stall;
  world.scheduler.generations().Progressed({tasks[0].worker, tasks[0].ref, 1},
                                           world.scheduler.Work(), world.out.now());
  world.out.Begin(kZero + stall);
  for (size_t i = 1; i < tasks.size(); ++i) {
    if (tasks[i].worker == tasks[0].worker) {
      world.scheduler.generations().Progressed({tasks[i].worker, tasks[i].ref, 2},
                                               world.scheduler.Work(), world.out.now());
    } else {
      world.Generated(tasks[i]);  // the other rollout has room
    }
  }
  world.Dispatch();
  world.out.Begin(kZero + stall + absl::Seconds(1));
  EXPECT_TRUE(
      world.scheduler.generations().CheckStalls(world.scheduler.Work(), world.Context()).ok());
  const std::vector<StopTask> stopped = TakeAll<StopTask>(world.out);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_TRUE(stopped[0].ref == tasks[0].ref);
  EXPECT_NE(world.Only().worker, tasks[0].worker);
}

// A replica with more responses at once, or with a queue, is not slow.
TEST(TrajectorySchedulerTest, ThePaceOfARolloutIsTheTimeOfItsStepsAtEqualLoad) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  for (size_t i = 0; i < tasks.size(); ++i) {
    TaskDone done = OneStep::Answer(tasks[i]);
    const double rows = i % 2 == 0 ? 1 : 8;
    done.output.metrics[kStepRows] = rows;
    done.output.metrics[kStepSeconds] = 0.02 + 0.01 * rows;
    EXPECT_EQ(world.scheduler.OnGenerated(done, world.Context()).next, Next::kDone);
  }
  EXPECT_NEAR(world.scheduler.generations().step_cost().FixedRows(), 2, 1e-6);
}

// Newer weights are there: a response is stopped, and begins again before all others once its
// worker confirms the stop. This is no failure, and the older weights' tokens are a draft.
TEST(TrajectorySchedulerTest, ARecalledResponseIsMadeAgainWithADraft) {
  OneStep world("algorithm { mode: 'async' } schedule { refresh: 'auto' }");
  world.many_versions = true;
  TaskScheduler& rollouts = world.scheduler.queues().Of("rollout");
  rollouts.SetVersion("g0", 1);
  rollouts.SetVersion("g1", 1);
  const std::vector<StartTask> tasks = world.Begin();
  const StartTask& first = tasks.at(0);
  EXPECT_EQ(first.args.policy_version, 1u);
  world.scheduler.generations().Progressed({first.worker, first.ref, 5}, world.scheduler.Work(),
                                           kZero);

  world.scheduler.generations().Recall(first.ref.subject, "a test", world.scheduler.Work(),
                                       world.Context());
  world.scheduler.generations().Recall(first.ref.subject, "a test", world.scheduler.Work(),
                                       world.Context());
  EXPECT_EQ(TakeAll<StopTask>(world.out).size(), 1u) << "once is enough";
  EXPECT_TRUE(IsWanted(world.scheduler, first.worker, first.ref)) << "its last tokens are";
  EXPECT_THAT(world.Dispatch(), IsEmpty());

  EXPECT_EQ(world.Generated(tasks.at(1), absl::UnavailableError("hiccup")), Next::kAgain);
  TaskDone stopped = OneStep::Answer(first, absl::CancelledError("it was stopped"));
  stopped.output.tokens = 6;  // with those that were on their way
  EXPECT_EQ(world.scheduler.OnGenerated(stopped, world.Context()).next, Next::kAgain);
  EXPECT_EQ(world.scheduler.table().At(first.ref.subject).failures, 0u);
  rollouts.SetVersion("g0", 2);
  rollouts.SetVersion("g1", 2);
  const std::vector<StartTask> given = world.Dispatch();
  ASSERT_EQ(given.size(), 2u);
  const StartTask& again = given[0];
  EXPECT_EQ(again.ref.subject, first.ref.subject) << "before those that failed earlier";
  EXPECT_GT(again.ref.attempt, first.ref.attempt);
  EXPECT_EQ(again.args.policy_version, 2u);
  EXPECT_EQ(again.args.trajectory.tokens, 0u) << "none is of these weights yet";
  EXPECT_EQ(again.args.trajectory.drafted, 6u);
  EXPECT_EQ(again.args.trajectory.draft_version, 1u);
}

// A rollout runs fewer responses at once than it has credits; the others wait in its own queue.
TEST(TrajectorySchedulerTest, AResponseInTheQueueOfARolloutThatMovesIsNotStalled) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  std::map<std::string, std::vector<StartTask>> given;
  for (const StartTask& task : tasks) given[task.worker].push_back(task);
  const absl::Duration stall = world.options.generate_stall;
  const auto check_after = [&](absl::Duration passed) {
    world.out.Begin(kZero + passed);
    EXPECT_TRUE(
        world.scheduler.generations().CheckStalls(world.scheduler.Work(), world.Context()).ok());
    return TakeAll<StopTask>(world.out).size();
  };
  // Each runs its first one for long; a result is a sign of life as well.
  for (uint32_t i = 1; i <= 10; ++i) {
    world.out.Begin(kZero + i * stall);
    for (const auto& [worker, of] : given) {
      ASSERT_GE(of.size(), 2u);
      if (i == 10) {
        EXPECT_EQ(world.Generated(of[0]), Next::kDone);
      } else {
        world.scheduler.generations().Progressed({worker, of[0].ref, i}, world.scheduler.Work(),
                                                 world.out.now());
      }
    }
    EXPECT_EQ(check_after(i * stall + absl::Seconds(1)), 0u) << i;
  }
  EXPECT_EQ(check_after(11 * stall), 0u);
  EXPECT_EQ(check_after(11 * stall + absl::Seconds(1)), tasks.size() - given.size())
      << "since then the rollouts are silent";
}

TEST(TrajectorySchedulerTest, IgnoresProgressWithoutNewTokens) {
  OneStep world;
  const std::vector<StartTask> tasks = world.Begin();
  world.scheduler.generations().Progressed({tasks[0].worker, tasks[0].ref, 2},
                                           world.scheduler.Work(), world.out.now());
  const absl::Duration stall = world.options.generate_stall;
  world.out.Begin(kZero + stall);
  for (const StartTask& task : tasks) {
    const bool repeats = &task == &tasks[0];
    world.scheduler.generations().Progressed({task.worker, task.ref, repeats ? 2u : 3u},
                                             world.scheduler.Work(), world.out.now());
  }
  world.out.Begin(kZero + stall + absl::Seconds(1));
  EXPECT_TRUE(
      world.scheduler.generations().CheckStalls(world.scheduler.Work(), world.Context()).ok());
  const std::vector<StopTask> stopped = TakeAll<StopTask>(world.out);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_TRUE(stopped[0].ref == tasks[0].ref);
}

// For an hour nothing could be written, so no result could come in.
TEST(TrajectorySchedulerTest, LostTimeStallsNoTasks) {
  OneStep world;
  world.Begin();
  const absl::Duration lost = 30 * world.options.generate_stall;
  world.out.Begin(kZero + lost);
  world.scheduler.queues().Delay(lost, world.out.now());
  EXPECT_TRUE(
      world.scheduler.generations().CheckStalls(world.scheduler.Work(), world.Context()).ok());
  EXPECT_THAT(TakeAll<StopTask>(world.out), IsEmpty());
  EXPECT_THAT(world.scheduler.scores().Stalled("reward", world.scheduler.queues(), world.out.now()),
              IsEmpty());
}

TEST(TrajectorySchedulerTest, ALostPayloadIsGeneratedAnewAndItsScoresWithIt) {
  OneStep world;
  const std::vector<StartTask> scores = world.GenerateAll();
  world.Scored(scores[0]);
  TrajectoryInfo& lost = world.scheduler.table().At(scores[0].ref.subject);
  ASSERT_EQ(lost.state, TrajectoryState::kReady);
  ASSERT_EQ(world.scheduler.table().ready(), 1u);
  const uint64_t serial = lost.serial;
  world.out.Take();
  world.scheduler.GenerateAnew(lost, world.Context());
  EXPECT_EQ(world.scheduler.table().ready(), 0u);
  EXPECT_EQ(TakeAll<DropTrajectories>(world.out).at(0).begin, serial);
  const StartTask again = world.Only();
  EXPECT_EQ(again.ref.kind, TaskKind::kGenerate);
  EXPECT_EQ(again.args.trajectory.scored, 0u);
  EXPECT_EQ(world.Generated(again), Next::kDone);
  EXPECT_EQ(world.Only().ref.subject, again.ref.subject) << "and scored again";
}

// A node over the group compares responses, so it waits for the last one.
TEST(TrajectorySchedulerTest, AGroupNodeWaitsForAllResponsesOfItsGroup) {
  OneStep world("", R"(generate { purpose: "train" }
      score { node: "r" role: "reward" method: "rank" over: "group" out: "reward" }
      update { role: "actor" })");
  const std::vector<StartTask> tasks = world.Begin();
  ASSERT_EQ(tasks.size(), 4u);
  world.Generated(tasks[0]);
  world.Generated(tasks[2]);
  EXPECT_THAT(world.Dispatch(), IsEmpty());
  world.Generated(tasks[1]);
  const std::vector<StartTask> scores = world.Dispatch();
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].args.group.size(), 2u);
}

// Scores that read other scores, three deep: each begins when its input is there.
TEST(TrajectorySchedulerTest, RunsChainedScoresInTheOrderOfTheirInputs) {
  OneStep world("", R"(generate { purpose: "train" }
      score { node: "c" role: "reward" method: "c" inputs: "b" out: "reward" }
      score { node: "b" role: "reward" method: "b" inputs: "a" out: "b" }
      score { node: "a" role: "reward" method: "a" out: "a" }
      update { role: "actor" })");
  world.Generated(world.Begin().at(0));
  for (const char* method : {"a", "b", "c"}) {
    const StartTask task = world.Only();
    EXPECT_EQ(task.args.method, method);
    EXPECT_EQ(world.Scored(task), Next::kDone);
  }
  EXPECT_THAT(world.Dispatch(), IsEmpty());
  EXPECT_EQ(world.scheduler.table().ready(), 1u);
}

TEST(TrajectorySchedulerTest, AdoptsRunningTasksAfterARestartUnlessTheyAreStale) {
  OneStep world;
  world.BeginGroups(2);
  TaskRef running;
  running.kind = TaskKind::kGenerate;
  running.subject = world.scheduler.table().all().begin()->first;
  running.attempt = 5;  // of an earlier controller
  running.trajectory_uid = world.scheduler.table().all().begin()->second.trajectory_uid + 1;
  running.version = world.versions.newest();
  running.prompt = world.scheduler.table().all().begin()->second.prompt_id;
  AdoptTask(world.scheduler, "g0", running, /*hybrid=*/false, world.Context());
  EXPECT_FALSE(IsWanted(world.scheduler, "g0", running))
      << "of an earlier try at the same prompt index";
  --running.trajectory_uid;
  ++running.prompt;
  AdoptTask(world.scheduler, "g0", running, /*hybrid=*/false, world.Context());
  EXPECT_FALSE(IsWanted(world.scheduler, "g0", running)) << "of another prompt";
  --running.prompt;
  running.version = 0;
  AdoptTask(world.scheduler, "g0", running, /*hybrid=*/false, world.Context());
  EXPECT_FALSE(IsWanted(world.scheduler, "g0", running)) << "of other weights";
  running.version = world.versions.newest();
  AdoptTask(world.scheduler, "g0", running, /*hybrid=*/false, world.Context());
  EXPECT_TRUE(IsWanted(world.scheduler, "g0", running));
  EXPECT_FALSE(IsWanted(world.scheduler, "g1", running));
}

TEST(TrajectorySchedulerTest, AFailureThatAnEarlierControllerMayHaveCountedIsNotCountedAgain) {
  OneStep world;
  world.BeginGroups(2);
  StartTask task;
  task.worker = "g0";
  task.ref.kind = TaskKind::kGenerate;
  task.ref.subject = world.scheduler.table().all().begin()->first;
  task.ref.trajectory_uid = world.scheduler.table().all().begin()->second.trajectory_uid;
  task.ref.attempt = 5;  // of an earlier controller
  task.ref.version = world.versions.newest();
  task.ref.prompt = world.scheduler.table().all().begin()->second.prompt_id;
  AdoptTask(world.scheduler, "g0", task.ref, /*hybrid=*/false, world.Context());
  EXPECT_EQ(world.Generated(task, absl::InternalError("once")), Next::kAgain);
  EXPECT_EQ(world.scheduler.table().At(task.ref.subject).failures, 0u);
}

// A step that is begun again after a rollback draws the same prompts for the same ids.
TEST(TrajectorySchedulerTest, TasksOfAPromptGroupThatIsBegunAnewHaveOtherNames) {
  OneStep world;
  const std::vector<StartTask> before = world.Begin();
  world.scheduler.Clear("the trainer restarts", world.Context());
  world.out.RollBack(0);
  world.out.Take();
  const std::vector<StartTask> after = world.Begin();
  ASSERT_EQ(after.size(), 4u);
  std::set<uint64_t> uids;
  for (const auto* tasks : {&before, &after}) {
    for (const StartTask& task : *tasks) {
      EXPECT_EQ(task.ref.step, 0);
      EXPECT_EQ(task.ref.incarnation, 0u);
      EXPECT_EQ(task.args.trajectory.trajectory_uid, task.ref.trajectory_uid);
      uids.insert(task.ref.trajectory_uid);
    }
  }
  EXPECT_EQ(uids.size(), 8u) << "none is given twice";
  EXPECT_EQ(before[0].ref.subject, after[0].ref.subject);
  EXPECT_FALSE(IsWanted(world.scheduler, after[0].worker, before[0].ref));
  EXPECT_TRUE(IsWanted(world.scheduler, after[0].worker, after[0].ref));
}

TEST(TrajectorySchedulerTest, ClearStopsRunningTasksAndForgetsTheRest) {
  OneStep world;
  EXPECT_EQ(world.Begin().size(), 4u);
  world.scheduler.Clear("the job stops", world.Context());
  const std::vector<StopTask> stopped = TakeAll<StopTask>(world.out);
  ASSERT_EQ(stopped.size(), 4u);
  EXPECT_EQ(stopped[0].reason, "the job stops");
  EXPECT_TRUE(world.scheduler.table().all().empty());
}

TEST(RewardErrorsTest, ReportsTheFirstErrorAtOnceAndLimitsLaterOnes) {
  EffectSink out = SinkAt(kZero);
  RewardErrors errors(SubmittedJob("reward { max_error_rate: 0.29 }"), absl::Seconds(30));
  for (int i = 0; i < 29; ++i) EXPECT_TRUE(errors.Failed("train-1", "step 1", 100, out).ok()) << i;
  EXPECT_EQ(TakeAll<EmitEvent>(out).size(), 1u);
  EXPECT_EQ(errors.Failed("train-2", "step 1", 100, out).code(),
            absl::StatusCode::kFailedPrecondition)
      << "30 of 100 are more than 0.29";
  errors.Begin();
  out.Begin(kZero + absl::Seconds(31));
  EXPECT_TRUE(errors.Failed("train-3", "step 2", 100, out).ok());
  EXPECT_EQ(TakeAll<EmitEvent>(out).size(), 1u);
}

}  // namespace
}  // namespace baton::controller
