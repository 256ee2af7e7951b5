// The set-up of a role that holds a model: its options, its place among its ranks, and the tokens
// that its model must read.
#ifndef BATON_WORKERS_RANKS_ROLE_SETUP_H_
#define BATON_WORKERS_RANKS_ROLE_SETUP_H_

#include <torch/torch.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/task_context.h"
#include "workers/policy/policy_source.h"
#include "workers/ranks/ranks.h"
#include "workers/ranks/score_loop.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::ranks {

struct ModelRoleOptions {
  std::string device = "cpu";  ///< As torch names it.
  std::string group_host;      ///< Ranks::Join.
  int credits = 256;           ///< Tasks at once: what can be gathered into one micro-batch.
};

/// Weights are float32 while they score, whatever they are stored as: the same as the trainer's.
inline constexpr torch::Dtype kScoreDtype = torch::kFloat32;

/// True when both give every id the same meaning, so that one may read the other's tokens.
bool SameTokens(const tokenizer::Tokenizer& a, const tokenizer::Tokenizer& b);

/// First of all in an assignment: this rank's place, and its loop, which hears the others from here
/// on and is to be started. Errors as Ranks::Join.
[[nodiscard]] absl::Status Meet(const v1::Task& task, const TaskContext& context,
                                const ModelRoleOptions& options, std::unique_ptr<Ranks>* ranks,
                                std::unique_ptr<ScoreLoop>* loop);

/// INVALID_ARGUMENT naming `key` when `model` does not read the tokens of the job's policy.
[[nodiscard]] absl::Status CheckReadsPolicyTokens(const v1::AssignRole& assign,
                                                  const policy::PolicySource& model,
                                                  absl::string_view key);

}  // namespace baton::ranks

#endif  // BATON_WORKERS_RANKS_ROLE_SETUP_H_
