// The task as a simulated worker reads it, and its answer. On their way both are messages of
// baton.v1 (wire.h).
#ifndef BATON_TESTS_SIMULATION_PARTS_MESSAGES_H_
#define BATON_TESTS_SIMULATION_PARTS_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/core/job/task.h"
#include "tests/simulation/parts/model.h"

namespace baton::simulation {

struct Result {
  absl::Status status;
  Payload payload;        ///< Response of a generation.
  bool stopped = false;   ///< The generation was stopped; `payload` has what there was of it.
  int64_t accepted = -1;  ///< Tokens of its draft that it drew as well; -1: it had none.
  double reward = 0;      ///< Value of a score.
  std::string error;      ///< Why there is no reward: a reason of the infrastructure.
  std::string file;       ///< File of a checkpoint that this rank wrote.
};
/// The only such reason.
inline constexpr char kNoReward[] = "no reward can be computed";

struct TaskMessage {
  std::string token;
  std::string job;
  std::string role;
  controller::TaskKind kind = controller::TaskKind::kGenerate;
  std::string method;        ///< The method's name on the wire.
  uint64_t group_epoch = 0;  ///< 0: no order.
  uint64_t sequence = 0;
  uint64_t policy_version = 0;
  std::vector<uint64_t> keep_versions;  ///< publish: versions that rollouts still need.
  int64_t step = 0;  ///< Step that an update makes; of save, and of a checkpoint to start from.
  // assign_role.
  uint32_t rank = 0;        ///< Rank in its group; the first one writes for all.
  int64_t checkpoint = -1;  ///< The step to start from; -1: spec.model.
  bool hybrid = false;      ///< The actor's workers sample with the weights that they train.
  v1::JobSpec spec;
  // generate and score.
  Payload trajectory;           ///< generate: id, purpose, prompt index; score: all of it.
  uint64_t prompt = 0;          ///< generate.
  uint32_t sample = 0;          ///< generate.
  std::vector<int32_t> resume;  ///< generate: the tokens that are known already.
  std::vector<int32_t> draft;   ///< generate: tokens of other weights, after those.
  // update.
  uint32_t batch_size = 0;
  std::string batch, capability;  ///< The batch to fetch.
  // save_checkpoint.
  std::string directory;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_MESSAGES_H_
