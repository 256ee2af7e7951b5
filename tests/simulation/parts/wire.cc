#include "tests/simulation/parts/wire.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "controller/core/job/trajectory.h"
#include "sdk/common/rpc/error.h"
#include "tests/simulation/parts/random.h"

namespace baton::simulation {

using controller::TaskKind;

namespace {

constexpr uint32_t kPromptTokens = 2;
constexpr char kExamplePrefix[] = "example ";

template <typename T>
void PutColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
               const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(dtype);
  column.set_per_token(true);
  column.set_data(values.data(), values.size() * sizeof(T));
}

std::vector<int32_t> TokensOf(uint64_t content, uint32_t count) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(TokenAt(content, i));
  return tokens;
}

std::string TextOfResponse(const Payload& response) {
  return absl::StrCat(response.weights, " ", response.version, " ", response.branch, " ",
                      response.content, " ", response.tokens);
}

bool ReadText(const std::string& text, Payload* out) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  return parts.size() == 5 && absl::SimpleAtoi(parts[0], &out->weights) &&
         absl::SimpleAtoi(parts[1], &out->version) && absl::SimpleAtoi(parts[2], &out->branch) &&
         absl::SimpleAtoi(parts[3], &out->content) && absl::SimpleAtoi(parts[4], &out->tokens);
}

// Reads a name that controller::TrajectoryName made.
bool ReadName(absl::string_view name, v1::Purpose purpose, uint64_t* id) {
  uint64_t ordinal = 0;
  const size_t dash = name.find('-');
  if (dash == absl::string_view::npos || !absl::SimpleAtoi(name.substr(dash + 1), &ordinal)) {
    return false;
  }
  *id = controller::TrajectoryId(purpose, ordinal, 0, 1);
  return controller::TrajectoryName(*id) == name;
}

// The column that a method makes.
const char* ColumnOf(const TaskMessage& task) {
  if (task.role == "critic") return "values";
  return task.role == "actor" ? "old_log_prob" : "ref_log_prob";
}

void ReadGenerate(const v1::Generate& generate, TaskMessage* out) {
  out->trajectory.purpose = generate.purpose();
  out->trajectory.prompt_index = generate.prompt_index();
  out->prompt = generate.prompt_id();
  out->sample = generate.sample_index();
  out->policy_version = generate.policy_version();
  out->resume.assign(generate.resume_tokens().begin(), generate.resume_tokens().end());
  out->draft.assign(generate.draft_tokens().begin(), generate.draft_tokens().end());
}

void ReadAssign(const v1::AssignRole& assign, TaskMessage* out) {
  out->spec = assign.spec();
  out->rank = static_cast<uint32_t>(assign.rank());
  out->policy_version = assign.policy_version();
  out->hybrid = assign.generation_tp() > 0;
  if (!assign.checkpoint().empty()) out->checkpoint = assign.step();
}

void ReadUpdate(const v1::Update& update, TaskMessage* out) {
  out->step = update.step();
  out->batch = update.batch_id();
  out->capability = update.capability();
  out->batch_size = static_cast<uint32_t>(update.batch_size());
  out->policy_version = update.policy_version();
}

// Reads the message to a method that reads tokens alone: no text, and the columns of prompt and
// response.
std::optional<Payload> ReadTokens(const v1::Trajectory& trajectory) {
  Payload out;
  out.purpose = trajectory.purpose();
  out.version = trajectory.policy_version();
  if (!ReadName(trajectory.trajectory_id(), trajectory.purpose(), &out.id)) return std::nullopt;
  if (trajectory.columns_size() != 2 || !trajectory.response_text().empty()) return std::nullopt;
  const v1::Column &prompt = trajectory.columns(0), &response = trajectory.columns(1);
  if (prompt.name() != "prompt_tokens" || response.name() != "tokens") return std::nullopt;
  out.tokens = static_cast<uint32_t>(response.data().size() / sizeof(int32_t));
  return out;
}

}  // namespace

int32_t TokenAt(uint64_t content, uint32_t position) {
  return static_cast<int32_t>(Mix(content, position) & 0x7fffffff);
}

baton::Example DataExample(uint64_t prompt) {
  baton::Example example;
  example.prompt = absl::StrCat("prompt ", prompt);
  example.answer = absl::StrCat("answer ", prompt);
  example.response = absl::StrCat(kExamplePrefix, prompt);
  return example;
}

std::optional<TaskMessage> ReadTask(const v1::Task& task) {
  TaskMessage out;
  out.token = task.task_token();
  out.job = task.job();
  out.role = task.role();
  out.method = task.method();
  const auto token = controller::DecodeToken(task.task_token());
  if (!token.has_value()) return std::nullopt;
  out.kind = token->ref.kind;
  out.group_epoch = task.order().group_epoch();
  out.sequence = task.order().sequence();
  out.trajectory.id = token->ref.subject;
  if (task.has_assign_role()) ReadAssign(task.assign_role(), &out);
  if (task.has_generate()) {
    if (task.generate().prompt() != DataExample(task.generate().prompt_id()).prompt) {
      return std::nullopt;
    }
    ReadGenerate(task.generate(), &out);
  }
  if (task.has_run_ahead()) ReadGenerate(task.run_ahead().response(), &out);
  if (task.has_update()) ReadUpdate(task.update(), &out);
  if (task.has_load_weights()) out.policy_version = task.load_weights().policy_version();
  if (task.has_publish()) {
    out.policy_version = task.publish().policy_version();
    out.keep_versions.assign(task.publish().keep_versions().begin(),
                             task.publish().keep_versions().end());
  }
  if (task.has_to_generation()) out.policy_version = task.to_generation().policy_version();
  if (task.has_save_checkpoint()) {
    out.step = task.save_checkpoint().step();
    out.policy_version = task.save_checkpoint().policy_version();
    out.directory = task.save_checkpoint().directory();
  }
  if (task.has_score()) {
    const auto payload = task.role() == "reward" ? ReadPayload(task.score().trajectory())
                                                 : ReadTokens(task.score().trajectory());
    if (!payload.has_value() || payload->id != token->ref.subject) return std::nullopt;
    out.trajectory = *payload;
  }
  return out;
}

v1::TaskResult MakeResult(const TaskMessage& task, const Result& result) {
  v1::TaskResult out;
  out.set_task_token(task.token);
  *out.mutable_status() = ToProto(result.status);
  if (!result.status.ok()) return out;
  if (!result.file.empty()) out.add_files()->set_path(result.file);
  if (task.kind == TaskKind::kGenerate || task.kind == TaskKind::kRunAhead) {
    const Payload& response = result.payload;
    if (task.kind == TaskKind::kRunAhead) {
      (*out.mutable_metrics())["tokens"] = static_cast<double>(response.tokens);
    }
    PutColumn(out, "prompt_tokens", v1::DATA_TYPE_INT32,
              std::vector<int32_t>(kPromptTokens, static_cast<int32_t>(task.prompt)));
    PutColumn(out, "tokens", v1::DATA_TYPE_INT32, TokensOf(response.content, response.tokens));
    PutColumn(out, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, std::vector<float>(response.tokens));
    out.set_response_text(TextOfResponse(response));
    out.set_prompt_text(DataExample(task.prompt).prompt);
    out.set_finish_reason(result.stopped ? "cancelled" : "stop");
    if (result.accepted >= 0) {
      (*out.mutable_metrics())["draft_accepted"] = static_cast<double>(result.accepted);
    }
  } else if (task.kind == TaskKind::kScore && task.role != "reward") {
    PutColumn(out, ColumnOf(task), v1::DATA_TYPE_FLOAT32,
              std::vector<float>(task.trajectory.tokens));
  } else if (task.kind == TaskKind::kScore) {
    out.set_error(result.error);
    out.set_infra_failed(!result.error.empty());
    if (result.error.empty()) (*out.mutable_metrics())["reward"] = result.reward;
  }
  return out;
}

v1::Progress MakeProgress(const std::string& token, uint64_t content, uint32_t offset,
                          uint32_t count) {
  v1::Progress out;
  out.set_task_token(token);
  out.set_offset(offset);
  for (uint32_t i = 0; i < count; ++i) {
    out.add_tokens(TokenAt(content, offset + i));
    out.add_log_probs(0);
  }
  return out;
}

std::optional<Payload> ReadPayload(const v1::Trajectory& trajectory) {
  Payload out;
  absl::string_view group = trajectory.group_id();
  uint64_t id = 0, number = 0;
  if (!ReadName(trajectory.trajectory_id(), trajectory.purpose(), &id)) return std::nullopt;
  if (!absl::ConsumePrefix(&group, "group-") || !absl::SimpleAtoi(group, &number)) {
    return std::nullopt;
  }
  if (trajectory.prompt_text() != DataExample(trajectory.prompt_id()).prompt) return std::nullopt;
  if (trajectory.response_text() == DataExample(trajectory.prompt_id()).response) {
    out = Example(number, trajectory.prompt_id());
    out.id = id;
    return out;
  }
  if (!ReadText(trajectory.response_text(), &out)) return std::nullopt;
  out.id = id;
  out.purpose = trajectory.purpose();
  out.prompt_index = number;
  out.reward = RewardIn(out.content);
  const std::vector<int32_t> tokens = TokensOf(out.content, out.tokens);
  for (const v1::Column& column : trajectory.columns()) {
    if (column.name() != "tokens") continue;
    const std::string bytes(reinterpret_cast<const char*>(tokens.data()),
                            tokens.size() * sizeof(int32_t));
    if (column.data() == bytes) return out;
  }
  return std::nullopt;
}

}  // namespace baton::simulation
