// The groups of responses of an async job: from their draw until a batch takes them.
//
// Owns which draws are open and spent (DrawLedger), which groups are complete and in which order,
// and what was dropped since the last step. The trajectories are the scheduler's.
//
//   a rollout has room, and MayBegin --> open --all READY--> complete --> a batch (AsyncBatch)
//        ^                                |  (of those that     |
//        |                                |  are not given up)  |
//        +-- stale: drawn anew -----------+----------------------+
//                                         +-- too few rewards, or nothing to learn --> spent
//
// Rollouts pull: a group is drawn when a replica has room, so it begins with the newest weights
// that are published. async_admission.h bounds how many are ahead of the trainer; admission_pace.h
// says how many need to be.
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_GROUPS_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_GROUPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/loop/admission_pace.h"
#include "controller/core/loop/complete_groups.h"
#include "controller/core/loop/late_groups.h"
#include "controller/core/prompts/draw_ledger.h"
#include "controller/core/prompts/prompt_lengths.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

/// Groups that an update consumes.
uint64_t GroupsPerBatch(const JobParts& job);
/// How many updates behind the newest weights those are that made the response, or are making it;
/// nothing: that is not known. One that is not begun takes newer weights when it begins: 0.
std::optional<uint64_t> StalenessOf(const TrajectoryInfo& trajectory, const JobParts& job);
/// No batch may consume the response any more.
bool IsStale(const TrajectoryInfo& trajectory, const JobParts& job);
class AsyncGroups {
 public:
  /// After a restart: judges the groups that are whole, in the order of their draws. In which order
  /// they were complete is not stored. False: the job failed.
  bool Stand(JobParts& job);
  /// One more group may begin: it can be consumed within the bound, and before the job ends.
  bool MayBeginGroup(const JobParts& job);
  /// Draws groups while a rollout has room for them, and gives them out.
  void Begin(JobParts& job);
  /// All responses of the group that were not given up are there, and READY.
  bool IsWhole(uint64_t draw, const JobParts& job) const;
  /// A response of the draw is READY. True: all of them are, and the group is judged.
  bool NoteReady(uint64_t draw, JobParts& job);
  /// Groups that have waited for their stragglers for schedule.group_timeout_seconds go on without
  /// them, if they have schedule.min_group_size responses. Call it every few seconds. True: one of
  /// them is complete, or dropped.
  bool GiveUpStragglers(JobParts& job);
  /// Drops groups that no batch may consume any more.
  void DropStale(JobParts& job);
  /// The groups of the next batch, by the job's sampler; empty: there are not enough.
  std::vector<uint64_t> Sample(const JobParts& job);
  /// How long the responses to each prompt were, for schedule.begin_order.
  PromptLengths& lengths() { return lengths_; }
  /// The next step begins. `metrics`: of the one that is done.
  void EndStep(const std::map<std::string, double>& metrics, absl::Time now);
  /// The job goes back to its newest checkpoint. What is open stays.
  void RollBack() { without_batch_ = 0; }
  void Clear();

  DrawLedger& draws() { return draws_; }
  const DrawLedger& draws() const { return draws_; }
  CompleteGroups& complete() { return complete_; }
  const CompleteGroups& complete() const { return complete_; }

  /// Adds buffer/*: what is open, complete, and was dropped since the last step.
  void AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const;
  void Explain(const JobParts& job, WaitList& waits) const;

 private:
  void BeginGroup(JobParts& job);
  bool Judge(uint64_t draw, JobParts& job);
  bool GiveUp(uint64_t draw, bool lost, uint32_t least, JobParts& job);
  uint64_t ChooseDraw(JobParts& job);
  void DropGroup(uint64_t draw, const std::string& reason, JobParts& job);
  void DropStaleGroup(uint64_t draw, JobParts& job);

  /// What may begin now: the job's bound, with `staleness` in place of schedule.max_staleness.
  bool MayBeginWithin(uint64_t staleness, const JobParts& job);

  DrawLedger draws_;
  CompleteGroups complete_;
  AdmissionPace pace_;
  PromptLengths lengths_;
  LateGroups late_;
  uint64_t judged_version_ = 0;  // DropStale has looked since this version was made
  uint64_t without_batch_ = 0;   // groups in a row that were given up for good
  // Since the last step.
  uint64_t stale_groups_ = 0, stale_tokens_ = 0, untaught_groups_ = 0;
  absl::Time bounded_since_ = absl::InfinitePast();  // rollouts have room, and the bound has none
  bool paced_ = false;                               // it is the pace that holds them back
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_GROUPS_H_
