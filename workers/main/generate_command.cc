#include "workers/main/generate_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/generator.h"
#include "workers/policy/policy_source.h"
#include "workers/tokenizer/generation_config.h"

namespace baton {
namespace {

absl::StatusOr<engine::SamplingParams> MakeParams(const GenerateOptions& options,
                                                  const policy::PolicySource& source) {
  engine::GenerationConfig config;
  auto loaded = engine::GenerationConfig::Load(source.directory());
  if (loaded.ok()) {
    config = *std::move(loaded);
  } else if (!absl::IsNotFound(loaded.status())) {
    return loaded.status();
  }
  engine::SamplingParams params;
  const bool greedy = config.do_sample.has_value() && !*config.do_sample;
  params.temperature = options.temperature.value_or(greedy ? 0 : config.temperature.value_or(1));
  params.top_p = options.top_p.value_or(config.top_p.value_or(1));
  params.top_k = options.top_k.value_or(config.top_k.value_or(0));
  params.max_new_tokens = options.max_new_tokens;
  params.stop_token_ids = source.stop_token_ids();
  return params;
}

}  // namespace

absl::Status Generate(const GenerateOptions& options,
                      const std::function<void(absl::string_view)>& write) {
  v1::ModelSpec spec;
  spec.set_chat_template(options.chat_template);
  spec.set_dtype(options.dtype);
  BATON_ASSIGN_OR_RETURN(const auto source, policy::PolicySource::Open(spec, options.model));
  BATON_ASSIGN_OR_RETURN(const auto model,
                         source->LoadModel(source->dtype(), torch::Device(options.device), 0));
  engine::GenerateRequest request;
  request.id = 1;
  request.key.job_seed = options.seed;
  BATON_ASSIGN_OR_RETURN(request.params, MakeParams(options, *source));
  BATON_ASSIGN_OR_RETURN(const std::string prompt, source->RenderPrompt({}, options.prompt));
  BATON_ASSIGN_OR_RETURN(request.prompt, source->EncodePrompt(prompt, 0));
  const int64_t room =
      source->config().max_position_embeddings - static_cast<int64_t>(request.prompt.size());
  request.params.max_new_tokens =
      std::min(request.params.max_new_tokens, std::max<int64_t>(room, 1));
  BATON_ASSIGN_OR_RETURN(const auto generator, engine::Generator::Create(model.get(), nullptr, {}));
  BATON_RETURN_IF_ERROR(generator->Add(std::move(request)));
  engine::StreamDecoder decoder(&source->tokenizer());
  while (!generator->idle()) {
    BATON_ASSIGN_OR_RETURN(const auto updates, generator->Step());
    for (const engine::GenerateUpdate& update : updates) write(decoder.Push(update.new_tokens));
  }
  write(decoder.Finish());
  return absl::OkStatus();
}

}  // namespace baton
