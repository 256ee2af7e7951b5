// The evaluation of an async job, beside its steps.
//
// Owns what it is and how far it is (PinnedEvaluation). One runs at a time; its responses are of
// one version, which one rollout keeps, or loads again, until they are made.
#ifndef BATON_CONTROLLER_CORE_LOOP_ASYNC_EVALUATION_H_
#define BATON_CONTROLLER_CORE_LOOP_ASYNC_EVALUATION_H_

#include <string>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/loop/pinned_evaluation.h"
#include "controller/spec/wait_list.h"

namespace baton::controller {

struct JobParts;

class AsyncEvaluation {
 public:
  void Restore(const store::v1::JobRow& row) { pinned_.Restore(row); }
  void Save(store::v1::JobRow* row) const { pinned_.Save(row); }

  const PinnedEvaluation& pinned() const { return pinned_; }

  /// It begins, with the newest weights that rollouts can get.
  void Begin(JobParts& job);
  /// After a restart: makes the trajectories of all its prompts, as far as they are stored.
  void Stand(JobParts& job);
  /// The data are read: gives it up if they have another number of prompts than it had.
  void CheckPrompts(JobParts& job);
  /// Draws prompts until one of them waits for a rollout of its version.
  void DrawMore(JobParts& job);
  /// A response of it is READY. True: it was the last one, and the evaluation is done.
  bool NoteReady(JobParts& job);
  /// Gives it up: it is due again, if its step is still the newest one.
  void Drop(const std::string& reason, JobParts& job);
  /// The job goes back to its newest checkpoint: an evaluation of a step that is undone is given
  /// up.
  void RollBack(const std::string& reason, JobParts& job);
  void Clear() { pinned_.End(); }

  void Explain(const JobParts& job, WaitList& waits) const;

 private:
  void DrawOne(JobParts& job);
  void FinishIfDone(JobParts& job);

  PinnedEvaluation pinned_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASYNC_EVALUATION_H_
