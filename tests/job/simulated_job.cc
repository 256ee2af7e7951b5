// SimulatedJob: the workers, and what happens to them.
#include "tests/job/simulated_job.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "absl/strings/str_split.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/settings/schedule.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

constexpr size_t kCredits = 4;

}  // namespace

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
  executors_.Advance(absl::Milliseconds(10));
  Settle();
  std::vector<size_t> can;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (Eligible(pending_[i])) can.push_back(i);
  }
  const size_t grants = needs_.empty() ? 0 : 1;
  const size_t slow = executors_.slow();
  if (can.empty() && grants + slow == 0) {
    const bool ranks = options_.actor_ranks + options_.critic_ranks + options_.reference_ranks > 3;
    if (!ranks || ended()) return false;
    executors_.Advance(absl::Seconds(20));  // a broken group meets again after a while
    Send(Tick{});
    return true;
  }
  const size_t pick = random_() % (can.size() + grants + slow);
  if (pick >= can.size() + grants) {
    executors_.RunSlow(pick - can.size() - grants);
    Settle();
  } else if (pick == can.size()) {
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
    if (const auto* back = std::get_if<WorkerReconnected>(&event)) {
      ComeBack(back->worker);
    } else {
      if (auto* done = std::get_if<TaskDone>(&event)) {
        if (MeetingOf(*done) == Meeting::kBroken) {
          done->status = absl::UnavailableError("a rank is gone");
        }
        FinishLoading(*done);
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
  const v1::ExplainJobResponse why = core_->Explain(now());
  EXPECT_GT(why.waits_size(), 0) << why.DebugString();
}

void SimulatedJob::RunToEnd() {
  for (int i = 0; !ended() && i < 50000; ++i) {
    if (!Step()) break;
  }
}

// One response of prompt indices 1 and 5, both of 3; some of an evaluation; a greedy baseline.
bool SimulatedJob::FailsForGood(const TrajectoryInfo& t) {
  switch (t.purpose) {
    case v1::PURPOSE_TRAIN:
      return t.prompt_index % 4 == 1 ? t.sample == 0 : t.prompt_index % 4 == 3;
    case v1::PURPOSE_EVAL:
      return t.prompt_index == 2;
    default:
      return t.prompt_index % 4 == 2;
  }
}

void SimulatedJob::Stop(const StopTask& stop) {
  stopped_.push_back(stop);
  if (random_() % 2 == 0) return;  // it comes too late
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    auto* const done = std::get_if<TaskDone>(&*it);
    if (done == nullptr || done->worker != stop.worker || !(done->ref == stop.ref)) continue;
    if (stop.ref.kind == TaskKind::kGenerate || stop.ref.kind == TaskKind::kRunAhead) {
      done->status = absl::CancelledError("stopped");
    } else {
      pending_.erase(it);
    }
    return;
  }
}

bool SimulatedJob::Hears(const std::string& worker) const {
  const bool dying = std::any_of(pending_.begin(), pending_.end(), [&](const Event& e) {
    const auto* lost = std::get_if<WorkerLost>(&e);
    return lost != nullptr && lost->worker == worker;
  });
  return !dying && away_.count(worker) == 0;
}

void SimulatedJob::RunAhead(const StartAhead& start) {
  if (!Hears(start.worker)) return;
  EXPECT_EQ(versions_[start.worker], start.policy_version);
  TaskDone done;
  done.worker = start.worker;
  done.ref = start.ref;
  done.status = options_.ahead;
  done.output.metrics[kAheadTokens] = 2;
  std::set<TaskRef> beside;
  for (const Event& event : pending_) {
    const auto* other = std::get_if<TaskDone>(&event);
    if (other == nullptr || other->worker != start.worker) continue;
    EXPECT_FALSE(other->ref == start.ref) << "sent while it runs";
    if (other->ref.kind == TaskKind::kRunAhead && core_->Wants(other->worker, other->ref)) {
      beside.insert(other->ref);
    }
    EXPECT_FALSE(other->ref.kind == TaskKind::kGenerate && core_->Wants(other->worker, other->ref))
        << "it has real work";
  }
  EXPECT_LT(beside.size(), kCredits);
  pending_.push_back(done);
}

void SimulatedJob::StopAhead(const std::string& worker) {
  for (Event& event : pending_) {
    auto* const done = std::get_if<TaskDone>(&event);
    if (done == nullptr || done->worker != worker || done->ref.kind != TaskKind::kRunAhead)
      continue;
    if (absl::IsCancelled(done->status)) continue;
    const AheadResponse& response = ahead_.at(done->ref).response;
    ++ahead_stopped_[{response.prompt_index, response.sample}];
    done->status = absl::CancelledError("real work comes first");
    done->output.metrics[kAheadTokens] = 1;
  }
}

void SimulatedJob::Start(const StartTask& start) {
  EXPECT_FALSE(ended()) << "a task after the end";
  if (!Hears(start.worker)) return;
  if (start.ref.kind == TaskKind::kGenerate || start.ref.kind == TaskKind::kLoadWeights) {
    StopAhead(start.worker);
  }
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
      // A worker loads one version after the other: the load that it was told to stop ends before
      // the next one begins.
      std::erase_if(loading_, [&](const auto& other) { return other.first.first == start.worker; });
      loading_[{start.worker, start.ref}] = start.args.policy_version;
      if (relay_.count(start.args.policy_version) == 0) done.status = absl::NotFoundError("gone");
      break;
    case TaskKind::kGenerate:
      EXPECT_EQ(versions_[start.worker], start.args.policy_version);
      EXPECT_LT(running.size(), kCredits);
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
    const bool async = IsAsync(core_->effective_spec(), dataflow);
    EXPECT_EQ(actors_.at({start.worker, node.role()}).version,
              async ? core_->BriefRow().job().policy_version() : t.policy_version)
        << "not what it was made with, or is learned from with";
  }
  std::vector<TrajectoryInfo> scored = start.args.group;
  const bool failing = options_.failing_rewards != Options::Failing::kNone;
  if (!failing) EXPECT_EQ(scored.size(), node.over() == "group" ? 2u : 0u);
  for (uint32_t i = 0; i < scored.size(); ++i) {
    if (!failing) EXPECT_EQ(scored[i].sample, i);
    EXPECT_EQ(scored[i].prompt_index, t.prompt_index);
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
    // With dynamic sampling every third group is zero-advantage.
    const bool alike =
        options_.filter_all || (options_.preset == "dapo" && t.prompt_index % 3 == 0);
    const double reward = alike ? 1 : t.sample % 2;
    done.output.metrics["reward"] = judges ? options_.accuracy(core_->step()) : reward;
  } else if (node.method() == "compute_reward") {
    done.output.metrics["reward"] = 0.25 * (t.sample % 2);  // a cost
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
    actor.weights = MixInto(actor.weights, static_cast<uint64_t>(start.ref.step));
    actor.weights = MixInto(actor.weights, contents_.at(start.ref.step + 1));
    for (uint64_t id : batch) actor.weights = MixInto(actor.weights, id);
    if (start.args.role == "actor" && first) trained_[start.ref.step + 1] = batch;
    if (start.args.role == "actor" && Hybrid()) versions_[start.worker] = 0;
  } else if (start.ref.kind == TaskKind::kPublish || start.ref.kind == TaskKind::kToGeneration) {
    EXPECT_EQ(start.ref.kind == TaskKind::kToGeneration, Hybrid());
    const auto known = published_.emplace(start.args.policy_version, actor.weights);
    EXPECT_EQ(known.first->second, actor.weights) << "two weights of one version";
    EXPECT_EQ(published_.rbegin()->first, start.args.policy_version) << "versions only grow";
    if (Hybrid()) versions_[start.worker] = start.args.policy_version;
    if (first && !Hybrid()) Publish(start.args, actor.weights);
  } else if (first) {
    staged_[{start.ref.step, start.ref.incarnation}][start.args.role] = actor.weights;
  }
}

// The relay keeps two versions, and those that it is asked to keep.
void SimulatedJob::Publish(const TaskArgs& args, uint64_t weights) {
  relay_[args.policy_version] = weights;
  for (auto it = relay_.begin(); it != relay_.end();) {
    const bool newest = std::distance(it, relay_.end()) <= 2;
    const auto& keep = args.keep_versions;
    const bool kept = std::find(keep.begin(), keep.end(), it->first) != keep.end();
    it = newest || kept ? std::next(it) : relay_.erase(it);
  }
}

void SimulatedJob::Forget(const std::string& worker) {
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                [&](const Event& e) {
                                  const auto* done = std::get_if<TaskDone>(&e);
                                  const auto* back = std::get_if<WorkerReconnected>(&e);
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
  WorkerReconnected back;
  back.worker = worker;
  pending_.push_back(back);
}

void SimulatedJob::BreakSomeStream() {
  const std::string worker = SomeWorker();
  if (!worker.empty()) BreakStream(worker);
}

void SimulatedJob::ComeBack(const std::string& worker) {
  away_.erase(worker);
  WorkerReconnected back;
  back.worker = worker;
  for (const Event& event : pending_) {
    const auto* done = std::get_if<TaskDone>(&event);
    if (done == nullptr || done->worker != worker) continue;
    const bool finished = MeetingOf(*done) != Meeting::kWaits && random_() % 2 == 0;
    (finished ? back.unacked : back.running).push_back(done->ref);
    if (finished) FinishLoading(*done);
  }
  const auto roles = alive_.find(worker);
  if (roles != alive_.end()) {
    for (absl::string_view role : absl::StrSplit(roles->second, '+')) {
      back.holds[std::string(role)] = versions_[worker];
    }
  }
  Send(back);
}

// Once: a result that is sent a second time changes nothing that the worker holds.
void SimulatedJob::FinishLoading(const TaskDone& done) {
  const auto loaded = loading_.find({done.worker, done.ref});
  if (loaded == loading_.end() || !done.status.ok()) return;
  versions_[done.worker] = loaded->second;
  loading_.erase(loaded);
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
  for (const auto& [role, weights] : it->second) all = MixInto(all, weights);
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
