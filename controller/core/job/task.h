// The purpose of a task, and its token.
//
// A token is the proof that a result belongs to an attempt: it names the job, the attempt, whose
// upper bits are the controller's epoch, and what the attempt is for. A trajectory's task names the
// trajectory uid, so it may outlive the step that began it; all other tasks name the step and the
// trainer's incarnation. A result whose token does not match what its subject waits for changes
// nothing.
#ifndef BATON_CONTROLLER_CORE_JOB_TASK_H_
#define BATON_CONTROLLER_CORE_JOB_TASK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "absl/strings/string_view.h"

namespace baton::controller {

enum class TaskKind : uint8_t {
  kAssignRole = 1,
  kReleaseRole = 2,
  kLoadWeights = 3,
  kGenerate = 4,
  kScore = 5,
  kUpdate = 6,
  kPublish = 7,
  kSaveCheckpoint = 8,
  kExport = 9,
  kToGeneration = 10,
  kRunAhead = 11,
};

/// The method's name on the wire, e.g. "assign_role". kScore is named by its node.
absl::string_view MethodName(TaskKind kind);

/// True for commands that the ranks of a pool execute in order.
bool IsGroupCommand(TaskKind kind);
/// True for tasks on one trajectory: generate and score.
constexpr bool IsTrajectoryTask(TaskKind kind) {
  return kind == TaskKind::kGenerate || kind == TaskKind::kScore;
}

/// An attempt is a try within a controller's epoch: the epoch in the upper bits, the try below.
/// Tries of one epoch never reach the attempts of the next, so a token from before a restart never
/// matches a later attempt.
inline constexpr int kTryBits = 32;
constexpr uint64_t FirstAttempt(uint64_t epoch) { return epoch << kTryBits; }
constexpr uint32_t TryOf(uint64_t attempt) { return static_cast<uint32_t>(attempt); }
/// The attempt after `attempt` in the epoch that begins with `first`. After an attempt of another
/// epoch comes `first`; so it does after the last of the epoch's 2^32 tries.
constexpr uint64_t NextAttempt(uint64_t attempt, uint64_t first) {
  return (attempt + 1) >> kTryBits == first >> kTryBits ? attempt + 1 : first;
}

/// One attempt at one task.
struct TaskRef {
  TaskKind kind = TaskKind::kGenerate;
  uint64_t subject = 0;      ///< Trajectory, slot, command sequence, or count of run-ahead tasks.
  uint32_t target = 0;       ///< Index of the score node, or of the rank group.
  uint64_t attempt = 0;      ///< See FirstAttempt.
  int64_t step = 0;          ///< The step it works for; 0 for a trajectory's task.
  uint64_t incarnation = 0;  ///< The trainer's incarnation; 0 for a trajectory's task.
  uint64_t trajectory_uid = 0;  ///< Trajectory uid (trajectory_uids.h); 0 for other tasks.
  // Facts about a generation that a restarted controller could not know; 0 for other tasks.
  uint64_t version = 0;  ///< The policy version that makes the response.
  uint64_t prompt = 0;   ///< The trajectory's prompt_id.

  friend bool operator==(const TaskRef& a, const TaskRef& b) { return a.Tie() == b.Tie(); }
  friend bool operator<(const TaskRef& a, const TaskRef& b) { return a.Tie() < b.Tie(); }
  std::tuple<uint8_t, uint64_t, uint32_t, uint64_t, int64_t, uint64_t, uint64_t, uint64_t, uint64_t>
  Tie() const {
    return {static_cast<uint8_t>(kind),
            subject,
            target,
            attempt,
            step,
            incarnation,
            trajectory_uid,
            version,
            prompt};
  }
};

struct TaskToken {
  std::string job;  ///< Resource name.
  TaskRef ref;
};

std::string EncodeToken(const TaskToken& token);
/// Nothing for bytes that no controller made.
std::optional<TaskToken> DecodeToken(absl::string_view bytes);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_TASK_H_
