// What a task is for, and its token.
//
// A token is the proof that a result belongs to an attempt: it names the job, the step, the
// trainer's incarnation and the attempt, whose upper bits are the controller's epoch. A result
// whose token does not match what its subject waits for changes nothing (DESIGN: invariant 8).
#ifndef BATON_CONTROLLER_CORE_TASK_H_
#define BATON_CONTROLLER_CORE_TASK_H_

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
};

/// The method's name on the wire, e.g. "assign_role". kScore is named by its node.
absl::string_view MethodName(TaskKind kind);

/// True for commands that the ranks of a pool execute in order.
bool IsGroupCommand(TaskKind kind);

/// One attempt at one thing.
struct TaskRef {
  TaskKind kind = TaskKind::kGenerate;
  uint64_t subject = 0;      ///< Trajectory, slot or command sequence.
  uint32_t part = 0;         ///< Score node.
  uint32_t attempt = 0;      ///< Epoch << 8 | try.
  int64_t step = 0;          ///< The step it works for.
  uint64_t incarnation = 0;  ///< The trainer's incarnation.

  friend bool operator==(const TaskRef& a, const TaskRef& b) { return a.Tie() == b.Tie(); }
  friend bool operator<(const TaskRef& a, const TaskRef& b) { return a.Tie() < b.Tie(); }
  std::tuple<uint8_t, uint64_t, uint32_t, uint32_t, int64_t, uint64_t> Tie() const {
    return {static_cast<uint8_t>(kind), subject, part, attempt, step, incarnation};
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

#endif  // BATON_CONTROLLER_CORE_TASK_H_
