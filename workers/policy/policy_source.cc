#include "workers/policy/policy_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/schema_spec/model_init.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/scalar/scalar_directory.h"
#include "workers/policy/template_settings.h"
#include "workers/tokenizer/chat/learned_turns.h"
#include "workers/tokenizer/chat/model_template.h"
#include "workers/tokenizer/tokens/character_tokenizer.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

absl::Status CheckPromptLength(size_t tokens, int64_t most) {
  if (tokens == 0) return absl::InvalidArgumentError("the prompt is empty: it has no tokens");
  if (most <= 0 || static_cast<int64_t>(tokens) <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the prompt has ", tokens,
                                                 " tokens; data.max_prompt_length allows ", most,
                                                 ": raise it or shorten the prompt"));
}

absl::Status NeedsTemplate() {
  return absl::InvalidArgumentError(
      "the response is more than a text (it calls a tool, has reasoning or several turns), which a "
      "chat template writes; give the prompt as messages");
}

}  // namespace

std::string ModelDirectory(const std::string& path) {
  std::error_code error;
  const std::string actor = absl::StrCat(path, "/actor");
  if (!fs::exists(path + "/config.json", error) && fs::exists(actor + "/config.json", error)) {
    return actor;
  }
  return path;
}

absl::StatusOr<ModelConfig> MakeInitConfig(const v1::ModelInitSpec& init,
                                           const tokenizer::Tokenizer& tokenizer) {
  ModelConfig config = InitConfig(init, tokenizer.vocab_size());
  config.pad_token_id = tokenizer.pad_id();
  for (const int32_t id : tokenizer.eos_ids()) config.eos_token_ids.push_back(id);
  if (absl::Status status = config.Validate(); !status.ok()) {
    return Annotate(status, "spec.model.init");
  }
  return config;
}

absl::StatusOr<std::unique_ptr<PolicySource>> PolicySource::Open(const v1::ModelSpec& spec,
                                                                 const std::string& checkpoint) {
  auto source = std::unique_ptr<PolicySource>(new PolicySource());
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
  BATON_RETURN_IF_ERROR(source->FindTemplate(spec));
  BATON_RETURN_IF_ERROR(source->FindStopTokens());
  return source;
}

absl::Status PolicySource::OpenDirectory(const std::string& directory) {
  directory_ = ModelDirectory(directory);
  BATON_ASSIGN_OR_RETURN(config_, engine::LoadModelConfig(directory_));
  warnings_ = engine::ConfigWarnings(config_, directory_);
  BATON_ASSIGN_OR_RETURN(tokenizer_, tokenizer::Tokenizer::Load(directory_));
  BATON_ASSIGN_OR_RETURN(companions_, engine::ReadCompanions(directory_));
  return absl::OkStatus();
}

absl::Status PolicySource::OpenInit(const v1::ModelInitSpec& init) {
  BATON_ASSIGN_OR_RETURN(const auto files, tokenizer::MakeCharacterTokenizer(init.characters()));
  tokenizer::TokenizerSideFiles side_files;
  side_files.tokenizer_config_json = files.tokenizer_config_json;
  BATON_ASSIGN_OR_RETURN(tokenizer_,
                         tokenizer::Tokenizer::FromJson(files.tokenizer_json, side_files));
  companions_ = {{"tokenizer.json", files.tokenizer_json},
                 {"tokenizer_config.json", files.tokenizer_config_json}};
  BATON_ASSIGN_OR_RETURN(config_, MakeInitConfig(init, *tokenizer_));
  return absl::OkStatus();
}

absl::Status PolicySource::FindTemplate(const v1::ModelSpec& spec) {
  constexpr char kKey[] = "spec.model.chat_template";
  const std::string& name = spec.chat_template();
  if (name == "none") {
    chat_template_ = absl::InvalidArgumentError(
        "the prompt is a list of messages, and spec.model.chat_template is none: remove it (the "
        "default, auto, is the model's own template), or give the prompt as a text");
    return absl::OkStatus();
  }
  const bool own = name.empty() || name == "auto" || name == "model";
  wraps_text_ = !own || name == "model";
  if (!own) {
    chat_template_ = tokenizer::ChatTemplate::FromName(name);
    return Annotate(chat_template_.status(), kKey);
  }
  const auto file = [this](const char* companion) {
    const auto it = companions_.find(companion);
    return it == companions_.end() ? std::string() : it->second;
  };
  tokenizer::TemplateFiles files = {file("chat_template.jinja"), file("tokenizer_config.json"),
                                    file("special_tokens_map.json")};
  for (const char* template_name : {"default", "rag", "tool_use"}) {
    const auto it =
        companions_.find(absl::StrCat("additional_chat_templates/", template_name, ".jinja"));
    if (it != companions_.end()) files.additional_templates[template_name] = it->second;
  }
  chat_template_ = tokenizer::ChatTemplate::OfModel(files, *tokenizer_, TemplateSettingsOf(spec));
  if (chat_template_.ok()) return absl::OkStatus();
  const std::string model = directory_.empty() ? "the model of spec.model.init"
                                               : absl::StrCat("the model in ", directory_);
  const absl::Status& status = chat_template_.status();
  const std::string why =
      absl::StrCat(model, absl::IsNotFound(status) ? " " : ": ", status.message());
  if (wraps_text_) {
    return absl::Status(absl::StatusCode::kFailedPrecondition,
                        absl::StrCat(kKey, ": model: ", why, "; name chatml or llama3"));
  }
  chat_template_ = absl::InvalidArgumentError(
      absl::StrCat("the prompt is a list of messages, and ", why,
                   "; name the template that the model was trained with in ", kKey,
                   " (chatml, llama3), or give the prompt as a text"));
  return absl::OkStatus();
}

absl::Status PolicySource::FindStopTokens() {
  for (const int32_t id : tokenizer_->eos_ids()) stop_token_ids_.push_back(id);
  for (const int64_t id : config_.eos_token_ids) stop_token_ids_.push_back(id);
  if (chat_template_.ok()) {
    BATON_ASSIGN_OR_RETURN(control_ids_, chat_template_->MarkIds(*tokenizer_));
    BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer_->Encode(chat_template_->end_of_turn()));
    if (!ids.empty()) stop_token_ids_.push_back(ids.back());
    if (!ids.empty() && ids.back() < config_.vocab_size) end_id_ = ids.back();
    const std::string& mark = chat_template_->end_of_turn();
    end_text_bytes_ = mark.size();
    const absl::string_view token = tokenizer_->AddedText(end_id_.value_or(-1));
    if (!token.empty() && absl::EndsWith(mark, token)) end_text_bytes_ = token.size();
  }
  if (!end_id_.has_value() && !tokenizer_->eos_ids().empty()) {
    end_id_ = tokenizer_->eos_ids().front();
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

absl::StatusOr<std::unique_ptr<engine::ScalarModel>> PolicySource::LoadScalarModel(
    torch::Device device, uint64_t seed, bool needs_head,
    engine::Communicator* tensor_group) const {
  if (!directory_.empty()) {
    const auto head =
        needs_head ? engine::HeadWanted::kRequired : engine::HeadWanted::kZeroIfMissing;
    return engine::LoadScalarModel(directory_, torch::kFloat32, device, head, tensor_group);
  }
  BATON_ASSIGN_OR_RETURN(const auto decoder,
                         LoadModel(torch::kFloat32, device, seed, tensor_group));
  return engine::ScalarModel::FromCausalLM(*decoder, torch::kFloat32, device);
}

absl::StatusOr<Prompt> PolicySource::RenderPrompt(tokenizer::Chat chat,
                                                  absl::string_view text) const {
  if (chat.messages.empty() && !wraps_text_) return Prompt(tokenizer::RenderedText(text));
  if (chat.messages.empty()) chat.messages.emplace_back("user", text);
  BATON_RETURN_IF_ERROR(chat_template_.status());
  Prompt prompt;
  BATON_ASSIGN_OR_RETURN(prompt.text, chat_template_->Render(chat));
  prompt.chat = std::move(chat);
  return prompt;
}

absl::StatusOr<Prompt> PolicySource::RenderQuestion(const tokenizer::RenderedText& text) const {
  if (!chat_template_.ok()) return Prompt(text);
  tokenizer::Chat chat;
  chat.messages.emplace_back("user", text);
  return RenderPrompt(std::move(chat), "");
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodePrompt(const Prompt& prompt,
                                                                int64_t max_tokens) const {
  tokenizer::EncodeOptions options;
  options.add_special_tokens = !prompt.templated();
  options.control_ids = control_ids_;
  BATON_ASSIGN_OR_RETURN(auto ids, EncodeText(prompt.text, options));
  BATON_RETURN_IF_ERROR(CheckPromptLength(ids.size(), max_tokens));
  return ids;
}

absl::StatusOr<Demonstration> PolicySource::EncodeDemonstration(const Prompt& prompt,
                                                                absl::string_view text,
                                                                int64_t max_prompt,
                                                                int64_t max_response,
                                                                bool ends) const {
  return EncodeDemonstration(prompt, tokenizer::ChatMessage("assistant", text), max_prompt,
                             max_response, ends);
}

absl::StatusOr<Demonstration> PolicySource::EncodeDemonstration(const Prompt& prompt,
                                                                const tokenizer::ChatMessage& reply,
                                                                int64_t max_prompt,
                                                                int64_t max_response,
                                                                bool ends) const {
  Demonstration out;
  BATON_ASSIGN_OR_RETURN(out.prompt, EncodePrompt(prompt, max_prompt));
  tokenizer::TemplateReply written = {reply.content};
  if (prompt.templated()) {
    BATON_RETURN_IF_ERROR(chat_template_.status());
    BATON_ASSIGN_OR_RETURN(written, chat_template_->RenderReply(prompt.chat, prompt.text, reply));
  } else if (!reply.fields_json.empty()) {
    return NeedsTemplate();
  }
  BATON_ASSIGN_OR_RETURN(out.response, EncodeReply(prompt, written, ends));
  out.cut_back = written.from_start;
  if (out.cut_back) {
    const auto differ = std::mismatch(out.prompt.begin(), out.prompt.end(), out.response.begin(),
                                      out.response.end());
    if (differ.first == out.prompt.begin()) {
      return absl::InvalidArgumentError(
          "the chat template writes the prompt and the whole conversation with nothing in common; "
          "name another one in spec.model.chat_template");
    }
    out.response.erase(out.response.begin(), differ.second);
    out.prompt.erase(differ.first, out.prompt.end());
  }
  out.cut = max_response > 0 && static_cast<int64_t>(out.response.size()) > max_response;
  if (out.cut) out.response.resize(static_cast<size_t>(max_response));
  return out;
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodeReply(
    const Prompt& prompt, const tokenizer::TemplateReply& reply, bool ends) const {
  tokenizer::EncodeOptions options;
  options.control_ids = control_ids_;
  // As the continuation that it is: a tokenizer that prepends a space to a text does not here.
  if (!reply.from_start) options.follows = tokenizer_->FollowsAfter(prompt.text, options);
  if (ends) return EncodeEnded(reply.text, options, prompt.templated());
  const size_t mark = prompt.templated() ? chat_template_->end_of_turn().size() : 0;
  return EncodeText(reply.text.Slice(0, reply.text.text().size() - mark), options);
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodeEnded(
    tokenizer::RenderedText response, const tokenizer::EncodeOptions& options,
    bool templated) const {
  BATON_ASSIGN_OR_RETURN(auto ids, EncodeText(response, options));
  const bool ended = !ids.empty() && std::find(stop_token_ids_.begin(), stop_token_ids_.end(),
                                               ids.back()) != stop_token_ids_.end();
  if (ended || !end_id_.has_value()) return ids;
  // The template writes no mark, or one that the tokenizer does not find in the text: the model
  // is to learn what ends a response, not how that is spelled.
  if (templated && absl::EndsWith(response.text(), chat_template_->end_of_turn()) &&
      !chat_template_->end_of_turn().empty()) {
    response = response.Slice(0, response.text().size() - end_text_bytes_);
    BATON_ASSIGN_OR_RETURN(ids, EncodeText(response, options));
  }
  ids.push_back(*end_id_);
  return ids;
}

absl::StatusOr<bool> PolicySource::Joins(const Demonstration& begun,
                                         const std::vector<int32_t>& last,
                                         const tokenizer::RenderedText& whole) const {
  tokenizer::EncodeOptions options;
  options.control_ids = control_ids_;
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> at_once, EncodeText(whole, options));
  std::vector<int32_t> parts = begun.prompt;
  parts.insert(parts.end(), begun.response.begin(), begun.response.end());
  parts.insert(parts.end(), last.begin(), last.end());
  return parts != at_once;
}

absl::StatusOr<Demonstration> PolicySource::EncodeTurns(
    const Prompt& prompt, const std::vector<tokenizer::ChatMessage>& turns,
    const std::vector<bool>& learned, int64_t max_prompt, int64_t max_response) const {
  if (!prompt.templated()) return NeedsTemplate();
  tokenizer::Chat chat = prompt.chat;
  std::vector<bool> all(chat.messages.size(), false);
  chat.messages.insert(chat.messages.end(), turns.begin(), turns.end());
  all.insert(all.end(), learned.begin(), learned.end());
  BATON_ASSIGN_OR_RETURN(const tokenizer::LearnedTurns found,
                         tokenizer::FindLearnedTurns(*chat_template_, chat, all));
  tokenizer::EncodeOptions options;
  options.control_ids = control_ids_;
  size_t done = found.ranges.front().begin;
  Demonstration out;
  BATON_ASSIGN_OR_RETURN(out.prompt, EncodeText(found.text.Slice(0, done), options));
  BATON_RETURN_IF_ERROR(CheckPromptLength(out.prompt.size(), max_prompt));
  const auto add = [&](const std::vector<int32_t>& ids, uint8_t mask) {
    out.response.insert(out.response.end(), ids.begin(), ids.end());
    out.mask.resize(out.response.size(), mask);
  };
  for (const tokenizer::TextRange& range : found.ranges) {
    options.follows = tokenizer_->FollowsAfter(found.text.Slice(0, done), options);
    BATON_ASSIGN_OR_RETURN(const auto context,
                           EncodeText(found.text.Slice(done, range.begin), options));
    add(context, 0);
    options.follows = tokenizer_->FollowsAfter(found.text.Slice(0, range.begin), options);
    const tokenizer::RenderedText said = found.text.Slice(range.begin, range.end);
    BATON_ASSIGN_OR_RETURN(auto ids, EncodeText(said, options));
    done = range.end;
    if (&range == &found.ranges.back()) {
      BATON_ASSIGN_OR_RETURN(out.joined_turns, Joins(out, ids, found.text.Slice(0, done)));
      if (!found.by_blocks) {
        BATON_ASSIGN_OR_RETURN(ids, EncodeEnded(said, options, /*templated=*/true));
      }
    }
    add(ids, 1);
  }
  out.cut = max_response > 0 && static_cast<int64_t>(out.response.size()) > max_response;
  if (out.cut) {
    out.response.resize(static_cast<size_t>(max_response));
    out.mask.resize(out.response.size());
  }
  return out;
}

std::string PolicySource::PromptSuffix(const Prompt& prompt) const {
  if (!prompt.templated() || !chat_template_.ok()) return "";
  return chat_template_->PromptSuffix(prompt.chat, prompt.text);
}

bool PolicySource::TemplateReads(absl::string_view name) const {
  return chat_template_.ok() && chat_template_->Reads(name);
}

absl::StatusOr<std::vector<int32_t>> PolicySource::EncodeText(
    const tokenizer::RenderedText& text, const tokenizer::EncodeOptions& options) const {
  BATON_ASSIGN_OR_RETURN(auto ids, tokenizer_->Encode(text, options));
  const auto outside =
      std::find_if(ids.begin(), ids.end(), [this](int32_t id) { return id >= config_.vocab_size; });
  if (outside == ids.end()) return ids;
  const absl::string_view added = tokenizer_->AddedText(*outside);
  const absl::string_view token = added.empty() ? tokenizer_->TokenBytes(*outside) : added;
  return absl::InvalidArgumentError(absl::StrCat(
      "token ", *outside, " ('", ReplaceInvalidUtf8(token),
      "') is in the text, and the model has embeddings of ", config_.vocab_size,
      " tokens (config.json: vocab_size): add rows to the model for the tokens that were added to "
      "its tokenizer (resize_token_embeddings), or leave the token out of chat template and data"));
}

}  // namespace baton::policy
