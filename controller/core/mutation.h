// Deliberate bugs, by name, to prove that the simulator catches them.
//
// In a normal build `Mutated` is constantly false and the compiler removes the branch. With
// BATON_MUTATIONS (tests/simulation builds the core a second time with it) one mutation can be
// chosen at run time.
#ifndef BATON_CONTROLLER_CORE_MUTATION_H_
#define BATON_CONTROLLER_CORE_MUTATION_H_

namespace baton::controller {

enum class Mutation {
  kNone,
  // In the core.
  kSkippedSequence,          ///< A group command's number is skipped.
  kStaleEpochAccepted,       ///< A worker that has seen a newer controller is welcomed.
  kStaleTokenAccepted,       ///< A result of an earlier attempt counts.
  kEvaluationInBatch,        ///< An EVAL trajectory stands in a training batch.
  kGroupInPart,              ///< A batch lacks one trajectory of a group.
  kReadyLostAtRestart,       ///< A restarted controller forgets one generated trajectory.
  kStaleRestored,            ///< READY rows outlive a recovery of the trainer.
  kStaleConsumed,            ///< … and what consumes them does not look at their version.
  kLeaseRenewedAfterEnd,     ///< A heartbeat renews a lease that has ended.
  kCompleteBeforeRename,     ///< A checkpoint counts before its folder has its name.
  kEpochNotInAttempts,       ///< Attempts after a restart reuse the numbers before it.
  kEvaluationMiscounts,      ///< The accuracy of an evaluation leaves one trajectory out.
  kCommandDeadlineNotReset,  ///< A command's deadline goes on while its worker was away.
  kTurnWhileWorking,         ///< A role of a pool begins while another one still works.
  kCommandWhileWorking,      ///< A command goes out while its pool works.
  kCommandsAtOnce,           ///< Two groups of one pool execute their commands at once.
  kEveryRankScores,          ///< Ranks that hold a model together are asked one by one.
  kPoolNotAwaited,           ///< After a restart a pool works before all its workers are back.
  kNoRewardInBatch,          ///< A response without a reward stands in a batch.
  // In what surrounds the core.
  kDoubleUpdate,          ///< A rank executes a repeated update again.
  kAckBeforeCommit,       ///< Effects leave before their rows are committed.
  kLeasedVersionDeleted,  ///< A relay that needs room deletes a version that somebody loads.
  kUnsyncedEpoch,         ///< A power cut may take the controller's epoch …
  kUnsyncedTurn,          ///< … the row of a job, with what was shown …
  kUnsyncedCheckpoint,    ///< … or that row where it names a new checkpoint.
};

#ifdef BATON_MUTATIONS
/// Set once, before any core exists.
inline Mutation active_mutation = Mutation::kNone;
inline bool Mutated(Mutation mutation) { return active_mutation == mutation; }
#else
constexpr bool Mutated(Mutation) { return false; }
#endif

/// Either of the two of stale rows.
inline bool MutatedStale() {
  return Mutated(Mutation::kStaleRestored) || Mutated(Mutation::kStaleConsumed);
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_MUTATION_H_
