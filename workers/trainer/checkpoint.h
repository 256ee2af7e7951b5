// The trainer's part of a checkpoint, and exports of one.
//
//   actor/                  a Hugging Face directory with the tokenizer
//   optimizer.safetensors   moments and optimizer step
//   trainer.json            {"format": 1, "step": …, "policy_version": …}
#ifndef BATON_WORKERS_TRAINER_CHECKPOINT_H_
#define BATON_WORKERS_TRAINER_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/model.h"
#include "workers/engine/trainer.h"
#include "workers/policy/policy_source.h"
#include "workers/trainer/ranks.h"

namespace baton::trainer {

struct TrainerState {
  int64_t step = 0;
  uint64_t policy_version = 0;
};

/// Fills `folder`, which exists; what an earlier attempt left there is replaced. All ranks call
/// this, and the first writes. What they do together comes before its first long write, so no rank
/// waits for a slow disk or for one that is full.
[[nodiscard]] absl::Status SaveTrainer(const engine::CausalLM& model,
                                       const engine::Trainer& trainer,
                                       const policy::PolicySource& source,
                                       const TrainerState& state, const Ranks& ranks,
                                       const std::string& folder);

/// Reads the optimizer back into `trainer`. DATA_LOSS when the folder holds another step than
/// `expected_step`.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreTrainer(const std::string& folder,
                                                          int64_t expected_step,
                                                          engine::Trainer& trainer);

// What these are made of, for other models that learn.

/// Removes what an earlier attempt left at `folder`.
[[nodiscard]] absl::Status RemoveFolder(const std::string& folder);
/// trainer.json and the like.
[[nodiscard]] absl::Status WriteState(const TrainerState& state, const std::string& path);
/// DATA_LOSS for anything but what WriteState writes, of `expected_step`.
[[nodiscard]] absl::StatusOr<TrainerState> ReadState(const std::string& path,
                                                     int64_t expected_step);

/// Copies the checkpoint's `actor` to `directory`, at once (a temporary folder is renamed), its
/// weights in `dtype` ("float32", "bfloat16", …); empty: that of the model the job began with.
/// NOT_FOUND without a checkpoint, ALREADY_EXISTS when `directory` holds anything.
[[nodiscard]] absl::Status ExportCheckpoint(const std::string& checkpoint,
                                            const std::string& directory,
                                            const std::string& dtype = "");

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_CHECKPOINT_H_
