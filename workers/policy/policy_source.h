// The start of a job's policy, read alike by trainer and rollouts: a checkpoint, a Hugging Face
// directory, or nothing but a spec (random weights and a character tokenizer).
#ifndef BATON_WORKERS_POLICY_POLICY_SOURCE_H_
#define BATON_WORKERS_POLICY_POLICY_SOURCE_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/model.h"
#include "workers/engine/scalar/scalar_model.h"
#include "workers/tokenizer/chat/chat_template.h"
#include "workers/tokenizer/jinja/rendered_text.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::policy {

/// A prompt as the model sees it.
struct Prompt {
  Prompt() = default;
  /// A plain text.
  Prompt(tokenizer::RenderedText text) : text(std::move(text)) {}  // NOLINT(runtime/explicit)

  tokenizer::RenderedText text;
  /// The messages that a chat template rendered; empty if no template did.
  tokenizer::Chat chat;

  bool templated() const { return !chat.messages.empty(); }
};

/// A prompt and the response to it that a model learns, as tokens.
struct Demonstration {
  std::vector<int32_t> prompt;
  std::vector<int32_t> response;
  /// The chat template writes the whole otherwise than the prompt ends: `prompt` is what both begin
  /// with, and `response` the rest of the whole.
  bool cut_back = false;
  /// Of each token of `response`, 1 where it is learned, else 0; empty: all are.
  std::vector<uint8_t> mask = {};
  /// The response was longer than it may be, and lost its end.
  bool cut = false;
  /// Of several turns: the whole text, encoded at once as transformers' apply_chat_template encodes
  /// it, has other tokens; one would cross the border of what is learned.
  bool joined_turns = false;
};

/// Immutable after Open; any thread. Everything in it is a function of the spec and of the files
/// it names, so every worker of a job holds the same.
class PolicySource {
 public:
  /// `checkpoint`: a checkpoint's folder (its `actor` is read), or empty: spec.model. Errors name
  /// the key of the spec or the file.
  static absl::StatusOr<std::unique_ptr<PolicySource>> Open(const v1::ModelSpec& spec,
                                                            const std::string& checkpoint);

  const ModelConfig& config() const { return config_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// The type of spec.model.dtype; versions travel and are sampled in it.
  torch::Dtype dtype() const { return dtype_; }
  /// The Hugging Face directory; empty with spec.model.init. It may be gone by now: a checkpoint
  /// gives way to newer ones.
  const std::string& directory() const { return directory_; }
  /// The tokenizer's files, as they were when this was opened: what a saved model takes along.
  const engine::Companions& companions() const { return companions_; }

  /// What a user should know of how the model's files were read, one sentence each
  /// (engine::ConfigWarnings).
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// The weights: the directory's, or random ones drawn from `seed`.
  /// With a tensor group, this rank's slices of them.
  absl::StatusOr<std::unique_ptr<engine::CausalLM>> LoadModel(
      torch::Dtype dtype, torch::Device device, uint64_t seed,
      engine::Communicator* tensor_group = nullptr) const;
  /// The model under a scalar head, in float32: a critic or a reward model. Without a head (which
  /// is an error if `needs_head`) and with spec.model.init the head is zeros, over the weights that
  /// LoadModel gives.
  absl::StatusOr<std::unique_ptr<engine::ScalarModel>> LoadScalarModel(
      torch::Device device, uint64_t seed, bool needs_head,
      engine::Communicator* tensor_group = nullptr) const;

  /// A prompt as the model sees it: `chat` through the chat template; without messages `text`: as
  /// it is under `auto` and `none`, else as one user message. `text` and what messages say are
  /// content. INVALID_ARGUMENT for messages where there is no template.
  absl::StatusOr<Prompt> RenderPrompt(tokenizer::Chat chat, absl::string_view text) const;
  /// A question to the model, of a text that is a template's own in parts: one user message where
  /// there is a chat template, else as it is.
  absl::StatusOr<Prompt> RenderQuestion(const tokenizer::RenderedText& text) const;
  /// Token ids of a rendered prompt: content makes no special token, no mark of the chat template
  /// and nothing that ends a response; what the vocabulary does not cover is still its unk, and a
  /// special token of one symbol still that symbol's. INVALID_ARGUMENT when it has no tokens, more
  /// than `max_tokens` (0: no limit), or one that the model has no embedding of.
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const Prompt& prompt, int64_t max_tokens) const;
  /// `prompt` as EncodePrompt, and a response to it, a turn of the assistant, as the template
  /// writes it: its text, which is content, then, where it `ends`, what ends a response; cut to
  /// `max_response` (0: no limit). INVALID_ARGUMENT: the response has more than a text, and no
  /// template renders the prompt, or the template's errors (ChatTemplate::RenderReply).
  ///
  /// As in TRL (common_prefix_length, 1.16), the prompt is cut back to the tokens that the whole
  /// begins with where the template does not repeat in the whole what begins a reply: thinking
  /// models begin one with "<think>" and leave thoughts out of what was said.
  absl::StatusOr<Demonstration> EncodeDemonstration(const Prompt& prompt,
                                                    const tokenizer::ChatMessage& reply,
                                                    int64_t max_prompt, int64_t max_response,
                                                    bool ends = true) const;
  /// The same of a response that is a text.
  absl::StatusOr<Demonstration> EncodeDemonstration(const Prompt& prompt, absl::string_view text,
                                                    int64_t max_prompt, int64_t max_response,
                                                    bool ends = true) const;
  /// A conversation of which each turn of the assistant after `prompt` is learned, but those of
  /// `turns` where `learned` is false: as the template writes the whole, `prompt` up to the first
  /// token that is learned. Borders between what is learned and what is not are borders of tokens,
  /// as where rollouts begin and end a response; TRL 1.16 encodes the whole (`joined_turns`).
  /// Limits as above. Errors also as of tokenizer::FindLearnedTurns.
  absl::StatusOr<Demonstration> EncodeTurns(const Prompt& prompt,
                                            const std::vector<tokenizer::ChatMessage>& turns,
                                            const std::vector<bool>& learned, int64_t max_prompt,
                                            int64_t max_response) const;
  /// What the chat template begins the response to `prompt` with (ChatTemplate::PromptSuffix).
  std::string PromptSuffix(const Prompt& prompt) const;
  /// Whether the chat template has a place for a variable or a message's key of this name.
  bool TemplateReads(absl::string_view name) const;
  /// Ids that end a response.
  const std::vector<int64_t>& stop_token_ids() const { return stop_token_ids_; }

 private:
  PolicySource() = default;
  /// Token ids of what a template made of a reply to `prompt`, or of the whole.
  absl::StatusOr<std::vector<int32_t>> EncodeReply(const Prompt& prompt,
                                                   const tokenizer::TemplateReply& reply,
                                                   bool ends) const;
  /// INVALID_ARGUMENT names the first token that the model has no embedding of.
  absl::StatusOr<std::vector<int32_t>> EncodeText(const tokenizer::RenderedText& text,
                                                  const tokenizer::EncodeOptions& options) const;
  /// A response that ends, as tokens: with what ends one, if the template writes no such token.
  absl::StatusOr<std::vector<int32_t>> EncodeEnded(tokenizer::RenderedText response,
                                                   const tokenizer::EncodeOptions& options,
                                                   bool templated) const;
  /// Whether `begun`, and the tokens of its last turn, are other tokens than those of `whole`, the
  /// text of them all.
  absl::StatusOr<bool> Joins(const Demonstration& begun, const std::vector<int32_t>& last,
                             const tokenizer::RenderedText& whole) const;
  absl::Status FindTemplate(const v1::ModelSpec& spec);
  absl::Status OpenDirectory(const std::string& directory);
  absl::Status OpenInit(const v1::ModelInitSpec& init);
  absl::Status FindStopTokens();

  /// Or why there is none, which messages are refused with.
  absl::StatusOr<tokenizer::ChatTemplate> chat_template_;
  bool wraps_text_ = false;  ///< A plain text is one user message.
  torch::Dtype dtype_ = torch::kFloat32;
  std::string directory_;
  ModelConfig config_;
  std::vector<std::string> warnings_;
  engine::Companions companions_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::vector<int64_t> stop_token_ids_;
  /// The id that ends a response if the tokenizer does not find the template's mark; nullopt: there
  /// is no such id.
  std::optional<int32_t> end_id_;
  size_t end_text_bytes_ = 0;  ///< Length of the part at the mark's end that `end_id_` stands for.
  std::vector<int32_t> control_ids_;  ///< Beside the tokenizer's special tokens.
};

/// The Hugging Face directory that a model's path means: itself, or its `actor`, when that is the
/// one with a config.json.
std::string ModelDirectory(const std::string& path);

/// The configuration that spec.model.init describes, defaults filled in.
absl::StatusOr<ModelConfig> MakeInitConfig(const v1::ModelInitSpec& init,
                                           const tokenizer::Tokenizer& tokenizer);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_POLICY_SOURCE_H_
