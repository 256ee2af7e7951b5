// JobCore: where it stands, for people and for watchers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/durations.h"
#include "controller/core/job_core.h"

namespace baton::controller {

using Job = v1::Job;

v1::Job JobCore::Describe() const {
  Job job = Brief();
  job.MergeFrom(*submitted_);
  return job;
}

v1::Job JobCore::Brief() const {
  Job job = Durable();
  job.MergeFrom(Progress());
  return job;
}

v1::Job JobCore::Durable() const {
  Job job = job_;
  job.set_step(step_);
  job.set_policy_version(policy_version_);
  return job;
}

v1::Job JobCore::Progress() const {
  Job job;
  for (const Slot& slot : roster_.slots()) {
    if (slot.state != SlotState::kEmpty) {
      job.add_workers(absl::StrCat(slot.role, ": ", slot.worker));
    }
  }
  if (!IsActive(state())) return job;
  switch (phase_) {
    case Phase::kNone:
      job.set_phase(state() == Job::STATE_STOPPING ? "releasing workers" : "starting");
      break;
    case Phase::kSetUp:
      job.set_phase("setting up");
      break;
    case Phase::kPublish:
      job.set_phase("publishing weights");
      break;
    case Phase::kGenerate:
      job.set_phase("generating");
      break;
    case Phase::kBatch:
      job.set_phase("computing advantages");
      break;
    case Phase::kUpdate:
      job.set_phase("training");
      break;
    case Phase::kEvaluate:
      job.set_phase("evaluating");
      break;
    case Phase::kSave:
      job.set_phase("saving a checkpoint");
      break;
  }
  if (phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate) {
    job.set_phase_done(static_cast<int64_t>(ready_));
    const bool evaluates = phase_ == Phase::kEvaluate;
    const uint64_t each = samples(evaluates ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN) +
                          (is_rl() && !evaluates && has_baseline() ? 1 : 0);
    const uint64_t undrawn = (draw_end_ - next_draw_) * each;
    job.set_phase_total(static_cast<int64_t>(trajectories_.size() + undrawn));
  }
  return job;
}

// "3 of 64 groups": those that are not whole yet.
std::string JobCore::OpenGroups() const {
  std::map<uint64_t, bool> open;  // by draw
  for (const auto& [id, trajectory] : trajectories_) {
    open[trajectory.draw] |= trajectory.state != TrajectoryState::kReady;
  }
  const auto count =
      std::count_if(open.begin(), open.end(), [](const auto& group) { return group.second; });
  return absl::StrCat(count, " of ", open.size(), " groups");
}

// The graph of the dataflow with what each node does right now.
void JobCore::ExplainNodes(v1::ExplainJobResponse* out) const {
  const auto add = [&](const std::string& node, const std::string& role,
                       const std::string& method) {
    v1::NodeStatus* status = out->add_nodes();
    status->set_node(node);
    status->set_role(role);
    status->set_method(method);
    status->set_state(state() == Job::STATE_SUCCEEDED ? "done" : "waiting");
    status->set_done(-1);
    return status;
  };
  const auto settle = [](v1::NodeStatus* status, int64_t done, int64_t running, int64_t total) {
    status->set_done(done);
    status->set_running(running);
    status->set_total(total);
    if (total > 0 && done == total) status->set_state("done");
    if (running > 0 || (done > 0 && done < total)) status->set_state("running");
  };
  if (is_rl()) {
    for (const v1::GenerateNode& node : dataflow().generate()) {
      const bool train = node.purpose() == "train";
      int64_t done = 0, running = 0, total = 0;
      for (const auto& [id, t] : trajectories_) {
        if ((t.purpose == v1::PURPOSE_BASELINE) == train) continue;
        ++total;
        done += t.state == TrajectoryState::kScoring || t.state == TrajectoryState::kReady;
        running += t.state == TrajectoryState::kGenerating;
      }
      settle(add(train ? "generate" : "baseline", "rollout", "generate"), done, running, total);
    }
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(graph_.size()); ++i) {
    const v1::ScoreNode& node = dataflow().score(static_cast<int>(i));
    v1::NodeStatus* status = add(node.node(), node.role(), node.method());
    status->set_out(node.out());
    status->add_needs("generate");
    for (int k = 0; k < graph_.size(); ++k) {
      if ((graph_.needs(i) >> k & 1) != 0) status->add_needs(dataflow().score(k).node());
    }
    int64_t done = 0, total = 0;
    for (const auto& [id, t] : trajectories_) {
      if ((graph_.Wanted(t.purpose) >> i & 1) == 0) continue;
      ++total;
      done += static_cast<int64_t>(t.scored >> i & 1);
    }
    const auto& running = scorers_.at(node.role()).manager.running();
    const auto here = std::count_if(running.begin(), running.end(),
                                    [&](const auto& work) { return NodeOf(work.first) == i; });
    settle(status, done, here, total);
  }
  if (is_rl()) {
    v1::NodeStatus* advantage = add("advantage", "controller", dataflow().advantage().estimator());
    for (const v1::ScoreNode& node : dataflow().score()) advantage->add_needs(node.node());
    if (phase_ == Phase::kBatch) advantage->set_state("running");
    if (phase_ == Phase::kUpdate) advantage->set_state("done");
  }
  for (const v1::UpdateNode& node : dataflow().update()) {
    v1::NodeStatus* update = add(absl::StrCat("update ", node.role()), node.role(), node.loss());
    if (is_rl()) update->add_needs("advantage");
    if (phase_ != Phase::kUpdate) continue;
    const Group* group = GroupOf(node.role());
    const bool open = group != nullptr && group->command.has_value();
    update->set_state(!open ? "done" : group->command->sent.empty() ? "waiting" : "running");
  }
}

// "rollout works there (8 tasks)": on the pool of `role`, which waits.
std::string JobCore::AtWorkIn(const std::string& role) const {
  const SharedPool& pool = *roster_.SharedBy(role);
  std::vector<std::string> busy;
  for (const std::string& other : pool.roles) {
    const Group* group = GroupOf(other);
    if (group != nullptr && group->command.has_value() && !group->command->sent.empty()) {
      busy.push_back(absl::StrCat(other, " executes ", MethodName(group->command->kind)));
    } else if (IsAtWork(other)) {
      const size_t tasks = other == "rollout" ? rollouts_.running().size()
                                              : scorers_.at(other).manager.running().size();
      busy.push_back(absl::StrCat(other, " has ", tasks, " running"));
    } else if (group != nullptr && (group->broken.has_value() || !roster_.AllReady(other))) {
      busy.push_back(absl::StrCat("the ranks of ", other, " meet"));
    }
  }
  return busy.empty() ? "its workers are not all back" : absl::StrJoin(busy, ", ");
}

v1::ExplainJobResponse JobCore::Explain(absl::Time now) const {
  v1::ExplainJobResponse out;
  auto add = [&](const std::string& kind, const std::string& subject, const std::string& cause,
                 absl::Time since, absl::Duration limit, const std::string& action) {
    v1::Wait* wait = out.add_waits();
    wait->set_kind(kind);
    wait->set_subject(subject);
    wait->set_cause(cause);
    wait->set_action(action);
    SetDuration(wait->mutable_since(), now - since);
    if (limit != absl::InfiniteDuration()) {
      SetDuration(wait->mutable_deadline_in(), since + limit - now);
    }
  };
  ExplainNodes(&out);
  const std::string id = name().substr(name().rfind('/') + 1);
  out.set_summary(absl::StrCat(
      "job ", id, " is ", StateName(state()),
      IsActive(state())
          ? absl::StrCat(", ", Progress().phase(), ", step ", step_ + 1, " of ", job_.total_steps())
          : std::string()));
  if (IsTerminal(state())) {
    if (!job_.error().message().empty()) {
      out.set_summary(absl::StrCat(out.summary(), ": ", job_.error().message()));
    }
    return out;
  }
  if (state() == Job::STATE_PAUSED) {
    add("user", absl::StrCat("job ", id), "its user to resume it", queued_since_,
        absl::InfiniteDuration(), absl::StrCat("nothing until `baton resume ", id, "`"));
    return out;
  }
  // Roots first: who is missing, then who does not answer, then what waits for them.
  const std::map<std::string, int> missing = roster_.Missing();
  absl::Time missing_since = now;
  for (const Slot& slot : roster_.slots()) {
    if (slot.state == SlotState::kEmpty) missing_since = std::min(missing_since, slot.since);
  }
  if (!missing.empty() && !Releasing() && state() != Job::STATE_STOPPING) {
    const std::string list =
        absl::StrJoin(missing, ", ", [](std::string* s, const std::pair<std::string, int>& m) {
          absl::StrAppend(s, m.second, " ", m.first, " worker", m.second == 1 ? "" : "s");
        });
    add("workers", state() == Job::STATE_QUEUED ? absl::StrCat("job ", id) : "a role",
        absl::StrCat(list, " to attach or to become free"),
        state() == Job::STATE_QUEUED ? queued_since_ : missing_since, absl::InfiniteDuration(),
        "it goes on as soon as they exist; start more with `baton-worker`, or free some");
  }
  if (data_loading_) {
    add("data", absl::StrCat("job ", id), "its data files to be read", data_since_,
        options_.setup_deadline, "the job fails");
  }
  for (const Slot& slot : roster_.slots()) {
    const std::string subject = absl::StrCat("role ", slot.role);
    if (slot.state != SlotState::kEmpty && !slot.present) {
      add("reattach", subject, absl::StrCat("worker ", slot.worker, " to attach again"), slot.since,
          options_.setup_deadline, "its work moves to another worker");
    } else if (slot.state == SlotState::kGathering) {
      add("gather", subject,
          absl::StrCat("the other ranks of its group, for rank ", slot.rank, " on worker ",
                       slot.worker),
          slot.since, absl::InfiniteDuration(), "all take the role on together");
    } else if (slot.state == SlotState::kAssigning) {
      add("assign_role", subject, absl::StrCat("worker ", slot.worker, " to take the role on"),
          slot.since, options_.setup_deadline, "the role goes to another worker");
    } else if (slot.loading) {
      add("load_weights", subject,
          absl::StrCat("worker ", slot.worker, " to load policy version ", slot.loading_version),
          slot.since, options_.setup_deadline, "the role goes to another worker");
    } else if (slot.state == SlotState::kReleasing) {
      add("release_role", subject, absl::StrCat("worker ", slot.worker, " to leave its role"),
          slot.since, options_.release_deadline, "the worker is given back all the same");
    }
  }
  const std::string step = absl::StrCat("step ", step_ + 1);
  // The one that has not moved for longest stands for all that run.
  auto out_of = [&](uint64_t work) {
    const std::string& made = dataflow().score(static_cast<int>(NodeOf(work))).out();
    return made == "reward" ? std::string("a score") : made;
  };
  auto oldest = [&](const RolloutManager& manager, const std::string& kind, absl::Duration limit,
                    const std::string& action) {
    if (manager.running().empty()) return;
    const auto it = std::min_element(
        manager.running().begin(), manager.running().end(),
        [](const auto& a, const auto& b) { return a.second.progressed < b.second.progressed; });
    const TrajectoryInfo& trajectory = trajectories_.at(TrajectoryOf(it->first));
    add(kind, phase_ == Phase::kEvaluate ? absl::StrCat("the evaluation of step ", step_) : step,
        absl::StrCat(OpenGroups(), "; group ", trajectory.draw, " waits for response ",
                     trajectory.sample, " (", TrajectoryName(trajectory.id), ") on worker ",
                     it->second.worker,
                     kind == "score" ? absl::StrCat(", without ", out_of(it->first))
                                     : absl::StrCat(", no token after ", trajectory.tokens)),
        it->second.progressed, limit, action);
  };
  oldest(rollouts_, "generate", options_.generate_stall, "it moves to another replica");
  for (const auto& [role, scorer] : scorers_) {
    oldest(scorer.manager, "score", options_.score_deadline,
           "it is tried again elsewhere; after the last try that response has no reward");
  }
  if (phase_ == Phase::kBatch) {
    add("batch", step, "its batch to be put together and its advantages to be computed",
        phase_since_, options_.setup_deadline, "the job fails");
  }
  if (no_room_.has_value()) {
    add("space", step,
        absl::StrCat("room to ", MethodName(no_room_->kind), ": ", no_room_->message),
        no_room_->since, std::max(now, no_room_->retry) - no_room_->since,
        "it is tried again; make room, nothing is lost");
  }
  for (const Group& group : groups_) {
    if (group.broken.has_value()) {
      add("regroup", absl::StrCat("role ", group.role),
          absl::StrCat("the rank that its group misses to be known (", group.broken->reason, ")"),
          group.broken->since, options_.regroup_delay,
          group.trains ? "the group is formed anew from its checkpoint"
                       : "the group is formed anew");
    }
    if (!group.command.has_value()) continue;
    const Command& command = *group.command;
    if (command.sent.empty() && !MayCommand(group)) {
      add("turn", absl::StrCat("role ", group.role),
          absl::StrCat("its pool, for ", MethodName(command.kind), "; ", AtWorkIn(group.role)),
          command.issued == absl::Time() ? phase_since_ : command.issued, absl::InfiniteDuration(),
          "it is sent when they are done");
      continue;
    }
    std::vector<std::string> workers;
    for (const Slot& slot : roster_.slots()) {
      if (slot.role == group.role && command.answers.count(slot.rank) == 0) {
        workers.push_back(slot.worker);
      }
    }
    add(std::string(MethodName(command.kind)), step,
        absl::StrCat("worker ", absl::StrJoin(workers, ", "), " to finish ",
                     MethodName(command.kind)),
        command.since == absl::Time() ? phase_since_ : command.since, options_.command_deadline,
        "the trainer restarts from its checkpoint");
  }
  const auto turn = [&](const std::string& role, size_t queued) {
    if (queued == 0 || HasTurn(role)) return;
    add("turn", absl::StrCat("role ", role), absl::StrCat("its pool; ", AtWorkIn(role)),
        std::max(phase_since_, roster_.SharedBy(role)->since), absl::InfiniteDuration(),
        "it begins when they are done");
  };
  turn("rollout", rollouts_.queued());
  for (const auto& [role, scorer] : scorers_) turn(role, scorer.manager.queued());
  if (committing_checkpoint_) {
    add("checkpoint", step, "the checkpoint to be completed on disk", committing_since_,
        options_.setup_deadline, "the job fails");
  }
  return out;
}

}  // namespace baton::controller
