#include "workers/scoring/judge_role.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/messages/settings.h"
#include "sdk/worker/score_output.h"

namespace baton::scoring {
namespace {

using Value = google::protobuf::Value;

/// Lays a node's options over the spec's.
absl::Status ApplyToJudge(const std::string& key, const Value& value, v1::JudgeSpec& spec) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("option ", key, ": expected ", what));
  };
  const bool number = value.kind_case() == Value::kNumberValue;
  const bool text = value.kind_case() == Value::kStringValue;
  if (key == "out") return absl::OkStatus();
  if (key == "template" || key == "verdict") {
    if (!text) return wrong("a string");
    key == "template" ? spec.set_template_(value.string_value())
                      : spec.set_verdict(value.string_value());
  } else if (key == "neutral" || key == "max_new_tokens") {
    if (!number) return wrong("a number");
    key == "neutral" ? spec.set_neutral(value.number_value())
                     : spec.set_max_new_tokens(static_cast<int>(value.number_value()));
  } else if (key == "verdicts") {
    if (value.kind_case() != Value::kStructValue) return wrong("a map of verdicts to numbers");
    spec.clear_verdicts();
    for (const auto& [verdict, worth] : value.struct_value().fields()) {
      if (worth.kind_case() != Value::kNumberValue) return wrong("a map of verdicts to numbers");
      (*spec.mutable_verdicts())[verdict] = worth.number_value();
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "option ", key, ": the judge has template, verdict, verdicts, neutral and max_new_tokens"));
  }
  return absl::OkStatus();
}

v1::TaskResult MakeResult(const v1::Score& score, const reward::Verdict::Reading& reading) {
  v1::TaskResult result;
  (*result.mutable_metrics())["unreadable"] = reading.readable ? 0 : 1;
  (*result.mutable_metrics())[OutputName(score, "reward")] = reading.worth;
  return result;
}

}  // namespace

JudgeRole::JudgeRole(ranks::ModelRoleOptions options) : options_(std::move(options)) {}
JudgeRole::~JudgeRole() = default;

absl::Status JudgeRole::Register(Worker& worker) {
  RoleOptions role;
  role.on_assign = [this](const v1::Task& task, TaskContext&) {
    return Assign(task.assign_role());
  };
  role.on_release = [this](const std::string&) { assigned_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("judge", std::move(role)));
  return worker.RegisterAsyncMethod(
      "judge", "compute_reward", options_.credits,
      [this](std::shared_ptr<TaskContext> context) { Compute(std::move(context)); });
}

absl::StatusOr<v1::TaskResult> JudgeRole::Assign(const v1::AssignRole& assign) {
  assigned_.reset();
  if (assign.world_size() > 1) {
    return absl::UnimplementedError(absl::StrCat(
        "groups of ", assign.world_size(),
        " ranks for role judge: it generates, and this worker plays it alone; set its tp to 1 and "
        "give it more workers"));
  }
  auto assigned = std::make_unique<Assigned>();
  assigned->spec = assign.spec().judge();
  assigned->with_suffix = assign.spec().reward().with_prompt_suffix();
  auto source = policy::PolicySource::Open(assigned->spec.model(), "");
  if (!source.ok()) return Annotate(source.status(), "spec.judge");
  assigned->source = *std::move(source);
  if (const auto node = NodeOf(*assigned, v1::Score()); !node.ok()) {
    return Annotate(node.status(), "spec.judge");
  }
  BATON_ASSIGN_OR_RETURN(
      assigned->model,
      assigned->source->LoadModel(assigned->source->dtype(), torch::Device(options_.device), 0));
  engine::GeneratorOptions options;
  if (assign.spec().rollout().max_num_seqs() > 0) {
    options.max_num_seqs = assign.spec().rollout().max_num_seqs();
  }
  if (assign.spec().rollout().deterministic()) {
    options.deterministic = true;
    assigned->model->SetDeterministic(true);
  }
  auto generator = engine::Generator::Create(assigned->model.get(), nullptr, options);
  if (!generator.ok()) return Annotate(generator.status(), "spec.judge");
  assigned->generator = *std::move(generator);
  assigned->loop = std::make_unique<rollout::GeneratorLoop>(
      [raw = assigned.get()](const rollout::Generation& generation, const std::string&) {
        return Judge(*raw, generation);
      });
  BATON_RETURN_IF_ERROR(assigned->loop->LoadWeights(0, [&] { return assigned->generator.get(); }));
  Log(LogLevel::kInfo, "judge is ready",
      {{"parameters", assigned->source->config().NumParameters()}});
  assigned_ = std::move(assigned);
  return v1::TaskResult();
}

absl::StatusOr<std::shared_ptr<const JudgeRole::Node>> JudgeRole::NodeOf(Assigned& assigned,
                                                                         const v1::Score& score) {
  // Sorted, so that equal options are one key.
  const std::map<std::string, Value> options(score.options().fields().begin(),
                                             score.options().fields().end());
  std::string key;
  for (const auto& [name, value] : options) {
    absl::StrAppend(&key, name, "=", value.ShortDebugString(), ";");
  }
  absl::MutexLock lock(&assigned.mu);
  std::shared_ptr<const Node>& known = assigned.nodes[key];
  if (known != nullptr) return known;
  v1::JudgeSpec spec = assigned.spec;
  for (const auto& [name, value] : options) BATON_RETURN_IF_ERROR(ApplyToJudge(name, value, spec));
  if (spec.has_max_new_tokens() && spec.max_new_tokens() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_new_tokens: ", spec.max_new_tokens(), " is not at least 1"));
  }
  auto node = std::make_shared<Node>();
  reward::VerdictOptions verdict = {spec.template_(), spec.verdict(), {}, spec.neutral()};
  verdict.worth.insert(spec.verdicts().begin(), spec.verdicts().end());
  BATON_ASSIGN_OR_RETURN(node->verdict, reward::Verdict::Create(verdict));
  node->max_new_tokens = WithDefaults(spec).max_new_tokens();
  known = node;
  return known;
}

absl::StatusOr<policy::Prompt> JudgeRole::Question(const policy::PolicySource& source,
                                                   const reward::Verdict& verdict,
                                                   const v1::Trajectory& trajectory,
                                                   bool with_suffix) {
  tokenizer::RenderedText question;
  const std::string response =
      absl::StrCat(with_suffix ? trajectory.prompt_suffix() : "", trajectory.response_text());
  for (const auto& part : verdict.Question(trajectory.prompt_text(), response, trajectory.answer(),
                                           trajectory.prompt_suffix())) {
    part.is_template ? question.AddTemplate(part.text) : question.AddContent(part.text);
  }
  return source.RenderQuestion(question);
}

absl::StatusOr<rollout::Generation> JudgeRole::Ask(const v1::Trajectory& trajectory,
                                                   const Node& node) const {
  const policy::PolicySource& source = *assigned_->source;
  rollout::Generation generation;
  generation.stream = false;
  BATON_ASSIGN_OR_RETURN(const policy::Prompt question,
                         Question(source, *node.verdict, trajectory, assigned_->with_suffix));
  generation.prompt_text = question.text.text();
  engine::GenerateRequest& request = generation.request;
  BATON_ASSIGN_OR_RETURN(request.prompt, source.EncodePrompt(question, 0));
  const int64_t room = source.config().positions() - static_cast<int64_t>(request.prompt.size());
  if (room < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the question has ", request.prompt.size(),
                                                   " tokens; the judge reads ",
                                                   source.config().positions()));
  }
  request.params.temperature = 0;
  request.params.max_new_tokens = std::min(node.max_new_tokens, room);
  request.params.stop_token_ids = source.stop_token_ids();
  return generation;
}

void JudgeRole::Compute(std::shared_ptr<TaskContext> context) {
  const v1::Score& score = context->task().score();
  const auto node = NodeOf(*assigned_, score);
  if (!node.ok()) {
    context->Finish(node.status());
    return;
  }
  auto generation = Ask(score.trajectory(), **node);
  if (!generation.ok()) {
    Log(LogLevel::kWarn, "a response cannot be judged",
        {{"job", context->task().job()},
         {"trajectory", score.trajectory().trajectory_id()},
         {"reason", ReplaceInvalidUtf8(generation.status().message())}});
    context->Finish(MakeResult(score, (*node)->verdict->Unreadable()));
    return;
  }
  generation->context = std::move(context);
  assigned_->loop->Add(*std::move(generation));
}

v1::TaskResult JudgeRole::Judge(Assigned& assigned, const rollout::Generation& generation) {
  const v1::Score& score = generation.context->task().score();
  const auto node = NodeOf(assigned, score);
  if (!node.ok()) return MakeResult(score, {assigned.spec.neutral(), false});
  return MakeResult(score,
                    (*node)->verdict->Read(assigned.source->tokenizer().Decode(generation.tokens)));
}

}  // namespace baton::scoring
