// Where a job's policy starts, read alike by trainer and rollouts: a checkpoint, a Hugging Face
// directory, or nothing but a spec (random weights and a character tokenizer).
#ifndef BATON_WORKERS_POLICY_POLICY_SOURCE_H_
#define BATON_WORKERS_POLICY_POLICY_SOURCE_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "baton/v1/job_spec.pb.h"
#include "workers/engine/hf_directory.h"
#include "workers/engine/model.h"
#include "workers/engine/model_config.h"
#include "workers/tokenizer/chat_template.h"
#include "workers/tokenizer/tokenizer.h"

namespace baton::policy {

/// Immutable after Open; any thread. Everything in it is a function of the spec and of the files
/// it names, so every worker of a job holds the same.
class PolicySource {
 public:
  /// `checkpoint`: a checkpoint's folder (its `actor` is read), or empty: spec.model. Errors name
  /// the key of the spec or the file.
  static absl::StatusOr<std::unique_ptr<PolicySource>> Open(const v1::ModelSpec& spec,
                                                            const std::string& checkpoint);

  const engine::ModelConfig& config() const { return config_; }
  const engine::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// What spec.model.dtype asks for; versions travel and are sampled in it.
  torch::Dtype dtype() const { return dtype_; }
  /// The Hugging Face directory; empty with spec.model.init. It may be gone by now: a checkpoint
  /// gives way to newer ones.
  const std::string& directory() const { return directory_; }
  /// The tokenizer's files, as they were when this was opened: what a saved model takes along.
  const engine::Companions& companions() const { return companions_; }

  /// The weights: the directory's, or random ones drawn from `seed`.
  /// With a tensor group, this rank's slices of them.
  absl::StatusOr<std::unique_ptr<engine::CausalLM>> LoadModel(
      torch::Dtype dtype, torch::Device device, uint64_t seed,
      engine::Communicator* tensor_group = nullptr) const;

  /// A prompt as the model sees it: messages through the chat template; plain text as it is under
  /// `none`, else as one user message. `text` and what messages say are content.
  absl::StatusOr<engine::RenderedText> RenderPrompt(absl::Span<const engine::ChatMessage> messages,
                                                    absl::string_view text) const;
  /// The same of a text that is a template's own in parts.
  absl::StatusOr<engine::RenderedText> RenderPrompt(const engine::RenderedText& text) const;
  /// Token ids of a rendered prompt: content makes no special token, no mark of the chat template
  /// and nothing that ends a response. INVALID_ARGUMENT when it has no tokens, or more than
  /// `max_tokens` (0: no limit).
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const engine::RenderedText& rendered,
                                                    int64_t max_tokens) const;
  /// Token ids of a demonstration's response: its text, which is content, then what ends a
  /// response; cut to `max_tokens` (0: no limit).
  absl::StatusOr<std::vector<int32_t>> EncodeResponse(absl::string_view text,
                                                      int64_t max_tokens) const;
  /// Ids that end a response.
  const std::vector<int64_t>& stop_token_ids() const { return stop_token_ids_; }

 private:
  explicit PolicySource(engine::ChatTemplate chat_template)
      : chat_template_(std::move(chat_template)) {}
  absl::Status OpenDirectory(const std::string& directory);
  absl::Status OpenInit(const v1::ModelInitSpec& init);
  absl::Status FindStopTokens();

  engine::ChatTemplate chat_template_;
  bool has_template_ = false;
  torch::Dtype dtype_ = torch::kFloat32;
  std::string directory_;
  engine::ModelConfig config_;
  engine::Companions companions_;
  std::unique_ptr<engine::Tokenizer> tokenizer_;
  std::vector<int64_t> stop_token_ids_;
  std::vector<int32_t> control_ids_;  ///< Beside the tokenizer's special tokens.
};

/// What spec.model.init describes, defaults filled in.
absl::StatusOr<engine::ModelConfig> MakeInitConfig(const v1::ModelInitSpec& init,
                                                   const engine::Tokenizer& tokenizer);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_POLICY_SOURCE_H_
