// JobCore: where it stands, for people and for watchers.
#include "absl/strings/str_cat.h"
#include "controller/core/explain_nodes.h"
#include "controller/core/job_core.h"
#include "controller/core/wait_list.h"

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
  job.set_step(out_.step());
  job.set_revision(out_.revision());
  job.set_policy_version(versions_.newest());
  job.clear_warnings();  // those of an earlier row
  for (std::string& line : LearningSummary(spec(), out_.step(), milestones_.learning())) {
    job.add_warnings(std::move(line));
  }
  job.set_stop_reason(milestones_.learning().stop_reason());
  return job;
}

v1::Job JobCore::Progress() const {
  Job job;
  for (const Slot& slot : roster().slots()) {
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
      job.set_phase(scheduler_.AllGenerated() ? "scoring" : "generating");
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
    job.set_phase_done(static_cast<int64_t>(scheduler_.table().ready()));
    job.set_phase_total(static_cast<int64_t>(scheduler_.Total()));
  }
  return job;
}

v1::ExplainJobResponse JobCore::Explain(absl::Time now) const {
  v1::ExplainJobResponse out;
  WaitList waits(now, &out);
  const auto add = [&](const auto&... wait) { waits.Add(wait...); };
  ExplainNodes({spec(), dataflow(), scheduler_, groups_, phase_, state() == Job::STATE_SUCCEEDED},
               &out);
  const std::string id = name().substr(name().rfind('/') + 1);
  out.set_summary(absl::StrCat("job ", id, " is ", StateName(state()),
                               IsActive(state())
                                   ? absl::StrCat(", ", Progress().phase(), ", step ",
                                                  out_.step() + 1, " of ", job_.total_steps())
                                   : std::string()));
  if (IsTerminal(state())) {
    if (!job_.error().message().empty()) {
      out.set_summary(absl::StrCat(out.summary(), ": ", job_.error().message()));
    }
    if (state() != Job::STATE_SUCCEEDED && !checkpoints().empty()) {
      out.set_summary(absl::StrCat(out.summary(), "; `baton resume ", id,
                                   "` goes on from the checkpoint of step ",
                                   checkpoints().back().step()));
    }
    return out;
  }
  if (state() == Job::STATE_PAUSED) {
    add("user", absl::StrCat("job ", id), "its user to resume it", queued_since_,
        absl::InfiniteDuration(), absl::StrCat("nothing happens until `baton resume ", id, "`"));
    return out;
  }
  // Roots first: what fails, who is missing, then who does not answer, then what waits for them.
  const auto total = static_cast<uint64_t>(Progress().phase_total());
  const std::string work = scheduler_.WorkName(out_);
  slots_.ExplainTrouble(scheduler_.errors().Limit(work, total), waits);
  scheduler_.errors().Explain(work, total, phase_since_, waits);
  if (!slots_.Releasing() && state() != Job::STATE_STOPPING) {
    const bool queued = state() == Job::STATE_QUEUED;
    slots_.ExplainMissing(id, queued ? std::optional(queued_since_) : std::nullopt, waits);
  }
  data_.Explain(id, options_.setup_deadline, waits);
  slots_.Explain(versions_, waits);
  const std::string step = absl::StrCat("step ", out_.step() + 1);
  scheduler_.ExplainOldest(scheduler_.queues().rollouts(), "generate", options_.generate_stall,
                           "it is tried again", out_, waits);
  for (const auto& [role, queue] : scheduler_.queues().scorers()) {
    if (roster().AnyTrouble(role)) continue;  // it says more than this deadline
    scheduler_.ExplainOldest(queue, "score", options_.score_deadline,
                             "it is tried again; after the last try the response has no reward",
                             out_, waits);
  }
  scheduler_.payload_wait().Explain(work, waits);
  if (phase_ == Phase::kBatch) {
    add("batch", step, "the controller to build its batch and to compute advantages", phase_since_,
        options_.setup_deadline, "the job fails");
  }
  groups_.room().Explain(out_.step(), waits);
  for (const Group& group : groups_.all()) {
    const bool waits_for_turn = group.command.has_value() && !pools_.MayCommand(group, View());
    ExplainGroup(group, waits_for_turn ? pools_.AtWorkIn(group.role, View()) : "", phase_since_,
                 roster(), options_, out_.step(), waits);
  }
  pools_.Explain(View(), phase_since_, waits);
  milestones_.Explain(out_.step(), options_.setup_deadline, waits);
  return out;
}

}  // namespace baton::controller
