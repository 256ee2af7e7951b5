// JobCore against simulated workers in virtual time. What happens next is drawn from a seed:
// which task ends, who is lost, when the controller restarts.
#include "controller/core/job_core.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <variant>

#include "controller/core/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using Job = v1::Job;

v1::Job MakeJob(bool sft, int steps) {
  v1::JobSpec spec;
  spec.set_kind(sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(3);
  spec.mutable_trainer()->set_total_training_steps(steps);
  spec.mutable_trainer()->set_save_freq(2);
  if (!sft) {
    spec.mutable_data()->add_val_files("v");
    spec.mutable_rollout()->set_n(2);
    spec.mutable_reward()->add_rules()->set_type("numeric");
    spec.mutable_resources()->set_rollout_workers(2);
  }
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty());
  v1::Job job;
  job.set_name("projects/default/jobs/j");
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

// The world around one core: a store, workers, the queue. Everything that can happen is in
// `pending_`; `Step` lets one of it happen.
class World {
 public:
  World(uint64_t seed, bool sft, int steps) : random_(seed) {
    options_.release_deadline = absl::Hours(1);
    core_ = std::make_unique<JobCore>(MakeJob(sft, steps), 1, options_);
    Apply(core_->Start(now_));
  }

  bool ended() const { return IsTerminal(core_->state()); }
  JobCore& core() { return *core_; }
  /// step -> ids of the batch that trained it last.
  const std::map<int64_t, std::vector<uint64_t>>& trained() const { return trained_; }

  void Send(const Event& event) { Apply(core_->Handle(event, now_)); }

  // One thing that is under way happens. False: nothing is.
  bool Step() {
    now_ += absl::Milliseconds(10);
    if (pending_.empty()) return false;
    const size_t i = random_() % pending_.size();
    const Event event = pending_[i];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    Send(event);
    // Everything that does not move says why.
    if (IsActive(core_->state()) && !pending_.empty()) {
      EXPECT_GT(core_->Explain(now_).waits_size() + static_cast<int>(building_), 0)
          << core_->Explain(now_).DebugString();
    }
    return true;
  }

  void LoseSomeWorker() {
    const auto held = core_->HeldWorkers();
    if (held.empty()) return;
    auto it = held.begin();
    std::advance(it, random_() % held.size());
    Lose(it->first);
  }

  void Lose(const std::string& worker) {
    // Its tasks die with it.
    pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                  [&](const Event& e) {
                                    const auto* done = std::get_if<TaskDone>(&e);
                                    return done != nullptr && done->worker == worker;
                                  }),
                   pending_.end());
    Send(WorkerLost{worker, "lost by the test"});
  }

  // The controller dies and comes back with its rows; its workers never stopped. Half of the
  // results that were on their way arrive again, the other tasks go on.
  void Restart() {
    std::map<uint64_t, store::v1::TrajectoryRow> rows = rows_;
    std::vector<Event> still;
    std::map<std::string, WorkerBack> backs;
    const auto held = core_->HeldWorkers();
    for (const auto& [worker, role] : held) {
      backs[worker].worker = worker;
      backs[worker].policy_version = versions_[worker];
    }
    for (const Event& event : pending_) {
      const auto* done = std::get_if<TaskDone>(&event);
      if (done == nullptr || backs.count(done->worker) == 0) continue;
      auto& back = backs[done->worker];
      (random_() % 2 == 0 ? back.running : back.unacked).push_back(done->ref);
      still.push_back(event);
    }
    pending_ = still;
    granted_.clear();  // the queue starts afresh
    core_ = std::make_unique<JobCore>(row_, rows, ++epoch_, options_);
    Apply(core_->Start(now_));
    for (const auto& [worker, back] : backs) Send(back);
  }

 private:
  void Apply(const Effects& effects) {
    for (const Effect& effect : effects) {
      if (std::holds_alternative<PutJob>(effect) || std::holds_alternative<EmitEvent>(effect)) {
        row_ = core_->Row();
      }
      if (const auto* put = std::get_if<PutTrajectory>(&effect)) {
        rows_[put->serial] = ToRow(put->trajectory, put->step, put->incarnation);
      } else if (const auto* drop = std::get_if<DropTrajectories>(&effect)) {
        for (uint64_t s = drop->begin; s < drop->end; ++s) rows_.erase(s);
      } else if (const auto* need = std::get_if<NeedWorkers>(&effect)) {
        for (const auto& [role, count] : need->missing) {
          const int granted = granted_[role];
          for (int i = granted; i < count; ++i) {
            ++granted_[role];
            pending_.push_back(WorkerGranted{role + "-" + std::to_string(next_worker_++), role, 4});
          }
        }
      } else if (const auto* returned = std::get_if<ReturnWorker>(&effect)) {
        const std::string& worker = returned->worker;
        if (assigned_.count(worker) == 0) --granted_[worker.substr(0, worker.find('-'))];
      } else if (const auto* start = std::get_if<StartTask>(&effect)) {
        OnTask(*start);
      } else if (std::holds_alternative<LoadData>(effect)) {
        DataLoaded loaded;
        loaded.train_size = 10;
        loaded.val_size = 4;
        if (core_->effective_spec().kind() == v1::JOB_KIND_RL)
          loaded.val_sources = {"", "", "", ""};
        pending_.push_back(loaded);
      } else if (const auto* build = std::get_if<BuildBatch>(&effect)) {
        BatchBuilt built;
        built.step = build->step;
        built.incarnation = build->incarnation;
        built.size = static_cast<uint32_t>(build->trajectories.size());
        batch_.clear();
        for (const TrajectoryInfo& t : build->trajectories) {
          EXPECT_EQ(t.purpose, v1::PURPOSE_TRAIN);
          EXPECT_EQ(t.state, TrajectoryState::kReady);
          batch_.push_back(t.id);
        }
        EXPECT_TRUE(std::is_sorted(batch_.begin(), batch_.end()));
        EXPECT_EQ(std::set<uint64_t>(batch_.begin(), batch_.end()).size(), batch_.size());
        pending_.push_back(built);
      } else if (const auto* commit = std::get_if<CommitCheckpoint>(&effect)) {
        CheckpointCommitted committed;
        committed.incarnation = commit->incarnation;
        committed.checkpoint.set_step(commit->step);
        pending_.push_back(committed);
      }
      building_ = std::any_of(pending_.begin(), pending_.end(), [](const Event& e) {
        return std::holds_alternative<BatchBuilt>(e) || std::holds_alternative<WorkerGranted>(e);
      });
    }
  }

  void OnTask(const StartTask& start) {
    TaskDone done;
    done.worker = start.worker;
    done.ref = start.ref;
    switch (start.ref.kind) {
      case TaskKind::kAssignRole:
        if (assigned_.insert(start.worker).second) --granted_[start.args.role];
        break;
      case TaskKind::kLoadWeights:
        versions_[start.worker] = start.args.policy_version;
        break;
      case TaskKind::kGenerate:
        done.output.tokens = 5;
        done.output.prompt_tokens = 2;
        done.output.finish_reason = "stop";
        break;
      case TaskKind::kScore:
        done.output.metrics["reward"] = start.args.trajectory.sample % 2;
        break;
      case TaskKind::kUpdate:
        trained_[start.ref.step + 1] = batch_;
        break;
      default:
        break;
    }
    pending_.push_back(done);
  }

  std::mt19937_64 random_;
  JobCoreOptions options_;
  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<JobCore> core_;
  store::v1::JobRow row_;
  std::map<uint64_t, store::v1::TrajectoryRow> rows_;
  std::vector<Event> pending_;
  std::map<std::string, int> granted_;  // on their way, by role
  std::set<std::string> assigned_;
  std::map<std::string, uint64_t> versions_;
  std::map<int64_t, std::vector<uint64_t>> trained_;
  std::vector<uint64_t> batch_;
  int next_worker_ = 0;
  uint64_t epoch_ = 1;
  bool building_ = false;
};

std::map<int64_t, std::vector<uint64_t>> Undisturbed(bool sft, int steps) {
  World world(1, sft, steps);
  while (!world.ended() && world.Step()) {
  }
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  return world.trained();
}

TEST(JobCoreTest, AJobRunsToItsEndWhateverTheOrder) {
  const auto expected = Undisturbed(false, 5);
  ASSERT_EQ(expected.size(), 5u);
  EXPECT_EQ(expected.at(1).size(), 6u);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    World world(seed, false, 5);
    while (!world.ended() && world.Step()) {
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(world.trained(), expected) << "seed " << seed;
    EXPECT_TRUE(world.core().HeldWorkers().empty());
  }
}

TEST(JobCoreTest, SupervisedFineTuningToo) { EXPECT_EQ(Undisturbed(true, 7).size(), 7u); }

TEST(JobCoreTest, LostWorkersChangeNothingInWhatIsTrained) {
  const auto expected = Undisturbed(false, 5);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    World world(seed, false, 5);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; !world.ended() && i < 20000; ++i) {
      if (i < 400 && random() % 40 == 0) world.LoseSomeWorker();
      if (!world.Step()) break;
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << "seed " << seed << "\n"
        << world.core().Explain(absl::UnixEpoch()).DebugString();
    EXPECT_EQ(world.trained(), expected) << "seed " << seed;
  }
}

TEST(JobCoreTest, ARestartAtAnyEventChangesNothingInWhatIsTrained) {
  const auto expected = Undisturbed(false, 3);
  for (int at = 0; at < 160; ++at) {
    World world(static_cast<uint64_t>(at) % 7, false, 3);
    bool moved = true;
    for (int i = 0; !world.ended() && moved; ++i) {
      if (i == at) world.Restart();
      moved = world.Step();
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
        << "restart at " << at << "\n"
        << world.core().Explain(absl::UnixEpoch()).DebugString();
    EXPECT_EQ(world.trained(), expected) << "restart at " << at;
  }
}

TEST(JobCoreTest, AStaleResultChangesNothing) {
  World world(3, false, 2);
  for (int i = 0; i < 30; ++i) world.Step();
  const std::string before = world.core().Row().DebugString();
  TaskDone stale;
  stale.worker = "rollout-1";
  stale.ref.kind = TaskKind::kGenerate;
  stale.ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 2);
  stale.ref.incarnation = 99;
  world.Send(stale);
  EXPECT_EQ(world.core().Row().DebugString(), before);
}

TEST(JobCoreTest, PauseAndResumeInAnyPhase) {
  const auto expected = Undisturbed(false, 3);
  for (int at = 0; at < 120; at += 3) {
    World world(5, false, 3);
    for (int i = 0; i < at && !world.ended(); ++i) world.Step();
    if (world.ended()) break;
    world.Send(PauseRequested{});
    while (world.core().state() != Job::STATE_PAUSED && !world.ended() && world.Step()) {
    }
    if (world.ended()) continue;  // it was in its last breath
    ASSERT_EQ(world.core().state(), Job::STATE_PAUSED) << at;
    EXPECT_TRUE(world.core().HeldWorkers().empty());
    world.Send(ResumeRequested{});
    while (!world.ended() && world.Step()) {
    }
    ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED) << at;
    EXPECT_EQ(world.trained(), expected) << at;
  }
}

TEST(JobCoreTest, CancelInAnyPhaseGivesTheWorkersBack) {
  for (int at = 0; at < 120; ++at) {
    World world(5, false, 3);
    for (int i = 0; i < at && !world.ended(); ++i) world.Step();
    if (world.ended()) break;
    world.Send(CancelRequested{});
    while (!world.ended() && world.Step()) {
    }
    EXPECT_TRUE(world.ended()) << at;
    EXPECT_TRUE(world.core().HeldWorkers().empty()) << at;
  }
}

TEST(JobCoreTest, AnActorThatFailsFailsTheJobWithItsWords) {
  World world(5, true, 3);
  for (int i = 0; i < 4; ++i) world.Step();
  DataLoaded broken;
  broken.status = absl::InvalidArgumentError("a.jsonl:3: not valid JSON");
  world.Send(broken);
  while (!world.ended() && world.Step()) {
  }
  EXPECT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_EQ(world.core().Describe().error().message(), "a.jsonl:3: not valid JSON");
}

}  // namespace
}  // namespace baton::controller
