#include "workers/trainer/scalar_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/scalar_directory.h"

namespace baton::trainer {
namespace {

std::string In(const std::string& folder, const std::string& part) {
  return absl::StrCat(folder, "/", part);
}

}  // namespace

ScalarParts CriticParts(const std::string& role) {
  return {role, role + "_optimizer.safetensors", role + ".json"};
}

ScalarParts RewardModelParts() { return {"actor", "optimizer.safetensors", "trainer.json"}; }

absl::StatusOr<std::unique_ptr<engine::ScalarModel>> LoadScalar(const policy::PolicySource& source,
                                                                torch::Device device, uint64_t seed,
                                                                bool needs_head,
                                                                const Ranks& ranks) {
  if (!source.directory().empty()) {
    return engine::LoadScalarModel(
        source.directory(), torch::kFloat32, device,
        needs_head ? engine::HeadWanted::kRequired : engine::HeadWanted::kZeroIfMissing,
        ranks.tensor_group());
  }
  BATON_ASSIGN_OR_RETURN(const auto decoder,
                         source.LoadModel(torch::kFloat32, device, seed, ranks.tensor_group()));
  return engine::ScalarModel::FromCausalLM(*decoder, torch::kFloat32, device);
}

absl::Status SaveScalar(const engine::ScalarModel& model, const engine::ScalarTrainer& trainer,
                        const engine::Companions& companions, const TrainerState& state,
                        const ScalarParts& parts, const Ranks& ranks, const std::string& folder) {
  engine::NamedTensors whole;
  if (ranks.writes_model()) {
    BATON_ASSIGN_OR_RETURN(whole, model.WholeParameters());
  }
  absl::Status status = trainer.SaveOptimizer(In(folder, parts.optimizer));  // gathers, then writes
  if (!ranks.first()) return status;
  status.Update(RemoveFolder(In(folder, parts.model)));
  engine::SaveOptions options;
  options.keeps_model_dtype = true;
  options.companions = companions;
  if (status.ok()) {
    status = engine::SaveWholeScalar(model, whole, In(folder, parts.model), options);
  }
  if (status.ok()) status = WriteState(state, In(folder, parts.state));
  return status;
}

absl::StatusOr<TrainerState> RestoreScalar(const std::string& folder, const ScalarParts& parts,
                                           int64_t expected_step, engine::ScalarTrainer& trainer) {
  BATON_ASSIGN_OR_RETURN(const TrainerState state,
                         ReadState(In(folder, parts.state), expected_step));
  BATON_RETURN_IF_ERROR(trainer.LoadOptimizer(In(folder, parts.optimizer)));
  return state;
}

}  // namespace baton::trainer
