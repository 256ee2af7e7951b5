// What a JobCore is made of, and its row. Plain data.
#ifndef BATON_CONTROLLER_CORE_JOB_PARTS_H_
#define BATON_CONTROLLER_CORE_JOB_PARTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/events.h"
#include "controller/core/peer_pace.h"
#include "controller/core/rollout_manager.h"
#include "controller/core/roster.h"
#include "controller/core/task.h"

namespace baton::controller {

/// The first row of a new job `as` (name, uid, create_time) that goes on where the job of the row
/// `saved` stood when it saved `checkpoint`.
store::v1::JobRow GoOnFrom(const store::v1::JobRow& saved, const v1::Job& as,
                           const v1::Checkpoint& checkpoint, int64_t submit_order);

/// Moves out of `job` what never changes and may be large: spec, effective_spec and dataflow.
std::shared_ptr<const v1::Job> TakeSubmitted(v1::Job* job);

/// What a job is doing.
enum class JobPhase { kNone, kSetUp, kPublish, kGenerate, kBatch, kUpdate, kEvaluate, kSave };

/// A command that the ranks of a group execute in order.
struct Command {
  TaskKind kind = TaskKind::kUpdate;
  uint64_t generation = 0;
  uint64_t sequence = 0;
  uint64_t attempt = 0;
  absl::Time issued;
  absl::Time since;                      // when it was sent last
  std::set<uint32_t> sent;               // ranks that have it, as far as is known
  std::map<uint32_t, TaskDone> answers;  // by rank; acknowledged when all ranks have answered
};

/// Ranks that missed one of theirs: why, and since when.
struct Broken {
  std::string reason;
  absl::Time since;
};

/// The ranks that share a role's model. Those that train come first; a role that only scores has a
/// group when several ranks hold one copy of its model.
struct Group {
  std::string role;
  bool trains = true;
  uint32_t ranks = 1;
  uint32_t tp = 1;  // ranks of one copy, which score together: the first of them answers
  uint64_t generation = 1;
  uint64_t sequence = 0;
  uint64_t next_attempt = 0;       // of a command that is issued again under its number
  uint64_t version = 0;            // of its weights; the actor's is policy_version_
  std::optional<Command> command;  // that has no result yet
  std::optional<Broken> broken;    // it is formed anew soon
  absl::Time forming_since = absl::InfinitePast();  // infinite past: all hold the role
  uint32_t failures = 0;                            // times it broke …
  int64_t broke_at = 0;                             // … without getting past this step
};

/// The workers that score for a role.
struct Scorer {
  explicit Scorer(const PaceOptions& pace) : pace(pace) {}
  RolloutManager manager;
  PeerPace pace;  // seconds per response
};

/// What a worker that came back runs, until it is known whether that is wanted.
struct Adoptable {
  std::string worker;
  TaskRef ref;
  uint64_t version = 0;  // of the policy that it held then, in role rollout
};

/// What a step has drawn.
struct StepDraws {
  uint32_t rounds = 0;   ///< Batches of prompts.
  uint32_t redraws = 0;  ///< Times that groups were replaced which had too few rewards …
  size_t replaced = 0;   ///< … and how many groups in all.
};

/// A command that found no room, on a disk or in shared memory, is issued again later.
struct NoRoom {
  TaskKind kind = TaskKind::kPublish;
  std::string message;
  absl::Time since;
  absl::Time retry;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_PARTS_H_
