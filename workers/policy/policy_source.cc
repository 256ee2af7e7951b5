#include "workers/policy/policy_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/hf_directory.h"
#include "workers/engine/weights_io.h"
#include "workers/tokenizer/character_tokenizer.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

/// `path` itself, or its `actor`, when that is the one with a config.json.
std::string ModelDirectory(const std::string& path) {
  std::error_code error;
  const std::string actor = absl::StrCat(path, "/actor");
  if (!fs::exists(path + "/config.json", error) && fs::exists(actor + "/config.json", error)) {
    return actor;
  }
  return path;
}

}  // namespace

absl::StatusOr<engine::ModelConfig> MakeInitConfig(const v1::ModelInitSpec& init,
                                                   const engine::Tokenizer& tokenizer) {
  engine::ModelConfig config;
  config.family = engine::ModelConfig::Family::kLlama;
  config.vocab_size = tokenizer.vocab_size();
  config.hidden_size = init.has_hidden_size() ? init.hidden_size() : 128;
  config.intermediate_size = init.has_intermediate_size() ? init.intermediate_size()
                                                          : (4 * config.hidden_size + 7) / 8 * 8;
  config.num_hidden_layers = init.has_num_hidden_layers() ? init.num_hidden_layers() : 2;
  config.num_attention_heads = init.has_num_attention_heads() ? init.num_attention_heads() : 4;
  config.num_key_value_heads =
      init.has_num_key_value_heads() ? init.num_key_value_heads() : config.num_attention_heads;
  if (config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  config.max_position_embeddings =
      init.has_max_position_embeddings() ? init.max_position_embeddings() : 2048;
  config.tie_word_embeddings = init.has_tie_word_embeddings() ? init.tie_word_embeddings() : true;
  config.pad_token_id = tokenizer.pad_id();
  for (const int32_t id : tokenizer.eos_ids()) config.eos_token_ids.push_back(id);
  if (absl::Status status = config.Validate(); !status.ok()) {
    return Annotate(status, "spec.model.init");
  }
  return config;
}

absl::StatusOr<std::unique_ptr<PolicySource>> PolicySource::Open(const v1::ModelSpec& spec,
                                                                 const std::string& checkpoint) {
  auto chat_template = engine::ChatTemplate::FromName(spec.chat_template());
  if (!chat_template.ok()) return Annotate(chat_template.status(), "spec.model.chat_template");
  auto source = std::unique_ptr<PolicySource>(new PolicySource(*std::move(chat_template)));
  source->has_template_ = !spec.chat_template().empty() && spec.chat_template() != "none";
  auto dtype = engine::TorchDtypeFromName(spec.dtype().empty() ? "float32" : spec.dtype());
  if (!dtype.ok()) return Annotate(dtype.status(), "spec.model.dtype");
  source->dtype_ = *dtype;
  if (!checkpoint.empty()) {
    BATON_RETURN_IF_ERROR(source->OpenDirectory(checkpoint));
  } else if (!spec.path().empty()) {
    BATON_RETURN_IF_ERROR(Annotate(source->OpenDirectory(spec.path()), "spec.model.path"));
  } else if (spec.has_init()) {
    BATON_RETURN_IF_ERROR(Annotate(source->OpenInit(spec.init()), "spec.model.init"));
  } else {
    return absl::InvalidArgumentError("spec.model: give `path` or `init`");
  }
  BATON_RETURN_IF_ERROR(source->FindStopTokens());
  return source;
}

absl::Status PolicySource::OpenDirectory(const std::string& directory) {
  directory_ = ModelDirectory(directory);
  BATON_ASSIGN_OR_RETURN(config_, engine::LoadModelConfig(directory_));
  BATON_ASSIGN_OR_RETURN(tokenizer_, engine::Tokenizer::Load(directory_));
  BATON_ASSIGN_OR_RETURN(companions_, engine::ReadCompanions(directory_));
  return absl::OkStatus();
}

absl::Status PolicySource::OpenInit(const v1::ModelInitSpec& init) {
  BATON_ASSIGN_OR_RETURN(const auto files, engine::MakeCharacterTokenizer(init.characters()));
  engine::TokenizerSideFiles side_files;
  side_files.tokenizer_config_json = files.tokenizer_config_json;
  BATON_ASSIGN_OR_RETURN(tokenizer_, engine::Tokenizer::FromJson(files.tokenizer_json, side_files));
  companions_ = {{"tokenizer.json", files.tokenizer_json},
                 {"tokenizer_config.json", files.tokenizer_config_json}};
  BATON_ASSIGN_OR_RETURN(config_, MakeInitConfig(init, *tokenizer_));
  return absl::OkStatus();
}

absl::Status PolicySource::FindStopTokens() {
  for (const int32_t id : tokenizer_->eos_ids()) stop_token_ids_.push_back(id);
  for (const int64_t id : config_.eos_token_ids) stop_token_ids_.push_back(id);
  if (has_template_) {
    BATON_ASSIGN_OR_RETURN(control_ids_, chat_template_.MarkIds(*tokenizer_));
    BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer_->Encode(chat_template_.end_of_turn()));
    stop_token_ids_.insert(stop_token_ids_.end(), ids.begin(), ids.end());
  }
  std::sort(stop_token_ids_.begin(), stop_token_ids_.end());
  stop_token_ids_.erase(std::unique(stop_token_ids_.begin(), stop_token_ids_.end()),
                        stop_token_ids_.end());
  const auto outside = [this](int64_t id) { return id < 0 || id >= config_.vocab_size; };
  stop_token_ids_.erase(std::remove_if(stop_token_ids_.begin(), stop_token_ids_.end(), outside),
                        stop_token_ids_.end());
  control_ids_.insert(control_ids_.end(), stop_token_ids_.begin(), stop_token_ids_.end());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<engine::CausalLM>> PolicySource::LoadModel(
    torch::Dtype dtype, torch::Device device, uint64_t seed,
    engine::Communicator* tensor_group) const {
  if (!directory_.empty()) return engine::LoadModel(directory_, dtype, device, tensor_group);
  BATON_ASSIGN_OR_RETURN(auto model,
                         engine::CausalLM::Create(config_, dtype, device, tensor_group));
  model->InitializeRandom(seed);
  return model;
}

absl::StatusOr<engine::RenderedText> PolicySource::RenderPrompt(
    absl::Span<const engine::ChatMessage> messages, absl::string_view text) const {
  if (!messages.empty()) return chat_template_.Render(messages);
  return RenderPrompt(engine::RenderedText(text));
}

absl::StatusOr<engine::RenderedText> PolicySource::RenderPrompt(
    const engine::RenderedText& text) const {
  if (!has_template_) return text;
  const engine::ChatMessage user = {"user", text};
  return chat_template_.Render(absl::MakeConstSpan(&user, 1));
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodePrompt(
    const engine::RenderedText& rendered, int64_t max_tokens) const {
  engine::EncodeOptions options;
  options.add_special_tokens = !has_template_;
  options.control_ids = control_ids_;
  BATON_ASSIGN_OR_RETURN(auto ids, tokenizer_->Encode(rendered, options));
  if (ids.empty()) return absl::InvalidArgumentError("the prompt is empty: it has no tokens");
  if (max_tokens > 0 && static_cast<int64_t>(ids.size()) > max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", ids.size(),
                                                   " tokens; data.max_prompt_length allows ",
                                                   max_tokens, ": raise it or shorten the prompt"));
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodeResponse(absl::string_view text,
                                                                  int64_t max_tokens) const {
  engine::EncodeOptions options;
  options.control_ids = control_ids_;
  BATON_ASSIGN_OR_RETURN(auto ids, tokenizer_->Encode(engine::RenderedText(text), options));
  if (has_template_) {
    BATON_ASSIGN_OR_RETURN(const auto end, tokenizer_->Encode(chat_template_.end_of_turn()));
    ids.insert(ids.end(), end.begin(), end.end());
  } else if (!tokenizer_->eos_ids().empty()) {
    ids.push_back(tokenizer_->eos_ids().front());
  }
  if (max_tokens > 0 && static_cast<int64_t>(ids.size()) > max_tokens) {
    ids.resize(static_cast<size_t>(max_tokens));
  }
  return ids;
}

}  // namespace baton::policy
