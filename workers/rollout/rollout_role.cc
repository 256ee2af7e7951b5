#include "workers/rollout/rollout_role.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::rollout {
namespace {

constexpr int64_t kDefaultKvCacheBytes = int64_t{1} << 30;

engine::GeneratorOptions GeneratorOptionsOf(const v1::RolloutSpec& spec) {
  engine::GeneratorOptions options;
  options.kv_cache_bytes = spec.has_kv_cache_bytes() ? spec.kv_cache_bytes() : kDefaultKvCacheBytes;
  if (spec.has_max_num_seqs()) options.max_num_seqs = spec.max_num_seqs();
  options.deterministic = spec.deterministic();
  return options;
}

v1::TaskResult MakeResult(const engine::Tokenizer& tokenizer, const Generation& generation,
                          const std::string& reason) {
  v1::TaskResult result;
  *result.add_columns() =
      policy::MakeColumn("prompt_tokens", false, absl::MakeConstSpan(generation.request.prompt));
  *result.add_columns() =
      policy::MakeColumn("tokens", true, absl::MakeConstSpan(generation.tokens));
  *result.add_columns() =
      policy::MakeColumn("rollout_log_prob", true, absl::MakeConstSpan(generation.log_probs));
  result.set_response_text(tokenizer.Decode(generation.tokens));
  result.set_prompt_text(generation.prompt_text);
  result.set_finish_reason(reason);
  return result;
}

}  // namespace

RolloutRole::RolloutRole(RolloutOptions options, policy::WeightsRelay* relay)
    : options_(std::move(options)), relay_(relay) {}

RolloutRole::~RolloutRole() = default;

absl::Status RolloutRole::Register(Worker& worker) {
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext&) {
    return Assign(task.assign_role());
  };
  role.on_release = [this](const std::string&) { assigned_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("rollout", std::move(role)));
  BATON_RETURN_IF_ERROR(worker.RegisterMethod(
      "rollout", "load_weights", 1,
      [this](const v1::Task& task, TaskContext& context) { return LoadWeights(task, context); }));
  return worker.RegisterAsyncMethod(
      "rollout", "generate", options_.credits,
      [this](std::shared_ptr<TaskContext> context) { Generate(std::move(context)); });
}

absl::StatusOr<v1::TaskResult> RolloutRole::Assign(const v1::AssignRole& assign) {
  assigned_.reset();
  auto assigned = std::make_unique<Assigned>();
  assigned->spec = assign.spec();
  BATON_ASSIGN_OR_RETURN(assigned->source,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  const policy::PolicySource& source = *assigned->source;
  BATON_ASSIGN_OR_RETURN(assigned->model, engine::CausalLM::Create(source.config(), source.dtype(),
                                                                   torch::Device(options_.device)));
  if (assign.spec().rollout().deterministic()) assigned->model->SetDeterministic(true);
  const engine::DecodeFunction decode = [&tokenizer =
                                             source.tokenizer()](absl::Span<const int32_t> ids) {
    return tokenizer.DecodeBytes(ids, /*skip_special_tokens=*/false);  // a stop may be one
  };
  auto generator = engine::Generator::Create(assigned->model.get(), decode,
                                             GeneratorOptionsOf(assign.spec().rollout()));
  if (!generator.ok()) return Annotate(generator.status(), "spec.rollout");
  assigned->generator = *std::move(generator);
  assigned->loop = std::make_unique<GeneratorLoop>(
      assigned->generator.get(),
      [&tokenizer = source.tokenizer()](const Generation& generation, const std::string& reason) {
        return MakeResult(tokenizer, generation, reason);
      });
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> RolloutRole::LoadWeights(const v1::Task& task,
                                                        TaskContext& context) {
  const uint64_t version = task.load_weights().policy_version();
  const auto start = std::chrono::steady_clock::now();
  Assigned& assigned = *assigned_;
  const auto cancelled = std::make_shared<absl::Notification>();
  context.OnCancel([cancelled] { cancelled->Notify(); });
  const absl::Status status =
      relay_->Load(task.job(), version, *cancelled, [&](absl::Span<const uint8_t> bytes) {
        return assigned.loop->LoadWeights(
            version, [&] { return engine::LoadModelFrom(bytes, *assigned.model); });
      });
  if (!status.ok()) return Annotate(status, absl::StrCat("loading policy version ", version));
  context.ReportPolicyVersion(version);
  v1::TaskResult result;
  (*result.mutable_metrics())["timing_s/load_weights"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Log(LogLevel::kDebug, "weights loaded", {{"job", task.job()}, {"version", version}});
  return result;
}

absl::StatusOr<Generation> RolloutRole::MakeGeneration(const v1::Generate& task) const {
  const policy::PolicySource& source = *assigned_->source;
  std::vector<engine::ChatMessage> messages;
  for (const v1::ChatMessage& message : task.messages()) {
    messages.push_back({message.role(), message.content()});
  }
  Generation generation;
  BATON_ASSIGN_OR_RETURN(generation.prompt_text, source.RenderPrompt(messages, task.prompt()));
  engine::GenerateRequest& request = generation.request;
  BATON_ASSIGN_OR_RETURN(request.prompt,
                         source.EncodePrompt(generation.prompt_text, task.max_prompt_length()));
  request.resume.assign(task.resume_tokens().begin(), task.resume_tokens().end());
  request.params.temperature = task.temperature();
  request.params.top_p = task.top_p() > 0 ? task.top_p() : 1;
  request.params.top_k = task.top_k();
  request.params.max_new_tokens = task.max_new_tokens();
  request.params.stop_token_ids = source.stop_token_ids();
  request.params.stop_strings.assign(task.stop().begin(), task.stop().end());
  request.key = {task.seed(), static_cast<uint32_t>(task.purpose()), task.prompt_id(), task.draw(),
                 task.sample_index()};
  generation.policy_version = task.policy_version();
  generation.tokens = request.resume;
  generation.log_probs.assign(task.resume_log_probs().begin(), task.resume_log_probs().end());
  if (generation.log_probs.size() != generation.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("resume_tokens has ", generation.tokens.size(),
                                                   " entries, resume_log_probs ",
                                                   generation.log_probs.size()));
  }
  return generation;
}

void RolloutRole::Generate(std::shared_ptr<TaskContext> context) {
  auto generation = MakeGeneration(context->task().generate());
  if (!generation.ok()) {
    context->Finish(generation.status());
    return;
  }
  generation->context = std::move(context);
  assigned_->loop->Add(*std::move(generation));
}

}  // namespace baton::rollout
