#include "controller/core/simulated_job.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "absl/strings/str_split.h"
#include "controller/core/check_row.h"
#include "controller/spec/roles.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {
constexpr size_t kCredits = 4;
// With dynamic sampling, every third group teaches nothing.
bool IsDropped(const BuildBatch& batch, const TrajectoryInfo& t) {
  return batch.max_groups > 0 && t.draw % 3 == 0;
}
uint64_t Mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

// Ids of the responses that the batch has, in order.
std::vector<uint64_t> IdsOf(const store::v1::BatchRow& row) {
  std::vector<uint64_t> ids;
  for (const store::v1::BatchEntry& entry : row.entries()) {
    if (entry.column_hashes_size() > 0) ids.push_back(entry.trajectory().id());
  }
  return ids;
}

}  // namespace

SimulatedJob::SimulatedJob(const Options& options)
    : options_(options), random_{options.seed}, now_(absl::UnixEpoch() + absl::Hours(1)) {
  core_options_.drawn_ahead = options_.drawn_ahead;
  core_ = std::make_unique<JobCore>(MakeSimulatedJob(options_), 1, core_options_);
  Apply(core_->Start(now_));
}

bool SimulatedJob::Eligible(const Event& event) const {
  const auto* done = std::get_if<TaskDone>(&event);
  return done == nullptr || (away_.count(done->worker) == 0 && MeetingOf(*done) != Meeting::kWaits);
}

SimulatedJob::Meeting SimulatedJob::MeetingOf(const TaskDone& done) const {
  const auto meets = meets_.find({done.worker, done.ref});
  if (meets == meets_.end()) return Meeting::kMet;
  const auto& [role, group_epoch] = meets->second;
  const std::set<std::string>& members = members_.at(meets->second);
  bool all = static_cast<int>(members.size()) == RanksOfRole(role);
  for (const std::string& member : members) {
    const auto actor = actors_.find({member, role});
    if (actor == actors_.end() || actor->second.group_epoch != group_epoch) return Meeting::kBroken;
    if (IsGroupCommand(done.ref.kind) && actor->second.sequence < done.ref.subject) all = false;
  }
  return all ? Meeting::kMet : Meeting::kWaits;
}

bool SimulatedJob::Step() {
  now_ += absl::Milliseconds(10);
  std::vector<size_t> can;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (Eligible(pending_[i])) can.push_back(i);
  }
  const size_t grants = needs_.empty() ? 0 : 1;
  if (can.empty() && grants == 0) {
    const bool ranks = options_.actor_ranks + options_.critic_ranks + options_.reference_ranks > 3;
    if (!ranks || ended()) return false;
    now_ += absl::Seconds(20);  // a broken group meets again after a while
    Send(Tick{});
    return true;
  }
  const size_t pick = random_() % (can.size() + grants);
  if (pick == can.size()) {
    auto need = needs_.begin();
    std::advance(need, random_() % needs_.size());
    const std::string roles = need->first;
    if (--need->second == 0) needs_.erase(need);
    const std::string worker = roles + "-" + std::to_string(next_worker_++);
    alive_[worker] = roles;
    WorkerGranted granted{worker, roles, {}};
    for (absl::string_view role : absl::StrSplit(roles, '+')) {
      granted.credits[std::string(role)] = kCredits;
    }
    Send(granted);
  } else {
    Event event = pending_[can[pick]];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(can[pick]));
    if (const auto* back = std::get_if<WorkerBack>(&event)) {
      ComeBack(back->worker);
    } else {
      if (auto* done = std::get_if<TaskDone>(&event)) {
        if (MeetingOf(*done) == Meeting::kBroken) {
          done->status = absl::UnavailableError("a rank is gone");
        }
        if (done->ref.kind == TaskKind::kLoadWeights && done->status.ok()) {
          versions_[done->worker] = loading_[done->worker];
        }
      }
      Send(event);
    }
  }
  CheckWaits();
  return true;
}

// Everything that does not move says why.
void SimulatedJob::CheckWaits() {
  if (ended()) return;
  const v1::ExplainJobResponse why = core_->Explain(now_);
  EXPECT_GT(why.waits_size(), 0) << why.DebugString();
}

void SimulatedJob::RunToEnd() {
  for (int i = 0; !ended() && i < 50000; ++i) {
    if (!Step()) break;
  }
}

void SimulatedJob::Send(const Event& event) { Apply(core_->Handle(event, now_)); }

void SimulatedJob::Apply(const Effects& effects) {
  // Rows first: nothing leaves before what justifies it is kept.
  for (const Effect& effect : effects) {
    const auto* const emit = std::get_if<EmitEvent>(&effect);
    if (std::holds_alternative<PutJob>(effect) || (emit != nullptr && emit->kept)) {
      row_ = core_->Row();
    }
  }
  for (const Effect& effect : effects) {
    std::visit([this](const auto& e) { Do(e); }, effect);
  }
  if (!batch_rows_.empty()) {
    EXPECT_LE(batch_rows_.rbegin()->first, core_->step() + 1);
    EXPECT_EQ(batch_rows_.rbegin()->first - batch_rows_.begin()->first + 1,
              static_cast<int64_t>(batch_rows_.size()))
        << "a step between has none";
  }
  // As the runtime does, which drops what was read for a job that ended meanwhile.
  if (ended()) {
    std::erase_if(pending_, [](const Event& e) { return std::holds_alternative<DataLoaded>(e); });
  }
}

void SimulatedJob::Do(const PutTrajectory& effect) {
  rows_[effect.serial] = ToRow(effect.trajectory, effect.step, effect.incarnation);
}

void SimulatedJob::Do(const DropTrajectories& effect) {
  rows_.erase(rows_.lower_bound(effect.begin), rows_.lower_bound(effect.end));
}

void SimulatedJob::Do(const PutBatch& effect) {
  const int64_t step = effect.row.step();
  EXPECT_FALSE(options_.sft);
  EXPECT_EQ(effect.row.incarnation(), core_->incarnation());
  EXPECT_EQ(batch_rows_.count(step), 0u) << "step " << step << " has one already";
  EXPECT_EQ(IdsOf(effect.row), options_.filter_all ? std::vector<uint64_t>() : batches_.at(step));
  for (const store::v1::BatchEntry& entry : effect.row.entries()) {
    EXPECT_GT(entry.trajectory().size(), 0u) << "no place in the experience log";
    EXPECT_EQ(entry.trajectory().scores().count("reward"), 1u);
    EXPECT_EQ(entry.trajectory().policy_version(),
              effect.row.entries(0).trajectory().policy_version());
  }
  batch_rows_[step] = effect.row;
}

void SimulatedJob::Do(const DropBatches& effect) {
  EXPECT_LT(effect.begin, effect.end);
  batch_rows_.erase(batch_rows_.lower_bound(effect.begin), batch_rows_.lower_bound(effect.end));
}

void SimulatedJob::Do(const LoadData&) {
  DataLoaded loaded;
  loaded.train_size = 10;
  if (!options_.sft) {
    loaded.val_size = options_.val_sources.size();
    loaded.val_sources = options_.val_sources;
  }
  // As the runtime does, which answers with the newest reading alone.
  std::erase_if(pending_, [](const Event& e) { return std::holds_alternative<DataLoaded>(e); });
  pending_.push_back(loaded);
}

void SimulatedJob::Do(const BuildBatch& effect) {
  BatchBuilt built;
  built.step = effect.step;
  built.incarnation = effect.incarnation;
  std::vector<uint64_t> ids;
  std::set<uint64_t> draws, kept;
  for (const TrajectoryInfo& t : effect.trajectories) {
    EXPECT_EQ(t.purpose, v1::PURPOSE_TRAIN);
    EXPECT_EQ(t.state, TrajectoryState::kReady);
    draws.insert(t.draw);
    if (IsDropped(effect, t)) continue;
    if (effect.max_groups > 0 && kept.size() >= effect.max_groups && kept.count(t.draw) == 0) {
      continue;
    }
    kept.insert(t.draw);
    ids.push_back(t.id);
  }
  if (options_.failing_rewards == Options::Failing::kNone || options_.error_reward) {
    EXPECT_EQ(effect.trajectories.size(), draws.size() * (options_.sft ? 1 : 2)) << "whole groups";
  }
  for (const TrajectoryInfo& t : effect.trajectories) {
    EXPECT_EQ(t.failed, 0u) << "it has no reward";
    if (!options_.sft) EXPECT_EQ(t.scores.count("reward"), 1u);
  }
  if (!options_.sft && effect.max_groups == 0) EXPECT_EQ(draws.size(), 3u) << "a full batch";
  EXPECT_EQ(effect.baselines.size(), options_.preset == "remax" ? draws.size() : 0);
  built.groups = static_cast<uint32_t>(kept.size());
  // What the algorithm carries on counts the prompts that it has seen.
  const auto seen = effect.algorithm.find("seen");
  built.algorithm["seen"] =
      (seen == effect.algorithm.end() ? 0 : seen->second) + static_cast<double>(draws.size());
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end())
      << "in order, none twice";
  built.size = options_.filter_all ? 0 : static_cast<uint32_t>(ids.size());
  for (uint64_t id : ids) {
    if (!options_.filter_all) built.column_hashes[id] = {id};
  }
  batches_[effect.step] = ids;
  pending_.push_back(built);
}

void SimulatedJob::Do(const CommitCheckpoint& effect) {
  CheckpointCommitted committed;
  committed.incarnation = effect.incarnation;
  committed.checkpoint.set_step(effect.step);
  EXPECT_EQ(staged_.count(effect.step), 1u);
  EXPECT_EQ(effect.row.job().step(), effect.step);
  EXPECT_EQ(static_cast<int>(staged_[effect.step].size()), core_->dataflow().update_size());
  disk_[effect.step] = std::exchange(staged_[effect.step], {});
  pending_.push_back(committed);
}

void SimulatedJob::Do(const EmitEvent& effect) {
  if (effect.kept) events_.push_back(effect.event);
  if (effect.event.type() == "warning") warnings_.push_back(effect.event.message());
  if (effect.event.type() != "evaluation") return;
  EXPECT_NE(effect.event.message(), "");  // its numbers
  evaluated_.insert(effect.event.step());
}

void SimulatedJob::Do(const PutMetrics& effect) {
  for (const auto& [name, value] : effect.metrics) metrics_[name] = value;
}

// One response of draw 1 and of draw 5, both of draw 3; some of an evaluation; a greedy baseline.
bool SimulatedJob::FailsForGood(const TrajectoryInfo& t) {
  switch (t.purpose) {
    case v1::PURPOSE_TRAIN:
      return t.draw % 4 == 1 ? t.sample == 0 : t.draw % 4 == 3;
    case v1::PURPOSE_EVAL:
      return t.draw == 2;
    default:
      return t.draw % 4 == 2;
  }
}

void SimulatedJob::Do(const StopTask& effect) {
  stopped_.push_back(effect);
  if (random_() % 2 == 0) return;  // it comes too late
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                [&](const Event& e) {
                                  const auto* done = std::get_if<TaskDone>(&e);
                                  return done != nullptr && done->worker == effect.worker &&
                                         done->ref == effect.ref;
                                }),
                 pending_.end());
}

void SimulatedJob::Do(const StartTask& start) {
  EXPECT_FALSE(ended()) << "a task after the end";
  const bool dying = std::any_of(pending_.begin(), pending_.end(), [&](const Event& e) {
    const auto* lost = std::get_if<WorkerLost>(&e);
    return lost != nullptr && lost->worker == start.worker;
  });
  if (dying || away_.count(start.worker) > 0) return;  // it is gone and hears nothing
  EXPECT_EQ(alive_.count(start.worker), 1u)
      << MethodName(start.ref.kind) << " for a worker the job does not have";
  TaskDone done;
  done.worker = start.worker;
  done.ref = start.ref;
  std::set<TaskRef> running;
  for (const Event& event : pending_) {
    const auto* other = std::get_if<TaskDone>(&event);
    if (other == nullptr || other->worker != start.worker) continue;
    EXPECT_FALSE(other->ref == start.ref && start.ref.kind != TaskKind::kReleaseRole)
        << MethodName(start.ref.kind) << " sent while it runs";
    if (other->ref.kind == start.ref.kind && core_->Wants(other->worker, other->ref)) {
      running.insert(other->ref);
    }
  }
  running.erase(start.ref);
  CheckTurn(start);
  switch (start.ref.kind) {
    case TaskKind::kAssignRole:
      if (MayTrain(start.args.role) || RanksOfRole(start.args.role) > 1) Assign(start);
      break;
    case TaskKind::kLoadWeights:
      EXPECT_FALSE(Hybrid()) << "it has no weights of its own";
      loading_[start.worker] = start.args.policy_version;
      if (relay_.count(start.args.policy_version) == 0) done.status = absl::NotFoundError("gone");
      break;
    case TaskKind::kGenerate:
      EXPECT_EQ(versions_[start.worker], start.args.policy_version);
      EXPECT_LT(running.size(), kCredits);
      done.output.tokens = 5;
      done.output.prompt_tokens = 2;
      done.output.finish_reason = "stop";
      done.output.location = {++next_file_, 0, 20};
      if (static_cast<int>(random_() % 100) < options_.failing_percent) {
        done.status = absl::UnavailableError("hiccup");
      }
      break;
    case TaskKind::kScore:
      EXPECT_LT(running.size(), kCredits);
      Score(start, done);
      break;
    case TaskKind::kUpdate:
    case TaskKind::kPublish:
    case TaskKind::kToGeneration:
    case TaskKind::kSaveCheckpoint:
      Command(start);
      break;
    default:
      break;
  }
  if (start.ref.kind == TaskKind::kScore || start.ref.kind == TaskKind::kUpdate) {
    done.output.metrics.insert(options_.more_metrics.begin(), options_.more_metrics.end());
  }
  pending_.push_back(done);
}

void SimulatedJob::Score(const StartTask& start, TaskDone& done) {
  const v1::Dataflow& dataflow = core_->dataflow();
  const v1::ScoreNode& node = dataflow.score(static_cast<int>(start.ref.target));
  EXPECT_EQ(node.role(), start.args.role);
  if (const int tp = TensorRanksOf(node.role()); tp > 1) {
    const Actor& rank = actors_.at({start.worker, node.role()});
    EXPECT_EQ(rank.rank % static_cast<uint32_t>(tp), 0u) << "not the first of its copy";
    meets_[{start.worker, start.ref}] = {node.role(), rank.group_epoch};
  }
  const TrajectoryInfo& t = start.args.trajectory;
  EXPECT_EQ(t.scored >> start.ref.target & 1, 0u) << "scored again";
  EXPECT_TRUE(t.purpose == v1::PURPOSE_TRAIN || node.out() == "reward") << "for nothing";
  if (node.role() == "actor") {
    EXPECT_EQ(actors_.at({start.worker, node.role()}).version, t.policy_version)
        << "not what it was made with";
  }
  std::vector<TrajectoryInfo> scored = start.args.group;
  const bool failing = options_.failing_rewards != Options::Failing::kNone;
  if (!failing) EXPECT_EQ(scored.size(), node.over() == "group" ? 2u : 0u);
  for (uint32_t i = 0; i < scored.size(); ++i) {
    if (!failing) EXPECT_EQ(scored[i].sample, i);
    EXPECT_EQ(scored[i].draw, t.draw);
    EXPECT_EQ(scored[i].failed, 0u);
  }
  if (node.over() == "group" && scored.size() < 2) done.output.error = "it takes two to compare";
  scored.push_back(t);
  for (const std::string& input : node.inputs()) {
    for (int i = 0; i < dataflow.score_size(); ++i) {
      if (dataflow.score(i).out() != input) continue;
      for (const auto& s : scored) EXPECT_EQ(s.scored >> i & 1, 1u) << "too early";
    }
  }
  const bool fails = options_.failing_rewards == Options::Failing::kAll ||
                     (options_.failing_rewards == Options::Failing::kSome && FailsForGood(t));
  if (node.out() == "reward" && fails) {
    done.output.error = "the command ended";
    done.output.infra_failed = true;
  } else if (node.out() == "reward") {
    const bool judges = t.purpose == v1::PURPOSE_EVAL && options_.accuracy;
    done.output.metrics["reward"] = judges ? options_.accuracy(core_->step()) : t.sample % 2;
  } else {
    done.output.location = {++next_file_, 0, 20};
  }
}

void SimulatedJob::Assign(const StartTask& start) {
  Actor& actor = actors_[{start.worker, start.args.role}];
  actor = Actor();
  actor.rank = start.args.rank;
  actor.group_epoch = start.args.group_epoch;
  if (RanksOfRole(start.args.role) > 1) {
    const auto group = std::make_pair(start.args.role, start.args.group_epoch);
    meets_[{start.worker, start.ref}] = group;
    members_[group].insert(start.worker);
    EXPECT_EQ(alive_.count(start.args.first_worker), 1u) << "where they meet";
  }
  actor.version = start.args.policy_version;
  if (!MayTrain(start.args.role)) {
    EXPECT_LT(start.args.checkpoint_step, 0) << "it never learns";
  } else if (start.args.checkpoint_step >= 0) {
    actor.weights = disk_.at(start.args.checkpoint_step).at(start.args.role);
  }
  if (Hybrid() && start.args.role == "actor") versions_[start.worker] = 0;
}

void SimulatedJob::CheckTurn(const StartTask& start) const {
  const auto works = [](TaskKind kind) {
    return kind != TaskKind::kAssignRole && kind != TaskKind::kReleaseRole;
  };
  if (!works(start.ref.kind)) return;
  for (const RolePool& pool : PoolsOf(core_->effective_spec(), core_->dataflow())) {
    const auto in = [&](const std::string& role) {
      return std::count(pool.roles.begin(), pool.roles.end(), role) > 0;
    };
    if (!in(start.args.role)) continue;
    for (const Event& event : pending_) {
      const auto* other = std::get_if<TaskDone>(&event);
      if (other == nullptr || !works(other->ref.kind)) continue;
      if (!core_->Wants(other->worker, other->ref)) continue;
      const std::string role = core_->RoleOf(other->ref);
      EXPECT_FALSE(in(role) && role != start.args.role)
          << start.args.role << "." << MethodName(start.ref.kind) << " while " << role << "."
          << MethodName(other->ref.kind) << " runs on their pool";
    }
  }
}

void SimulatedJob::Command(const StartTask& start) {
  Actor& actor = actors_.at({start.worker, start.args.role});
  EXPECT_EQ(start.args.group_epoch, actor.group_epoch);
  EXPECT_EQ(start.args.rank, actor.rank);
  const bool first = actor.rank == 0;  // who writes for its group
  if (RanksOfRole(start.args.role) > 1) {
    meets_[{start.worker, start.ref}] = {start.args.role, start.args.group_epoch};
  }
  const bool again = start.args.sequence == actor.sequence;
  if (again && start.ref.kind == actor.kind) return;  // done already: the cached answer
  // A command that found no room gives its number to the next one.
  if (!again) EXPECT_EQ(start.args.sequence, actor.sequence + 1) << MethodName(start.ref.kind);
  actor.sequence = start.args.sequence;
  actor.kind = start.ref.kind;
  const bool updates = start.ref.kind == TaskKind::kUpdate;
  actor.version += updates ? 1 : 0;
  EXPECT_EQ(start.args.policy_version, actor.version) << "what the rank holds, or will";
  if (start.ref.kind == TaskKind::kUpdate) {
    const std::vector<uint64_t>& batch = batches_.at(start.ref.step + 1);
    actor.weights = Mix(actor.weights, static_cast<uint64_t>(start.ref.step));
    for (uint64_t id : batch) actor.weights = Mix(actor.weights, id);
    if (start.args.role == "actor" && first) trained_[start.ref.step + 1] = batch;
    if (start.args.role == "actor" && Hybrid()) versions_[start.worker] = 0;
  } else if (start.ref.kind == TaskKind::kPublish || start.ref.kind == TaskKind::kToGeneration) {
    EXPECT_EQ(start.ref.kind == TaskKind::kToGeneration, Hybrid());
    const auto known = published_.emplace(start.args.policy_version, actor.weights);
    EXPECT_EQ(known.first->second, actor.weights) << "two weights of one version";
    EXPECT_EQ(published_.rbegin()->first, start.args.policy_version) << "versions only grow";
    if (Hybrid()) versions_[start.worker] = start.args.policy_version;
    if (first && !Hybrid()) relay_[start.args.policy_version] = actor.weights;
  } else if (first) {
    staged_[start.ref.step][start.args.role] = actor.weights;
  }
}

void SimulatedJob::Forget(const std::string& worker) {
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                [&](const Event& e) {
                                  const auto* done = std::get_if<TaskDone>(&e);
                                  const auto* back = std::get_if<WorkerBack>(&e);
                                  return (done != nullptr && done->worker == worker) ||
                                         (back != nullptr && back->worker == worker);
                                }),
                 pending_.end());
  alive_.erase(worker);
  away_.erase(worker);
  for (auto it = actors_.begin(); it != actors_.end();) {
    it = it->first.first == worker ? actors_.erase(it) : std::next(it);
  }
  versions_.erase(worker);
}

void SimulatedJob::Lose(const std::string& worker) {
  Forget(worker);
  Send(WorkerLost{worker, "lost by the test"});
}

std::string SimulatedJob::SomeWorker() {
  if (alive_.empty()) return "";
  auto it = alive_.begin();
  std::advance(it, random_() % alive_.size());
  return it->first;
}

void SimulatedJob::LoseSomeWorker() {
  const std::string worker = SomeWorker();
  if (!worker.empty()) Lose(worker);
}

void SimulatedJob::LoseOneOf(const std::string& role) {
  for (const auto& [worker, roles] : alive_) {
    const std::vector<std::string> played = absl::StrSplit(roles, '+');
    if (std::count(played.begin(), played.end(), role) > 0) return Lose(std::string(worker));
  }
}

void SimulatedJob::BreakStream(const std::string& worker) {
  if (!away_.insert(worker).second) return;
  WorkerBack back;
  back.worker = worker;
  pending_.push_back(back);
}

void SimulatedJob::BreakSomeStream() {
  const std::string worker = SomeWorker();
  if (!worker.empty()) BreakStream(worker);
}

void SimulatedJob::ComeBack(const std::string& worker) {
  away_.erase(worker);
  WorkerBack back;
  back.worker = worker;
  for (const Event& event : pending_) {
    const auto* done = std::get_if<TaskDone>(&event);
    if (done == nullptr || done->worker != worker) continue;
    const bool finished = MeetingOf(*done) != Meeting::kWaits && random_() % 2 == 0;
    (finished ? back.unacked : back.running).push_back(done->ref);
    if (finished && done->ref.kind == TaskKind::kLoadWeights && done->status.ok()) {
      versions_[worker] = loading_[worker];
    }
  }
  const auto roles = alive_.find(worker);
  if (roles != alive_.end()) {
    for (absl::string_view role : absl::StrSplit(roles->second, '+')) {
      back.holds[std::string(role)] = versions_[worker];
    }
  }
  Send(back);
}

void SimulatedJob::Restart(int dying_percent) {
  EXPECT_TRUE(CheckRow(row_).ok()) << CheckRow(row_);
  std::vector<Event> still;
  for (const Event& event : pending_) {
    if (std::holds_alternative<TaskDone>(event)) still.push_back(event);
  }
  pending_ = still;
  needs_.clear();
  const auto workers = alive_;
  away_.clear();
  for (const auto& [worker, role] : workers) BreakStream(worker);
  core_ = std::make_unique<JobCore>(row_, rows_, ++epoch_, core_options_);
  const auto held = core_->HeldWorkers();
  for (const auto& [worker, role] : workers) {
    if (held.count(worker) == 0) Forget(worker);  // the store knows of no grant: it is free again
  }
  for (const auto& [worker, role] : held) {
    if (alive_.count(worker) > 0 && static_cast<int>(random_() % 100) >= dying_percent) continue;
    Forget(worker);
    pending_.push_back(WorkerLost{worker, "did not come back"});
  }
  Apply(core_->Start(now_));
}

void SimulatedJob::RepeatAResult() {
  for (const Event& event : std::vector<Event>(pending_)) {
    if (!std::holds_alternative<TaskDone>(event) || !Eligible(event)) continue;
    pending_.push_back(event);
    return;
  }
}

uint64_t SimulatedJob::FinalWeights() const {
  auto it = disk_.find(options_.steps);
  if (it == disk_.end()) return 0;
  uint64_t all = 0;
  for (const auto& [role, weights] : it->second) all = Mix(all, weights);
  return all;
}

std::vector<TaskDone> SimulatedJob::UnderWay(TaskKind kind) const {
  std::vector<TaskDone> out;
  for (const Event& event : pending_) {
    const auto* done = std::get_if<TaskDone>(&event);
    if (done != nullptr && done->ref.kind == kind) out.push_back(*done);
  }
  return out;
}

void SimulatedJob::Swallow(TaskKind kind) {
  std::erase_if(pending_, [&](const Event& e) {
    const auto* done = std::get_if<TaskDone>(&e);
    return done != nullptr && done->ref.kind == kind;
  });
}

}  // namespace baton::controller
