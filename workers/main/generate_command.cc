#include "workers/main/generate_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/template_kwargs.h"
#include "workers/engine/generation/generator.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/template_settings.h"
#include "workers/tokenizer/tokens/generation_config.h"

namespace baton {
namespace {

absl::StatusOr<std::unique_ptr<policy::PolicySource>> OpenSource(const GenerateOptions& options) {
  v1::ModelSpec spec;
  spec.set_chat_template(options.chat_template);
  spec.set_dtype(options.dtype);
  *spec.mutable_chat_template_kwargs() = options.chat_template_kwargs;
  spec.set_chat_template_date(options.chat_template_date.empty() ? policy::TemplateDateOfToday()
                                                                 : options.chat_template_date);
  BATON_ASSIGN_OR_RETURN(auto source, policy::PolicySource::Open(spec, options.model));
  for (const auto& [key, value] : options.chat_template_kwargs.fields()) {
    if (source->TemplateReads(key)) continue;
    return absl::InvalidArgumentError(absl::StrCat("chat_template_kwargs: `", key,
                                                   "` is nowhere in the model's chat template, so "
                                                   "it has no effect; correct the name, or remove "
                                                   "it"));
  }
  return source;
}

absl::StatusOr<engine::SamplingParams> MakeParams(const GenerateOptions& options,
                                                  const policy::PolicySource& source) {
  tokenizer::GenerationConfig config;
  auto loaded = tokenizer::GenerationConfig::Load(source.directory());
  if (loaded.ok()) {
    config = *std::move(loaded);
  } else if (!absl::IsNotFound(loaded.status())) {
    return loaded.status();
  }
  engine::SamplingParams params;
  // Greedy samples of one prompt would be equal.
  const bool several = !options.prompts.empty() && options.samples > 1;
  const bool greedy = config.do_sample.has_value() && !*config.do_sample;
  double temperature = greedy && !several ? 0 : config.temperature.value_or(1);
  if (several && temperature == 0) temperature = 1;
  params.temperature = options.temperature.value_or(temperature);
  params.top_p = options.top_p.value_or(config.top_p.value_or(1));
  params.top_k = options.top_k.value_or(config.top_k.value_or(0));
  params.max_new_tokens = options.max_new_tokens;
  params.stop_token_ids = source.stop_token_ids();
  BATON_RETURN_IF_ERROR(engine::ValidateSamplingParams(params, source.config().vocab_size));
  return params;
}

/// GenerateBatch with the model's weights, once the prompts are known to be good.
absl::Status LoadAndGenerate(const GenerateOptions& options, const policy::PolicySource& source,
                             BatchOptions batch,
                             const std::function<absl::Status(absl::string_view)>& write,
                             const std::function<void(const BatchProgress&)>& progress) {
  BATON_ASSIGN_OR_RETURN(const auto model,
                         source.LoadModel(source.dtype(), torch::Device(options.device), 0));
  engine::GeneratorOptions generator_options;
  generator_options.max_num_seqs = options.max_num_seqs;
  generator_options.kv_cache_bytes = options.kv_cache_bytes;
  BATON_ASSIGN_OR_RETURN(const auto generator,
                         engine::Generator::Create(model.get(), nullptr, generator_options));
  batch.in_flight = 2 * options.max_num_seqs;  // so that a next one is there for each that ends
  batch.held = 64 * batch.in_flight;           // text, while one at the front is very long
  progress({});
  return GenerateBatch(source, generator.get(), batch, write, progress);
}

absl::Status WriteToStandardOutput(absl::string_view line) {
  if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "cannot write to standard output");
}

// Writes one response as it comes: its text, or a line for each of its tokens.
class ResponseWriter {
 public:
  ResponseWriter(const policy::PolicySource& source, bool tokens,
                 const std::function<void(absl::string_view)>& write)
      : source_(source), tokens_(tokens), write_(write), decoder_(&source.tokenizer()) {}

  void Add(const engine::GenerateUpdate& update) {
    Take(decoder_.Push(update.new_tokens));
    for (size_t i = 0; i < update.new_tokens.size(); ++i) {
      last_ = update.new_tokens[i];
      ++count_;
      if (tokens_) write_(TokenLine(last_, update.new_log_probs[i]));
    }
  }
  void Finish() { Take(decoder_.Finish()); }

  /// "" if the response has text that a reader would see.
  std::string NoteOfEmpty(bool raw) const {
    if (visible_) return "";
    std::string note = absl::StrCat("the response has no visible text: ", count_,
                                    count_ == 1 ? " token" : " tokens", ", the last is ",
                                    Quoted(last_), " (--tokens shows them all)");
    if (raw) absl::StrAppend(&note, "; without --raw the model's chat template wraps the prompt");
    return note;
  }

 private:
  void Take(const std::string& text) {
    visible_ |= !absl::StripAsciiWhitespace(text).empty();
    if (!tokens_) write_(text);
  }
  // The token's bytes, as a JSON string.
  std::string Quoted(int32_t id) const {
    return nlohmann::json(std::string(source_.tokenizer().TokenBytes(id)))
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::string TokenLine(int32_t id, float log_prob) const {
    return absl::StrFormat("%7d %10.4f  %s\n", id, log_prob, Quoted(id));
  }

  const policy::PolicySource& source_;
  const bool tokens_;
  const std::function<void(absl::string_view)>& write_;
  tokenizer::StreamDecoder decoder_;
  bool visible_ = false;
  int64_t count_ = 0;
  int32_t last_ = 0;
};

absl::Status CheckFailed(const BatchProgress& done) {
  if (done.failed == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      done.failed, done.failed == 1 ? " response" : " responses",
      " ended with an error, the first at ", done.first_failure,
      "; all lines are written, and the finish_reasons of these responses are 'error'"));
}

}  // namespace

absl::StatusOr<google::protobuf::Struct> ReadTemplateKwargs(absl::string_view json) {
  google::protobuf::Struct out;
  if (!google::protobuf::util::JsonStringToMessage(std::string(json), &out).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", json, "' is no JSON object of variables, such as {\"enable_thinking\": false}"));
  }
  for (const auto& [key, value] : out.fields()) BATON_RETURN_IF_ERROR(CheckTemplateKwarg(key));
  return out;
}

absl::StatusOr<std::string> Generate(const GenerateOptions& options,
                                     const std::function<void(absl::string_view)>& write) {
  BATON_ASSIGN_OR_RETURN(const auto source, OpenSource(options));
  BATON_ASSIGN_OR_RETURN(const auto model,
                         source->LoadModel(source->dtype(), torch::Device(options.device), 0));
  engine::GenerateRequest request;
  request.id = 1;
  request.key.job_seed = options.seed;
  BATON_ASSIGN_OR_RETURN(request.params, MakeParams(options, *source));
  const tokenizer::RenderedText text(options.prompt);
  policy::Prompt prompt(text);
  if (!options.raw) {
    BATON_ASSIGN_OR_RETURN(prompt, source->RenderQuestion(text));
  }
  BATON_ASSIGN_OR_RETURN(request.prompt, source->EncodePrompt(prompt, 0));
  const int64_t room = source->config().positions() - static_cast<int64_t>(request.prompt.size());
  request.params.max_new_tokens =
      std::min(request.params.max_new_tokens, std::max<int64_t>(room, 1));
  BATON_ASSIGN_OR_RETURN(const auto generator, engine::Generator::Create(model.get(), nullptr, {}));
  BATON_RETURN_IF_ERROR(generator->Add(std::move(request)));
  ResponseWriter writer(*source, options.tokens, write);
  while (!generator->idle()) {
    BATON_ASSIGN_OR_RETURN(const auto updates, generator->Step());
    for (const engine::GenerateUpdate& update : updates) {
      writer.Add(update);
      BATON_RETURN_IF_ERROR(update.error);
    }
  }
  writer.Finish();
  return writer.NoteOfEmpty(options.raw);
}

absl::Status GenerateFile(const GenerateOptions& options, const TellProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const auto source, OpenSource(options));
  BatchOptions batch;
  batch.prompts = options.prompts;
  batch.keys = options.keys;
  batch.samples = options.samples;
  batch.seed = options.seed;
  batch.tokens = options.tokens;
  BATON_ASSIGN_OR_RETURN(batch.params, MakeParams(options, *source));
  BATON_ASSIGN_OR_RETURN(const int64_t total, CheckPrompts(*source, batch));
  BatchProgress told;
  const auto tell = [&](const BatchProgress& done) {
    told = done;
    progress(done, total);
  };
  if (options.out == "-") {
    BATON_RETURN_IF_ERROR(LoadAndGenerate(options, *source, batch, WriteToStandardOutput, tell));
    return CheckFailed(told);
  }
  std::error_code code;
  if (std::filesystem::exists(options.out, code) &&
      !std::filesystem::is_regular_file(options.out, code)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.out, " is not a file; give a file, or - for standard output"));
  }
  BATON_ASSIGN_OR_RETURN(relay::AtomicFile file, relay::AtomicFile::Create(options.out));
  const auto append = [&file](absl::string_view line) {
    return file.Append(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(line.data()), line.size()));
  };
  BATON_RETURN_IF_ERROR(LoadAndGenerate(options, *source, batch, append, tell));
  BATON_RETURN_IF_ERROR(file.Commit());
  return CheckFailed(told);
}

}  // namespace baton
