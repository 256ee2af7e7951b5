#include "workers/rollout/rollout_role.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "workers/policy/chat_messages.h"
#include "workers/policy/generation_options.h"
#include "workers/rollout/controller_history.h"

namespace baton::rollout {
namespace {

// Outcomes of drafts in this replica, as sums that the controller adds up. The time in the drafter
// counts without a draft, too: it is what speculation wastes.
void AddDrafts(const engine::DraftStats& drafts, v1::TaskResult& result) {
  if (drafts.passes == 0 && drafts.draft_seconds <= 0) return;
  auto& metrics = *result.mutable_metrics();
  const auto add = [&](const std::string& name, auto value) {
    metrics["spec/" + name] = static_cast<double>(value);
  };
  add("draft_seconds", drafts.draft_seconds);
  if (drafts.short_passes > 0) {
    add("memory_short_passes", drafts.short_passes);
  }
  if (drafts.passes == 0) return;
  add("passes", drafts.passes);
  add("draft_tokens", drafts.rows);
  add("accepted_tokens", drafts.accepted);
  add("verify_seconds", drafts.verify_seconds);
  for (size_t depth = 0; depth < engine::DraftStats::kDepths; ++depth) {
    if (drafts.proposed_at[depth] == 0) continue;
    add(absl::StrCat("proposed_at/", depth), drafts.proposed_at[depth]);
    add(absl::StrCat("accepted_at/", depth), drafts.accepted_at[depth]);
  }
}

// Before its tree has anything, of which ever kind the response is.
void AskForHistory(const v1::Generate& task, const std::vector<int32_t>& prompt,
                   HistoryFetcher* history) {
  if (history == nullptr) return;
  history->Ask({task.purpose() == v1::PURPOSE_EVAL, task.prompt_id(), prompt});
}

void AddHistory(HistoryFetcher* history, v1::TaskResult& result) {
  const int64_t tokens = history == nullptr ? 0 : history->TakeTokens();
  if (tokens == 0) return;
  (*result.mutable_metrics())["spec/history_tokens"] = static_cast<double>(tokens);
}

v1::TaskResult MakeResult(const tokenizer::Tokenizer& tokenizer, const Generation& generation,
                          const std::string& reason) {
  v1::TaskResult result;
  *result.add_columns() =
      MakeColumn("prompt_tokens", false, absl::MakeConstSpan(generation.request.prompt));
  *result.add_columns() = MakeColumn("tokens", true, absl::MakeConstSpan(generation.tokens));
  *result.add_columns() =
      MakeColumn("rollout_log_prob", true, absl::MakeConstSpan(generation.log_probs));
  if (generation.truncated) {
    *result.add_columns() =
        MakeColumn("sampling_log_prob", true, absl::MakeConstSpan(generation.sampling_log_probs));
  }
  result.set_response_text(tokenizer.Decode(generation.tokens));
  result.set_prompt_text(generation.prompt_text);
  result.set_prompt_suffix(generation.prompt_suffix);
  result.set_finish_reason(reason);
  if (generation.steps > 0) {
    (*result.mutable_metrics())["step_seconds"] = generation.step_seconds / generation.steps;
    (*result.mutable_metrics())["step_rows"] = generation.step_rows / generation.steps;
  }
  AddDrafts(generation.drafts, result);
  if (!generation.request.draft.empty()) {
    (*result.mutable_metrics())["draft_accepted"] = static_cast<double>(generation.draft_accepted);
  }
  return result;
}

}  // namespace

RolloutRole::RolloutRole(RolloutOptions options, policy::WeightsRelay* relay,
                         hybrid::SharedPolicy* shared)
    : options_(std::move(options)), relay_(relay), shared_(shared) {}

RolloutRole::~RolloutRole() { Release(); }

absl::Status RolloutRole::Register(Worker& worker) {
  experience_ = std::make_unique<ExperienceClient>(worker.options());
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext&) { return Assign(task); };
  role.on_release = [this](const std::string&) { Release(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("rollout", std::move(role)));
  BATON_RETURN_IF_ERROR(worker.RegisterMethod(
      "rollout", "load_weights", 1,
      [this](const v1::Task& task, TaskContext& context) { return LoadWeights(task, context); }));
  for (const bool ahead : {false, true}) {
    BATON_RETURN_IF_ERROR(
        worker.RegisterAsyncMethod("rollout", ahead ? "run_ahead" : "generate", options_.credits,
                                   [this, ahead](std::shared_ptr<TaskContext> context) {
                                     Generate(std::move(context), ahead);
                                   }));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::TaskResult> RolloutRole::Assign(const v1::Task& task) {
  Release();
  const v1::AssignRole& assign = task.assign_role();
  auto assigned = std::make_unique<Assigned>();
  assigned->spec = assign.spec();
  assigned->job_uid = task.job_uid();
  BATON_ASSIGN_OR_RETURN(assigned->source,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  if (assign.generation_tp() == 0) BATON_RETURN_IF_ERROR(MakeGenerator(*assigned));
  BATON_RETURN_IF_ERROR(MakeDrafter(*assigned));
  if (assigned->drafter != nullptr && !assign.history_capability().empty()) {
    assigned->history = std::make_unique<HistoryFetcher>(
        std::make_unique<ControllerHistory>(experience_.get(), task), assigned->drafter.get());
  }
  assigned->loop = std::make_unique<GeneratorLoop>(
      [&tokenizer = assigned->source->tokenizer(), history = assigned->history.get()](
          const Generation& generation, const std::string& reason) {
        v1::TaskResult result = MakeResult(tokenizer, generation, reason);
        AddHistory(history, result);
        return result;
      },
      assigned->drafter.get());
  assigned_ = std::move(assigned);
  if (assign.generation_tp() > 0) shared_->Enter(task.job(), assigned_->loop.get());
  return v1::TaskResult();
}

absl::Status RolloutRole::MakeDrafter(Assigned& assigned) {
  const v1::SpeculationSpec& spec = assigned.spec.rollout().speculation();
  if (spec.mode() != "auto") {
    kept_.Drop();
    return absl::OkStatus();
  }
  TreeCacheOptions& options = assigned.drafter_options;
  options.half_life_updates = spec.half_life_updates();
  options.max_bytes = spec.cache_bytes();
  auto drafter = kept_.TakeOrMake(assigned.job_uid, options);
  if (!drafter.ok()) return Annotate(drafter.status(), "spec.rollout.speculation");
  assigned.drafter = *std::move(drafter);
  return absl::OkStatus();
}

absl::Status RolloutRole::MakeGenerator(Assigned& assigned) const {
  const policy::PolicySource& source = *assigned.source;
  BATON_ASSIGN_OR_RETURN(assigned.model, engine::CausalLM::Create(source.config(), source.dtype(),
                                                                  torch::Device(options_.device)));
  if (assigned.spec.rollout().deterministic()) assigned.model->SetDeterministic(true);
  auto generator = engine::Generator::Create(assigned.model.get(), policy::MakeDecode(source),
                                             policy::MakeGeneratorOptions(assigned.spec.rollout()));
  if (!generator.ok()) return Annotate(generator.status(), "spec.rollout");
  assigned.generator = *std::move(generator);
  return absl::OkStatus();
}

void RolloutRole::Release() {
  if (assigned_ == nullptr) return;
  if (assigned_->model == nullptr) {
    shared_->Leave(absl::CancelledError("the rollout role was released"));
  }
  Assigned& assigned = *assigned_;
  if (assigned.history != nullptr) assigned.history->Stop();  // The drafter goes on without it.
  assigned.loop.reset();  // The loop's end ends every response at the drafter.
  if (assigned.drafter != nullptr) {
    // The log has the waiting responses as well: they would be fetched again, and count twice.
    assigned.drafter->CatchUp(INT64_MAX);
    kept_.Keep(assigned.job_uid, assigned.drafter_options, std::move(assigned.drafter));
  }
  assigned_.reset();
}

absl::StatusOr<v1::TaskResult> RolloutRole::LoadWeights(const v1::Task& task,
                                                        TaskContext& context) {
  const uint64_t version = task.load_weights().policy_version();
  const auto start = std::chrono::steady_clock::now();
  Assigned& assigned = *assigned_;
  if (assigned.model == nullptr) {
    return absl::FailedPreconditionError(
        "load_weights: this rollout has the weights of the actor beside it; send the actor "
        "to_generation");
  }
  assigned.loop->StopAhead();  // before the bytes come: they want the CPU
  const auto cancelled = std::make_shared<absl::Notification>();
  context.OnCancel([cancelled] { cancelled->Notify(); });
  const absl::Status status = relay_->Load(
      {task.job(), version, task.job_uid(), task.load_weights().relay()}, *cancelled,
      [&](absl::Span<const uint8_t> bytes) {
        return assigned.loop->LoadWeights(version, [&]() -> absl::StatusOr<engine::Generator*> {
          BATON_RETURN_IF_ERROR(engine::LoadModelFrom(bytes, *assigned.model));
          return assigned.generator.get();
        });
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
  BATON_ASSIGN_OR_RETURN(
      const policy::Prompt prompt,
      policy::RenderPromptOf(source, task.messages(), task.prompt(), task.tools_json(),
                             task.chat_template_kwargs_json()));
  Generation generation;
  generation.prompt_text = prompt.text.text();
  generation.prompt_suffix = source.PromptSuffix(prompt);
  engine::GenerateRequest& request = generation.request;
  BATON_ASSIGN_OR_RETURN(request.prompt, source.EncodePrompt(prompt, task.max_prompt_length()));
  request.resume.assign(task.resume_tokens().begin(), task.resume_tokens().end());
  request.draft.assign(task.draft_tokens().begin(), task.draft_tokens().end());
  request.params.temperature = task.temperature();
  request.params.top_p = task.top_p() > 0 ? task.top_p() : 1;
  request.params.top_k = task.top_k();
  request.params.max_new_tokens = task.max_new_tokens();
  request.params.stop_token_ids = source.stop_token_ids();
  request.params.stop_strings.assign(task.stop().begin(), task.stop().end());
  request.key = {task.seed(), static_cast<uint32_t>(task.purpose()), task.prompt_id(),
                 task.prompt_index(), task.sample_index()};
  generation.policy_version = task.policy_version();
  generation.tokens = request.resume;
  generation.log_probs.assign(task.resume_log_probs().begin(), task.resume_log_probs().end());
  if (generation.log_probs.size() != generation.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("resume_tokens has ", generation.tokens.size(),
                                                   " entries, resume_log_probs ",
                                                   generation.log_probs.size()));
  }
  generation.truncated = engine::Truncates(request.params);
  generation.sampling_log_probs.assign(task.resume_sampling_log_probs().begin(),
                                       task.resume_sampling_log_probs().end());
  if (generation.sampling_log_probs.empty()) generation.sampling_log_probs = generation.log_probs;
  if (generation.sampling_log_probs.size() != generation.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("resume_tokens has ", generation.tokens.size(),
                                                   " entries, resume_sampling_log_probs ",
                                                   generation.sampling_log_probs.size()));
  }
  return generation;
}

void RolloutRole::Generate(std::shared_ptr<TaskContext> context, bool ahead) {
  if (ahead && assigned_->drafter == nullptr) {
    context->Finish(absl::UnimplementedError("this rollout guesses nothing"));
    return;
  }
  const v1::Task& task = context->task();
  auto generation = MakeGeneration(ahead ? task.run_ahead().response() : task.generate());
  if (!generation.ok()) {
    context->Finish(generation.status());
    return;
  }
  generation->ahead = ahead;
  generation->stream = !ahead;
  AskForHistory(ahead ? task.run_ahead().response() : task.generate(), generation->request.prompt,
                assigned_->history.get());
  generation->context = std::move(context);
  assigned_->loop->Add(*std::move(generation));
}

}  // namespace baton::rollout
