#include "workers/trainer/checkpoint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "sdk/common/base/file_error.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/scalar/scalar_directory.h"

namespace baton::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;

std::string In(const std::string& folder, const std::string& part) {
  return absl::StrCat(folder, "/", part);
}

/// Removes what an earlier attempt left there.
absl::Status RemoveFolder(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  return error ? FileError("replace", folder, error.value()) : absl::OkStatus();
}

absl::Status WriteState(const TrainerState& state, const std::string& path) {
  const nlohmann::json json = {
      {"format", kFormat}, {"step", state.step}, {"policy_version", state.policy_version}};
  return relay::WriteFileAtomically(path, json.dump() + "\n");
}

/// DATA_LOSS for anything but what WriteState writes, of `expected_step`.
absl::StatusOr<TrainerState> ReadState(const std::string& path, int64_t expected_step) {
  BATON_ASSIGN_OR_RETURN(const std::string text, relay::ReadFile(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat ||
      !json.contains("step") || !json["step"].is_number_integer() ||
      !json.contains("policy_version") || !json["policy_version"].is_number_unsigned()) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected an object of format ", kFormat, " with step and version"));
  }
  const TrainerState state = {json["step"].get<int64_t>(), json["policy_version"].get<uint64_t>()};
  if (state.step != expected_step) {
    return absl::DataLossError(
        absl::StrCat(path, ": it is of step ", state.step, ", not ", expected_step));
  }
  return state;
}

}  // namespace

CheckpointParts ActorParts() { return {"actor", "optimizer.safetensors", "trainer.json"}; }

CheckpointParts CriticParts(const std::string& role) {
  return {role, role + "_optimizer.safetensors", role + ".json"};
}

Learner LearnerOf(const engine::CausalLM& model, engine::Trainer& trainer) {
  return {[&model] { return engine::WholeParameters(model); },
          [&model](const engine::NamedTensors& whole, const std::string& folder,
                   const engine::SaveOptions& options) {
            return engine::SaveWhole(model, whole, folder, options);
          },
          [&trainer](const std::string& path) { return trainer.SaveOptimizer(path); },
          [&trainer](const std::string& path) { return trainer.LoadOptimizer(path); }};
}

Learner LearnerOf(const engine::ScalarModel& model, engine::ScalarTrainer& trainer) {
  return {[&model] { return model.WholeParameters(); },
          [&model](const engine::NamedTensors& whole, const std::string& folder,
                   const engine::SaveOptions& options) {
            return engine::SaveWholeScalar(model, whole, folder, options);
          },
          [&trainer](const std::string& path) { return trainer.SaveOptimizer(path); },
          [&trainer](const std::string& path) { return trainer.LoadOptimizer(path); }};
}

absl::Status SaveLearner(const Learner& learner, const engine::Companions& companions,
                         const TrainerState& state, const CheckpointParts& parts,
                         const ranks::Ranks& ranks, const std::string& folder) {
  engine::NamedTensors whole;
  if (ranks.writes_model()) {
    BATON_ASSIGN_OR_RETURN(whole, learner.whole());
  }
  absl::Status status =
      learner.save_optimizer(In(folder, parts.optimizer));  // gathers, then writes
  if (!ranks.first()) return status;
  status.Update(RemoveFolder(In(folder, parts.model)));
  engine::SaveOptions options;
  options.keeps_model_dtype = true;
  options.companions = companions;
  if (status.ok()) status = learner.save_model(whole, In(folder, parts.model), options);
  if (status.ok()) status = WriteState(state, In(folder, parts.state));
  return status;
}

absl::StatusOr<TrainerState> RestoreLearner(const std::string& folder, const CheckpointParts& parts,
                                            int64_t expected_step, const Learner& learner) {
  BATON_ASSIGN_OR_RETURN(const TrainerState state,
                         ReadState(In(folder, parts.state), expected_step));
  std::error_code code;
  if (!fs::exists(In(folder, parts.optimizer), code)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " has no ", parts.optimizer,
                     ": it has weights only, and training cannot go on from it"));
  }
  BATON_RETURN_IF_ERROR(learner.load_optimizer(In(folder, parts.optimizer)));
  return state;
}

/// Makes the content of a folder survive a power cut.
absl::Status SyncFiles(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && fsync(fd) == 0;
    const std::error_code code(errno, std::generic_category());
    if (fd >= 0) close(fd);
    if (!synced) return FileError("sync", entry.path().string(), code.value());
  }
  return relay::SyncDirectory(folder);
}

absl::Status ExportCheckpoint(const std::string& checkpoint, const std::string& given,
                              const std::string& asked_dtype) {
  std::error_code error;
  std::string directory = given;
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  const std::string actor = In(checkpoint, ActorParts().model);
  if (!fs::is_directory(actor, error)) {
    return absl::NotFoundError(
        absl::StrCat("no checkpoint at ", checkpoint, ": it has no folder `actor`"));
  }
  if (fs::exists(directory, error) && !fs::is_empty(directory, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(directory, " holds something already; name a new or an empty folder"));
  }
  const fs::path target(directory);
  const fs::path real = fs::weakly_canonical(target, error);
  const std::string inside = real.lexically_relative(fs::weakly_canonical(checkpoint, error));
  if (inside == "." || (!inside.empty() && inside.rfind("..", 0) != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " is in the checkpoint itself; name a folder elsewhere"));
  }
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, engine::LoadModelConfig(actor));
  const std::string dtype = asked_dtype.empty() ? "float32" : asked_dtype;
  if (dtype != config.torch_dtype || !config.model_dtype.empty()) {
    return engine::ConvertModel(actor, dtype, directory);
  }
  std::string temporary = absl::StrCat(target.string(), ".partial-XXXXXX");
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  if (mkdtemp(temporary.data()) == nullptr) {  // a name that is not taken
    return FileError("create", temporary, errno);
  }
  fs::permissions(temporary, fs::status(actor, error).permissions(), error);
  fs::copy(actor, temporary, fs::copy_options::recursive, error);
  if (error) {
    const absl::Status failed = FileError("copy to", temporary, error.value());
    fs::remove_all(temporary, error);
    return failed;
  }
  if (const absl::Status synced = SyncFiles(temporary); !synced.ok()) {
    fs::remove_all(temporary, error);
    return synced;
  }
  fs::remove(target, error);  // An empty folder.
  fs::rename(temporary, target, error);
  if (error) {
    const absl::Status failed = FileError("rename to", directory, error.value());
    fs::remove_all(temporary, error);
    return failed;
  }
  return relay::SyncDirectory(target.has_parent_path() ? target.parent_path().string() : ".");
}

}  // namespace baton::trainer
