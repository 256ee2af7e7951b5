#include "tests/simulation/rules/invariants.h"

#include <algorithm>
#include <map>
#include <variant>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/simulation/parts/wire.h"
#include "tests/simulation/rules/async_rules.h"
#include "tests/simulation/rules/recorded_run.h"

namespace baton::simulation {

using controller::TaskKind;
using controller::TrajectoryName;

namespace {

// The places of a response's payload and columns; none for an example, whose data are in the data
// files.
std::vector<experience::Location> PlacesOf(const store::v1::TrajectoryRow& row) {
  if (row.tokens() == 0) return {};
  std::vector<experience::Location> places = {{row.file(), row.offset(), row.size()}};
  for (const store::v1::ColumnsRow& columns : row.columns()) {
    places.push_back({columns.file(), columns.offset(), columns.size()});
  }
  return places;
}

}  // namespace

std::string BatchIsWhole(const v1::JobSpec& spec, const JobHistory& history,
                         const controller::BuildBatch& batch) {
  if (IsAsync(spec)) return AsyncBatchIsWhole(spec, history, batch);
  std::vector<uint64_t> expected, found;
  for (const Payload& p : ExpectRun(spec, batch.step).batch) expected.push_back(p.id);
  for (const auto& t : batch.trajectories) {
    if (t.state != controller::TrajectoryState::kReady) {
      return absl::StrCat(TrajectoryName(t.id), " is not READY");
    }
    found.push_back(t.id);
  }
  if (found == expected) return "";
  if (!spec.reward().has_error_reward() && history.scored_by_error) {
    // The responses that are left out depend on the weights, and the weights on every reward
    // before: they may be any, as long as enough are left of each group.
    std::map<uint64_t, size_t> left;
    for (const auto& t : batch.trajectories) ++left[t.prompt_index];
    for (const auto& [prompt_index, count] : left) {
      if (count < LeastInGroup(spec)) {
        return absl::StrCat("of prompt index ", prompt_index, " too few are left");
      }
    }
    return std::is_sorted(found.begin(), found.end()) ? "" : "the batch is not in order";
  }
  return absl::StrCat("the batch of step ", batch.step, " has ", found.size(), " trajectories, ",
                      found.empty() ? "" : TrajectoryName(found.front()),
                      " first, not in order the ", expected.size(), " of an undisturbed run, ",
                      expected.empty() ? "" : TrajectoryName(expected.front()), " first");
}

std::string ErrorsAreWithinTheRate(const controller::JobCore& core,
                                   const controller::BuildBatch& batch) {
  const v1::JobSpec& spec = core.effective_spec();
  if (spec.kind() != v1::JOB_KIND_RL) return "";
  if (IsAsync(spec)) return AsyncErrorsAreWithinTheRate(core, batch);
  const auto n = static_cast<double>(spec.rollout().n());
  const auto groups = static_cast<double>(spec.data().train_batch_size());
  const auto lost = static_cast<double>(core.BriefRow().lost_groups());
  const double all = (groups + lost) * n;
  // Responses without a reward are not in it, and a group that is lost has too few that have one.
  double errors = groups * n - static_cast<double>(batch.trajectories.size()) +
                  lost * (n - static_cast<double>(LeastInGroup(spec)) + 1);
  for (const auto& trajectory : batch.trajectories) errors += trajectory.error.empty() ? 0 : 1;
  const double rate = spec.reward().max_error_rate();
  if (errors <= rate * all + 1e-6) return "";
  return absl::StrCat("a batch is made although ", errors, " of ", all,
                      " rewards failed, and the job allows a share of ", rate);
}

std::string EveryResponseHasItsReward(const v1::JobSpec& spec, const JobHistory& history,
                                      const controller::TrajectoryInfo& info,
                                      const Payload& response) {
  const auto reward = info.scores.find("reward");
  const std::string name = TrajectoryName(info.id);
  if (reward == info.scores.end()) return absl::StrCat(name, " has no reward");
  if (reward->second == RewardOf(spec, response)) return "";
  const bool by_error = spec.reward().has_error_reward() && history.scored_by_error;
  if (by_error && reward->second == spec.reward().error_reward()) return "";
  return absl::StrCat(name, " has reward ", reward->second, ", which is not its own");
}

std::string ConsumedOncePerBranch(const JobHistory& history, uint64_t weights, int64_t step,
                                  const std::vector<Payload>& batch) {
  std::set<uint64_t> ids;
  for (const Payload& p : batch) {
    if (p.purpose != v1::PURPOSE_TRAIN) return absl::StrCat(TrajectoryName(p.id), " was trained");
    if (!ids.insert(p.id).second) return absl::StrCat(TrajectoryName(p.id), " is there twice");
  }
  int64_t above = step;
  for (auto it = history.made_by.find(weights); it != history.made_by.end();
       it = history.made_by.find(it->second.before)) {
    if (it->second.step >= above) return absl::StrCat("step ", step, " is made a second time");
    above = it->second.step;
    for (uint64_t id : it->second.ids) {
      if (ids.count(id) > 0) return absl::StrCat(TrajectoryName(id), " is consumed again");
    }
  }
  return "";
}

std::string OneVersionPerResponse(const TaskMessage& task, const Payload& response) {
  for (uint32_t i = 0; i < task.resume.size(); ++i) {
    if (i < response.tokens && task.resume[i] == TokenAt(response.content, i)) continue;
    return absl::StrCat(TrajectoryName(task.trajectory.id), " goes on with ", task.resume.size(),
                        " tokens of other weights");
  }
  return "";
}

std::string StalenessIsBounded(const v1::JobSpec& spec, const JobHistory& history,
                               const ActorState& actor, const std::vector<Payload>& batch) {
  if (IsAsync(spec)) return AsyncStalenessIsBounded(spec, history, actor, batch);
  for (const Payload& p : batch) {
    if (p.weights == 0) continue;  // an example
    if (p.branch != actor.branch) {
      return absl::StrCat(TrajectoryName(p.id), " of version ", p.version, ", actor ", p.branch,
                          ", trains version ", actor.version, ", actor ", actor.branch,
                          ": of another incarnation");
    }
    if (p.version != actor.version || p.weights != actor.weights) {
      return absl::StrCat(TrajectoryName(p.id), " of version ", p.version,
                          " trains weights of version ", actor.version,
                          ", which did not sample it");
    }
  }
  return "";
}

std::string PayloadsAreOfKnownTrajectories(const controller::JobCore& core,
                                           const std::vector<uint64_t>& held) {
  for (const uint64_t id : held) {
    if (core.NeedsPayload(id)) continue;
    return absl::StrCat("the runtime holds what ", TrajectoryName(id),
                        " has, which the core does not know");
  }
  return "";
}

std::string ReadyIsNotLost(const std::vector<store::v1::TrajectoryRow>& rows,
                           const controller::StartTask& task) {
  if (task.ref.kind != TaskKind::kGenerate) return "";
  for (const auto& row : rows) {
    if (row.id() == task.ref.subject && row.trajectory_uid() == task.ref.trajectory_uid) {
      return absl::StrCat(TrajectoryName(row.id()), " is stored and generated again");
    }
  }
  return "";
}

bool CommandIsAnswered(const store::v1::GroupRow& group, const controller::TaskRef& ref) {
  return !group.has_command() || group.command().sequence() != ref.subject ||
         group.command().attempt() > ref.attempt;
}

std::string AckedIsCommitted(bool committed, const controller::TaskRef& ref) {
  if (committed) return "";
  return absl::StrCat("the result of ", MethodName(ref.kind), " ", ref.subject,
                      " is acknowledged before it is stored");
}

std::string AckedIsTakenIn(bool awaited, const controller::TaskRef& ref) {
  if (!awaited) return "";
  return absl::StrCat("the result of ", MethodName(ref.kind), " ", ref.subject,
                      " is acknowledged, and the job waits for it");
}

std::string PayloadIsBeforeItsRow(const store::v1::TrajectoryRow& row, const LogFiles& log) {
  for (const experience::Location& at : PlacesOf(row)) {
    if (log.EverWritten(at)) continue;
    return absl::StrCat("the row of ", TrajectoryName(row.id()), " names bytes that nobody wrote");
  }
  return "";
}

std::string DeletedFilesAreNotNeeded(const std::vector<store::v1::TrajectoryRow>& rows,
                                     const std::vector<store::v1::BatchRow>& batches,
                                     const LogFiles& log) {
  const auto deleted = [&](const store::v1::TrajectoryRow& row) {
    const std::vector<experience::Location> places = PlacesOf(row);
    return std::any_of(places.begin(), places.end(),
                       [&](const auto& at) { return log.Deleted(at); });
  };
  for (const store::v1::TrajectoryRow& row : rows) {
    if (!deleted(row)) continue;
    return absl::StrCat("the log file of ", TrajectoryName(row.id()), " of step ", row.step(),
                        " is deleted, and its row is kept");
  }
  for (const store::v1::BatchRow& batch : batches) {
    for (const store::v1::BatchEntry& entry : batch.entries()) {
      if (!deleted(entry.trajectory())) continue;
      return absl::StrCat("the log file of ", TrajectoryName(entry.trajectory().id()),
                          " is deleted, and the batch of step ", batch.step(), " is kept");
    }
  }
  return "";
}

std::string SyncedPayloadsSurvive(const store::v1::TrajectoryRow& row, const LogFiles& log) {
  for (const experience::Location& at : PlacesOf(row)) {
    if (!log.LostToPowerCut(at)) continue;
    return absl::StrCat("a power cut took what the row of ", TrajectoryName(row.id()), " names");
  }
  return "";
}

std::string ToldIsStored(bool stored, const v1::JobEvent& event) {
  if (stored) return "";
  return absl::StrCat("event ", event.revision(), " is told before it is stored");
}

std::string ToldInOrder(int64_t last, const v1::JobEvent& event) {
  if (last == 0 || event.revision() == last + 1) return "";
  return absl::StrCat("event ", event.revision(), " is told after event ", last);
}

std::string CommandIsCommitted(const store::v1::JobRow& row, const controller::StartTask& task) {
  if (!IsGroupCommand(task.ref.kind)) return "";
  for (const store::v1::GroupRow& group : row.groups()) {
    const bool newer =
        group.group_epoch() > task.args.group_epoch ||
        (group.group_epoch() == task.args.group_epoch && group.sequence() >= task.args.sequence);
    if (group.role() == task.args.role && newer) return "";
  }
  return absl::StrCat(MethodName(task.ref.kind), " ", task.args.group_epoch, ".",
                      task.args.sequence, " is sent before it is stored");
}

std::string OneVersionIsOneThing(const JobHistory& history, uint64_t version, uint64_t weights) {
  const auto known = history.published.find(version);
  if (known != history.published.end() && known->second != weights) {
    return absl::StrCat("version ", version, " is published with two different weights");
  }
  return "";
}

std::string VersionsOnlyGrow(const JobHistory& history, const controller::StartTask& task) {
  const bool hands_over =
      task.ref.kind == TaskKind::kPublish || task.ref.kind == TaskKind::kToGeneration;
  if (!hands_over || task.args.policy_version >= history.asked) return "";
  return absl::StrCat("version ", task.args.policy_version, " is to be published after ",
                      history.asked);
}

std::string LoadedAsPublished(const JobHistory& history, uint64_t version, uint64_t weights) {
  const auto known = history.published.find(version);
  if (known != history.published.end() && known->second == weights) return "";
  return absl::StrCat("a rollout works with a version ", version, " that nobody published");
}

std::string NothingLeasedIsGone(const std::map<std::string, LeaseGiven>& leases,
                                const std::set<std::string>& segments, absl::Time now) {
  for (const auto& [id, lease] : leases) {
    if (lease.end <= now || segments.count(lease.segment_id) > 0) continue;
    return absl::StrCat("version ", lease.version, " of ", lease.job, " is gone, and ",
                        lease.holder, " holds a lease on it");
  }
  return "";
}

std::string CheckpointBelongsTogether(const CheckpointFolder& folder, const JobHistory& history,
                                      int64_t step) {
  const v1::Job& job = folder.row.job();
  const v1::JobSpec& spec = job.effective_spec();
  for (const v1::UpdateNode& node : job.dataflow().update()) {
    const auto part = folder.trained.find(node.role());
    if (part == folder.trained.end()) {
      return absl::StrCat("the checkpoint of step ", step, " has no weights of the ", node.role());
    }
    if (node.role() != "actor" &&
        part->second.weights != RunOf(spec, history, step, node.role()).weights) {
      return absl::StrCat("in the checkpoint of step ", step, " the weights of the ", node.role(),
                          " are wrong");
    }
  }
  const ActorState& actor = folder.trained.at("actor");
  const ExpectedRun expected = RunOf(spec, history, step);
  const std::string wrong = SpentIsWhatWasConsumed(folder.row, history, step);
  if (!wrong.empty()) return absl::StrCat("in the checkpoint of step ", step, " ", wrong);
  uint64_t spent = 0;
  for (const store::v1::PromptIndexRange& range : folder.row.spent()) {
    spent += range.last() - range.first() + 1;
  }
  if (actor.weights == expected.weights && folder.row.job().step() == step &&
      (IsAsync(spec) || spent == expected.prompts) &&
      actor.version == folder.row.job().policy_version()) {
    return "";
  }
  return absl::StrCat("in the checkpoint of step ", step, " the weights are of step ", actor.step,
                      ", version ", actor.version, "; the controller's of step ",
                      folder.row.job().step(), ", version ", folder.row.job().policy_version(),
                      ", ", spent, " prompts spent",
                      actor.weights == expected.weights ? "" : "; the weights are wrong");
}

std::string ManifestNamesEveryPart(const CheckpointFolder& folder,
                                   const std::vector<v1::FileHash>& written) {
  std::set<std::string> named;
  for (const v1::FileHash& file : written) named.insert(file.path());
  for (const auto& [role, state] : folder.trained) {
    if (named.count(role) > 0) continue;
    return absl::StrCat("no rank says that it wrote the part of the ", role);
  }
  return "";
}

std::string ListedCheckpointIsComplete(const v1::Checkpoint& checkpoint, const JobFolder& folder) {
  if (folder.complete.count(checkpoint.step()) > 0) return "";
  return absl::StrCat("checkpoint ", checkpoint.step(), " is listed and not there");
}

std::string OnlyMarkedCheckpointsLoseTheOptimizer(const std::optional<v1::Checkpoint>& stored) {
  if (stored.has_value() && stored->weights_only()) return "";
  return absl::StrCat("the optimizer's files of ",
                      stored.has_value() ? absl::StrCat("checkpoint ", stored->step())
                                         : std::string("a checkpoint without a row"),
                      " are removed, and its row does not say so");
}

std::string TrainingGoesOnWithTheOptimizer(int64_t step, const CheckpointFolder& folder) {
  if (folder.optimizer) return "";
  return absl::StrCat("training goes on from checkpoint ", step, ", which has weights only");
}

std::string EveryWaitHasADeadline(const controller::JobCore& core, absl::Time now,
                                  absl::Duration slack) {
  if (controller::IsTerminal(core.state())) return "";
  const v1::ExplainJobResponse why = core.Explain(now);
  if (why.waits().empty()) return absl::StrCat("no wait is named: ", why.summary());
  // A wait for a turn, or for the other ranks, ends when another wait ends; so do the waits of an
  // async job's trainer and rollouts for each other's work.
  const auto for_others = [](const v1::Wait& wait) {
    static const std::set<std::string> ahead = {"batch", "evaluation", "staleness",
                                                "pace",  "late_group", "refresh"};
    return wait.kind() == "turn" || wait.kind() == "gather" || wait.kind() == "reward_errors" ||
           (ahead.count(wait.kind()) > 0 && !wait.has_deadline_in());
  };
  if (std::all_of(why.waits().begin(), why.waits().end(), for_others)) {
    return absl::StrCat("they wait for each other: ", why.waits(0).ShortDebugString());
  }
  for (const v1::Wait& wait : why.waits()) {
    // Only a person ends these.
    const bool person = wait.kind() == "user" || wait.kind() == "workers";
    // These kinds tell what has gone wrong already; the work that it delays has a wait of its own,
    // or ends with its score.
    if (wait.kind() == "reward_errors" || wait.kind() == "trouble") continue;
    if (wait.kind().empty() || wait.cause().empty() || wait.action().empty()) {
      return absl::StrCat("a wait says too little: ", wait.ShortDebugString());
    }
    if (!wait.has_deadline_in()) {
      if (person || for_others(wait)) continue;
      return absl::StrCat("no deadline: ", wait.ShortDebugString());
    }
    if (wait.deadline_in().seconds() < -absl::ToInt64Seconds(slack)) {
      return absl::StrCat("the deadline has not acted: ", wait.ShortDebugString());
    }
  }
  return "";
}

std::string SubjectOf(const controller::TaskRef& ref, const std::string& worker) {
  // A slot's role and weights tasks share its attempts; a command follows the one before it.
  const char* group = ref.kind == TaskKind::kGenerate   ? "generate"
                      : ref.kind == TaskKind::kScore    ? "score"
                      : ref.kind == TaskKind::kRunAhead ? "ahead"
                      : IsGroupCommand(ref.kind)        ? "command"
                                                        : "slot";
  if (IsGroupCommand(ref.kind)) return absl::StrCat(group, "/", ref.target, "/", worker);
  return absl::StrCat(group, "/", ref.subject, "/", ref.target);
}

std::string StaleTokenChangesNothing(const JobHistory& history, const controller::JobCore& core,
                                     const controller::TaskDone& done, absl::Time now) {
  const std::string subject = SubjectOf(done.ref, done.worker);
  if (history.forgotten.count(subject) > 0) return "";
  const auto current = history.current.find(subject);
  const std::string token = controller::EncodeToken({core.name(), done.ref});
  if (current != history.current.end() && current->second == absl::StrCat(token, done.worker)) {
    return "";
  }
  controller::JobCore copy = core;
  const store::v1::JobRow before = copy.Row();
  const controller::Effects effects = copy.Handle(done, now);
  const bool quiet = std::all_of(effects.begin(), effects.end(), [](const auto& effect) {
    return std::holds_alternative<controller::AckResult>(effect);
  });
  using google::protobuf::util::MessageDifferencer;
  if (quiet && MessageDifferencer::Equals(copy.Row(), before)) return "";
  return absl::StrCat("a stale result of ", MethodName(done.ref.kind), " ", done.ref.subject,
                      ", attempt ", done.ref.attempt, ", of ", done.worker, " counts");
}

std::string FencedBeforeReassigned(bool holds_role, absl::Time lease_end, absl::Time now) {
  if (!holds_role || lease_end <= now) return "";
  return absl::StrCat("the controller gave it up ", absl::FormatDuration(lease_end - now),
                      " before its own lease ends");
}

std::string LeaseIsNotRenewedAfterItsEnd(absl::Time lease_end, absl::Time now) {
  if (lease_end > now) return "";
  return absl::StrCat("a heartbeat renewed a lease that ended ",
                      absl::FormatDuration(now - lease_end), " before");
}

std::string EpochsOnlyGrow(uint64_t last, uint64_t epoch) {
  if (epoch > last) return "";
  return absl::StrCat("a controller of epoch ", epoch, " follows one of epoch ", last);
}

std::string StaleEpochIsRefused(uint64_t epoch, const v1::Hello& hello,
                                const controller::ClusterEffects& effects) {
  if (hello.epoch_seen() <= epoch) return "";
  for (const auto& effect : effects) {
    if (!std::holds_alternative<controller::ClusterRefuse>(effect)) {
      return absl::StrCat("a controller of epoch ", epoch, " takes worker ", hello.worker_id(),
                          ", which has seen epoch ", hello.epoch_seen());
    }
  }
  return "";
}

std::string SequenceIsNeverSkipped(uint64_t last, const TaskMessage& command) {
  if (command.sequence <= last + 1) return "";
  return absl::StrCat(MethodName(command.kind), " has sequence ", command.sequence, " after ",
                      last);
}

std::string WorkersOfferWhatTheyAreAsked(const v1::Hello& offer, const TaskMessage& task) {
  using controller::TaskKind;
  const bool takes_role = task.kind == TaskKind::kAssignRole || task.kind == TaskKind::kReleaseRole;
  for (const v1::MethodCredits& method : offer.methods()) {
    if (method.role() == task.role && (takes_role || method.method() == task.method)) return "";
  }
  return absl::StrCat("a worker is asked for ", task.role, ".", task.method,
                      ", which it did not offer");
}

std::string CreditsAreKept(const controller::JobCore& core,
                           const std::map<std::string, std::string>& sent,
                           const controller::StartTask& task, int credits) {
  if (task.ref.kind != TaskKind::kGenerate && task.ref.kind != TaskKind::kScore) return "";
  int outstanding = 0;
  for (const auto& [subject, what] : sent) {
    const size_t size = what.size() - task.worker.size();
    if (what.size() <= task.worker.size() || what.substr(size) != task.worker) continue;
    const auto token = controller::DecodeToken(what.substr(0, size));
    if (token.has_value() && token->ref.kind == task.ref.kind &&
        core.Wants(task.worker, token->ref)) {
      ++outstanding;
    }
  }
  if (outstanding <= credits) return "";
  return absl::StrCat("worker ", task.worker, " has ", outstanding, " tasks and ", credits,
                      " credits");
}

std::string OneRoleOfAPoolAtATime(const std::vector<controller::RolePool>& pools,
                                  const std::vector<TaskAtWork>& running) {
  const auto works = [](TaskKind kind) {
    return kind != TaskKind::kAssignRole && kind != TaskKind::kReleaseRole;
  };
  const auto name = [](const TaskAtWork& task) {
    return absl::StrCat(task.role, ".", MethodName(task.kind), " on ", task.worker);
  };
  for (const controller::RolePool& pool : pools) {
    if (pool.roles.size() < 2) continue;
    const TaskAtWork* first = nullptr;
    for (const TaskAtWork& task : running) {
      const bool here = std::count(pool.roles.begin(), pool.roles.end(), task.role) > 0;
      if (!here || !works(task.kind)) continue;
      if (first == nullptr) first = &task;
      const bool alone = IsGroupCommand(first->kind) || IsGroupCommand(task.kind);
      if (task.role != first->role || (alone && task.kind != first->kind)) {
        return absl::StrCat(name(*first), " and ", name(task), " run on their pool at once");
      }
    }
  }
  return "";
}

std::string SampledByTheTrainedWeights(const ActorState& actor, const Payload& response) {
  if (actor == ActorState{response.weights, actor.step, response.version, response.branch} &&
      actor.branch == response.branch) {
    return "";
  }
  return absl::StrCat(TrajectoryName(response.id), " comes from version ", response.version,
                      ", and the actor that it shares its weights with has version ",
                      actor.version);
}

std::string TheFirstOfACopyScores(uint32_t rank, int tp) {
  if (rank % static_cast<uint32_t>(tp) == 0) return "";
  return absl::StrCat("rank ", rank, " is asked for a score, and ", tp, " ranks hold a copy");
}

std::string NothingAfterTheEnd(v1::Job::State state, const controller::StartTask& task) {
  if (!controller::IsTerminal(state) && state != v1::Job::STATE_PAUSED) return "";
  return absl::StrCat(MethodName(task.ref.kind), " is sent for a job that is ",
                      controller::StateName(state));
}

std::string RevisionsHaveNoGap(const JobHistory& history, int64_t revision) {
  if (revision == history.revision + 1) return "";
  return absl::StrCat("event ", revision, " follows event ", history.revision);
}

}  // namespace baton::simulation
