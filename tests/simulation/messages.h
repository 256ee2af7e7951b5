// What processes say to each other: the protocol of docs/worker-protocol.md without bytes.
#ifndef BATON_TESTS_SIMULATION_MESSAGES_H_
#define BATON_TESTS_SIMULATION_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/core/task.h"
#include "tests/simulation/model.h"

namespace baton::simulation {

struct Result {
  absl::Status status;
  Payload payload;    ///< Of a generation.
  double reward = 0;  ///< Of a score.
  std::string error;  ///< There is none, for a reason of the infrastructure.
};
/// The only such reason.
inline constexpr char kNoReward[] = "no reward can be computed";

/// The reason of the wire's ErrorInfo, which statuses have none of here.
inline constexpr char kRoleNotHeld[] = "ROLE_NOT_HELD";
inline bool IsRoleNotHeld(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && status.message() == kRoleNotHeld;
}

struct WorkerMessage {
  enum class Kind { kHello, kHeartbeat, kProgress, kResult } kind = Kind::kHello;
  v1::Hello hello;
  uint64_t sequence = 0;  ///< Of a heartbeat.
  std::string token;      ///< Of progress and results.
  uint32_t offset = 0;    ///< Progress: tokens [offset, offset + count) of `content`.
  uint32_t count = 0;
  uint64_t content = 0;
  Result result;
};

struct TaskMessage {
  std::string token;
  uint64_t epoch = 0;
  std::string job;
  std::string role;
  controller::TaskKind kind = controller::TaskKind::kGenerate;
  uint64_t generation = 0;  ///< 0: no order.
  uint32_t rank = 0;        ///< Of its group; the first one writes for all.
  uint64_t sequence = 0;
  uint64_t policy_version = 0;
  int64_t step = 0;             ///< Of update (that it makes), save and a checkpoint to start from.
  int64_t checkpoint = -1;      ///< assign_role: the step to start from; -1: spec.model.
  bool hybrid = false;          ///< assign_role: it samples with the weights that it trains.
  v1::JobSpec spec;             ///< assign_role.
  Payload trajectory;           ///< generate (id, purpose, draw), score (all).
  uint64_t prompt = 0;          ///< generate.
  uint32_t sample = 0;          ///< generate.
  uint32_t resume = 0;          ///< generate: tokens known already …
  uint64_t resume_content = 0;  ///< … and of which response they are.
  uint32_t batch_size = 0;      ///< update.
  std::string batch;            ///< update: what to fetch.
};

struct ControllerMessage {
  enum class Kind { kWelcome, kHeartbeatAck, kTask, kCancel, kAck, kClose } kind = Kind::kWelcome;
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::string token;
  std::vector<v1::RoleHeld> release;
  TaskMessage task;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_MESSAGES_H_
