// The core of one job: events and the time go in, effects come out.
//
// Pure. The runtime carries effects out only after the rows of the same turn are committed, so
// nothing outside the controller ever knows more than the store.
//
// Owns the job's parts (job_parts.h), and routes each event to the functions that handle it:
// results.h for tasks, worker_changes.h for workers, life_changes.h for requests of users,
// batch_flow.h and checkpoint_flow.h for what the runtime did. At the end of a turn, the activity
// that has become due begins (step_loop.h). docs/design/core.md lists the parts,
// docs/state-machines.md has the table of states.
#ifndef BATON_CONTROLLER_CORE_LOOP_JOB_CORE_H_
#define BATON_CONTROLLER_CORE_LOOP_JOB_CORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/activities.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"
#include "controller/core/job/first_row.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/job_state.h"
#include "controller/core/steps/job_parts.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

/// Tells watchers of a phase's progress, at most five times a second. Owns the progress that was
/// sent last. Progress events are not kept: a watcher that misses one loses nothing, so a fast
/// phase is reported in jumps.
class ProgressFeed {
 public:
  /// `progress`: the phase of the job for people, with how much of it is done.
  void Tell(Activity activity, const v1::Job& progress, EffectSink& out);

 private:
  absl::Time sent_at_;
  int64_t sent_ = -1;  // the phase, and how much of it was done, as one number
};

class JobCore {
 public:
  /// A job just accepted: QUEUED. `job` has name, uid, specs, dataflow, create_time.
  JobCore(v1::Job job, int64_t submit_order, const JobCoreOptions& options);
  /// A job found in the store by a restarted controller of `epoch`, with the trajectory rows of
  /// the step in progress by serial. Call Start next.
  JobCore(store::v1::JobRow row, const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories,
          uint64_t epoch, const JobCoreOptions& options);

  /// First call. A new job asks for workers, a restored one waits for its own to come back.
  Effects Start(absl::Time now);
  Effects Handle(const Event& event, absl::Time now);

  /// Everything a restart needs but the trajectories; brief: without submitted(), checkpoints().
  store::v1::JobRow Row() const;
  store::v1::JobRow BriefRow() const;
  const std::vector<v1::Checkpoint>& checkpoints() const { return job_.milestones.checkpoints(); }
  /// The public status; brief: without the fields of submitted().
  v1::Job Describe() const;
  v1::Job Brief() const;
  /// The brief status in two parts: the fields that change only with the job's row, and workers and
  /// phase.
  v1::Job Durable() const;
  v1::Job Progress() const;
  /// spec, effective_spec and dataflow, which never change.
  const std::shared_ptr<const v1::Job>& submitted() const { return job_.submitted; }
  v1::ExplainJobResponse Explain(absl::Time now) const;

  v1::Job::State state() const { return job_.life.state(); }
  const std::string& name() const { return job_.life.job().name(); }
  int64_t step() const { return job_.out.step(); }
  uint64_t incarnation() const { return job_.out.incarnation(); }
  const v1::JobSpec& effective_spec() const { return job_.spec(); }
  const v1::Dataflow& dataflow() const { return job_.dataflow(); }
  /// A trajectory of the phase in progress; null: there is none with that id.
  const TrajectoryInfo* Find(uint64_t trajectory) const {
    return job_.scheduler.table().Find(trajectory);
  }
  /// True if that trajectory's payload is needed: it belongs to the phase in progress, or to its
  /// batch.
  bool NeedsPayload(uint64_t trajectory) const {
    return Find(trajectory) != nullptr || job_.buffer.taken().count(trajectory) > 0;
  }
  /// Kept responses by prompt. After a restart: those of the step in progress and later ones; after
  /// a resume: later ones only.
  const PromptHistory& history() const { return job_.buffer.history(); }
  /// False from a restart until the trajectories of its step are known again. Until then the core
  /// ignores results of generations and scores, except those with role_lost; the caller holds them
  /// back.
  bool knows_trajectories() const { return job_.work.begun(); }
  /// The role that a task is for; "": there is no such task.
  std::string RoleOf(const TaskRef& ref) const { return job_.RoleOf(ref); }
  /// True if the job still wants that task from that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const {
    return job_.Wants(worker, ref);
  }
  /// True while a checkpoint of that incarnation is being committed.
  bool WantsCheckpoint(uint64_t incarnation) const {
    return incarnation == job_.out.incarnation() && job_.save.committing() && IsActive(state());
  }
  /// The worker that has published the versions that rollouts have; empty: none was.
  std::string publisher() const {
    return job_.versions.published_version() == 0 ? "" : job_.roster().FirstOf(roles::kActor);
  }
  /// The address of the relay of this worker's host; empty: it is not known.
  std::string RelayFor(const std::string& worker) const {
    return job_.versions.relays().AddressFor(worker);
  }
  /// Workers held (for a restart: expected to come back), with their roles, joined by "+".
  std::map<std::string, std::string> HeldWorkers() const { return job_.roster().Held(); }

 private:
  /// Ends the turn: begins the activities that follow from it.
  Effects EndTurn();

  JobParts job_;
  ProgressFeed progress_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_JOB_CORE_H_
