#include "sdk/cli/plan_problem.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "sdk/client/nearest.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;
using placement::ModelConfig;

const char* const kRoles[] = {"actor",        "critic", "reference",
                              "reward_model", "cost",   "cost_critic"};

bool HasScalarHead(const std::string& role) {
  return role == "critic" || role == "cost_critic" || role == "reward_model" || role == "cost";
}

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const ModelConfig& model : placement::KnownModels()) names.push_back(model.name);
  return names;
}

// "Qwen2.5-7B-Instruct" -> "qwen2.5-7b".
std::string CommonName(const fs::path& path) {
  std::string name = absl::AsciiStrToLower(path.filename().string());
  for (const char* suffix : {"-instruct", "-chat", "-hf", "-chat-hf", "-base"}) {
    name = std::string(absl::StripSuffix(name, suffix));
  }
  return name;
}

absl::StatusOr<ModelConfig> ReadConfig(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat(file.string(), " cannot be opened"));
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file.string(), " is not a JSON object"));
  }
  const auto number = [&](const char* key, int64_t otherwise) {
    const auto at = json.find(key);
    return at != json.end() && at->is_number_integer() ? at->get<int64_t>() : otherwise;
  };
  const auto flag = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_boolean() && at->get<bool>();
  };
  ModelConfig m;
  m.name = fs::absolute(file).parent_path().filename().string();
  m.hidden = number("hidden_size", 0);
  m.layers = number("num_hidden_layers", 0);
  m.heads = number("num_attention_heads", 0);
  m.kv_heads = number("num_key_value_heads", m.heads);
  m.head_size = number("head_dim", 0);
  m.intermediate = number("intermediate_size", 0);
  m.vocabulary = number("vocab_size", 0);
  m.tied = flag("tie_word_embeddings");
  const auto type = json.find("model_type");
  m.qkv_bias = (type != json.end() && *type == "qwen2") || flag("attention_bias");
  const std::string fault = placement::Fault(m);
  if (fault.empty()) return m;
  return absl::InvalidArgumentError(
      absl::StrCat(file.string(), ": ", fault, "; it must be a decoder's config.json"));
}

ModelConfig OfInit(const v1::ModelInitSpec& init) {
  ModelConfig m;
  m.name = "random weights";
  m.hidden = init.has_hidden_size() ? init.hidden_size() : 128;
  m.intermediate =
      init.has_intermediate_size() ? init.intermediate_size() : (4 * m.hidden + 7) / 8 * 8;
  m.layers = init.has_num_hidden_layers() ? init.num_hidden_layers() : 2;
  m.heads = init.has_num_attention_heads() ? init.num_attention_heads() : 4;
  m.kv_heads = init.has_num_key_value_heads() ? init.num_key_value_heads() : m.heads;
  m.vocabulary = 2;  // <pad> and <eos>
  for (const char c : init.characters()) {
    m.vocabulary += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  m.tied = !init.has_tie_word_embeddings() || init.tie_word_embeddings();
  return m;
}

const v1::ModelSpec& ModelOf(const v1::JobSpec& spec, const std::string& role) {
  const auto own = [&](bool given, const v1::ModelSpec& model) -> const v1::ModelSpec& {
    return given && (model.has_path() || model.has_init()) ? model : spec.model();
  };
  if (role == "critic") return own(spec.critic().has_model(), spec.critic().model());
  if (role == "cost_critic") return own(spec.cost_critic().has_model(), spec.cost_critic().model());
  if (role == "reference") return own(spec.reference().has_model(), spec.reference().model());
  if (role == "reward_model") {
    return own(spec.reward_model().has_model(), spec.reward_model().model());
  }
  if (role == "cost") return own(spec.cost_model().has_model(), spec.cost_model().model());
  return spec.model();
}

// The model that the spec gives to a role.
absl::StatusOr<ModelConfig> ResolveModel(const PlanInput& input, const std::string& role) {
  const v1::ModelSpec& model = ModelOf(input.spec, role);
  if (!model.has_path()) {
    if (model.has_init()) return OfInit(model.init());
    return absl::InvalidArgumentError(
        absl::StrCat("role ", role, " has no model; give --models ", role, "=NAME (",
                     absl::StrJoin(KnownNames(), ", "), ") or `model.path` in the spec"));
  }
  const fs::path path = fs::path(model.path()).is_absolute()
                            ? fs::path(model.path())
                            : fs::path(input.folder) / model.path();
  std::error_code code;
  if (fs::is_regular_file(path / "config.json", code)) return ReadConfig(path / "config.json");
  if (const ModelConfig* known = placement::FindModel(CommonName(path))) return *known;
  return absl::NotFoundError(absl::StrCat("role ", role, ": model.path ", model.path(),
                                          " has no config.json on this machine; give --models ",
                                          role, "=NAME (", absl::StrJoin(KnownNames(), ", "),
                                          ") or =DIRECTORY"));
}

// --models: role -> name or path; "" for all others.
absl::StatusOr<std::map<std::string, std::string>> GivenModels(
    const std::vector<std::string>& models, const std::vector<std::string>& roles) {
  std::map<std::string, std::string> out;
  for (const std::string& text : models) {
    const size_t equals = text.find('=');
    const std::string role = equals == std::string::npos ? "" : text.substr(0, equals);
    if (!role.empty() && std::find(roles.begin(), roles.end(), role) == roles.end()) {
      const std::string* nearest = Nearest(role, roles);
      return absl::InvalidArgumentError(absl::StrCat(
          "--models ", text, ": the job has no role '", role, "'",
          nearest != nullptr ? absl::StrCat("; did you mean '", *nearest, "'?")
                             : absl::StrCat("; it has: ", absl::StrJoin(roles, ", "))));
    }
    out[role] = text.substr(equals == std::string::npos ? 0 : equals + 1);
  }
  return out;
}

bool UsesKlInReward(const v1::AlgorithmSpec& algorithm, const std::string& preset) {
  const auto& options = algorithm.advantage().fields();
  const auto given = options.find("use_kl_in_reward");
  if (given != options.end()) return given->second.bool_value();
  static const auto* const presets =
      new std::set<std::string>{"ppo", "rloo", "reinforce_plus_plus", "safe_rlhf"};
  return presets->count(preset) > 0;
}

// Roles of the graph that the preset makes (docs/algorithms.md).
std::set<std::string> PresetRoles(const v1::JobSpec& spec) {
  const std::string preset =
      spec.algorithm().has_preset() ? spec.algorithm().preset() : std::string("grpo");
  std::set<std::string> roles = {"actor"};
  if (preset == "ppo" || preset == "safe_rlhf" || preset == "vapo") roles.insert("critic");
  if (preset == "safe_rlhf") roles.insert("cost");
  if (preset == "safe_rlhf" && spec.algorithm().cost_critic()) roles.insert("cost_critic");
  if (preset == "fapo" || spec.has_judge()) roles.insert("judge");
  if (spec.has_reward_model()) roles.insert("reward_model");
  if (spec.has_reference() || spec.algorithm().use_kl_loss() ||
      UsesKlInReward(spec.algorithm(), preset)) {
    roles.insert("reference");
  }
  return roles;
}

std::set<std::string> AllRoles(const v1::JobSpec& spec) {
  if (spec.kind() != v1::JOB_KIND_RL && spec.kind() != v1::JOB_KIND_UNSPECIFIED) return {"actor"};
  if (!spec.has_dataflow()) return PresetRoles(spec);
  std::set<std::string> roles;
  for (const v1::ScoreNode& node : spec.dataflow().score()) roles.insert(node.role());
  for (const v1::UpdateNode& node : spec.dataflow().update()) roles.insert(node.role());
  return roles;
}

// It computes the log-probs of what it generated once more.
bool ActorScores(const v1::JobSpec& spec) {
  if (!spec.has_dataflow()) return spec.algorithm().recompute_log_prob();
  return std::any_of(spec.dataflow().score().begin(), spec.dataflow().score().end(),
                     [](const v1::ScoreNode& node) { return node.role() == "actor"; });
}

placement::Workload MakeWorkload(const v1::JobSpec& spec) {
  const bool rl = spec.kind() == v1::JOB_KIND_RL || spec.kind() == v1::JOB_KIND_UNSPECIFIED;
  const v1::DataSpec& data = spec.data();
  const int64_t prompts = data.has_train_batch_size() ? data.train_batch_size() : 32;
  const int64_t drawn = data.gen_batch_size() > 0 ? data.gen_batch_size() : prompts;
  const int64_t n = spec.kind() == v1::JOB_KIND_REWARD_MODEL ? 2  // a pair
                    : !rl                                    ? 1
                    : spec.rollout().has_n()                 ? spec.rollout().n()
                                                             : 8;
  const bool baseline = rl && spec.algorithm().preset() == "remax";
  placement::Workload w;
  w.generated = drawn * (n + (baseline ? 1 : 0));
  w.sequences = prompts * n;
  w.prompt_tokens = data.has_max_prompt_length() ? data.max_prompt_length() : 1024;
  w.response_tokens = data.has_max_response_length() ? data.max_response_length() : 1024;
  w.mini_batch = spec.actor().ppo_mini_batch_size() > 0
                     ? std::min<int64_t>(spec.actor().ppo_mini_batch_size(), w.sequences)
                     : w.sequences;
  w.epochs = spec.actor().has_ppo_epochs() ? spec.actor().ppo_epochs() : 1;
  w.bytes = spec.model().dtype() == "bfloat16" ? 2 : 4;
  return w;
}

}  // namespace

const char kDefaultPlanSpec[] =
    "kind: rl\n"
    "model: {dtype: bfloat16}\n"
    "data: {train_batch_size: 1024, max_prompt_length: 1024, max_response_length: 1024}\n"
    "rollout: {n: 1}\n"
    "algorithm: {preset: ppo}\n"
    "actor: {ppo_mini_batch_size: 128}\n"
    "reference: {}\n"
    "reward_model: {}\n";

std::vector<std::string> ModelRoles(const v1::JobSpec& spec) {
  const std::set<std::string> all = AllRoles(spec);
  std::vector<std::string> out;
  for (const char* role : kRoles) {
    if (all.count(role) > 0) out.emplace_back(role);
  }
  return out;
}

absl::StatusOr<ModelConfig> ReadModel(const std::string& name_or_path) {
  if (const ModelConfig* known = placement::FindModel(absl::AsciiStrToLower(name_or_path))) {
    return *known;
  }
  const fs::path path = name_or_path;
  std::error_code code;
  if (fs::is_directory(path, code)) return ReadConfig(path / "config.json");
  if (fs::is_regular_file(path, code)) return ReadConfig(path);
  const std::vector<std::string> names = KnownNames();
  const std::string* nearest = Nearest(name_or_path, names);
  return absl::NotFoundError(
      absl::StrCat("there is no model '", name_or_path, "'",
                   nearest != nullptr ? absl::StrCat("; did you mean '", *nearest, "'?")
                                      : absl::StrCat("; give a Hugging Face directory or one of: ",
                                                     absl::StrJoin(KnownNames(), ", "))));
}

absl::StatusOr<PlanProblem> MakePlanProblem(const PlanInput& input) {
  PlanProblem out;
  const bool rl =
      input.spec.kind() == v1::JOB_KIND_RL || input.spec.kind() == v1::JOB_KIND_UNSPECIFIED;
  const std::vector<std::string> roles = ModelRoles(input.spec);
  if (roles.empty()) {
    return absl::InvalidArgumentError(
        "the job has no role with a model; its dataflow needs an "
        "update node of role actor");
  }
  auto given = GivenModels(input.models, roles);
  if (!given.ok()) return given.status();
  for (const std::string& name : roles) {
    auto text = given->find(name);
    if (text == given->end()) text = given->find("");
    absl::StatusOr<ModelConfig> model =
        text == given->end() ? ResolveModel(input, name) : ReadModel(text->second);
    if (!model.ok()) return model.status();
    placement::Role role;
    role.name = name;
    role.model = *std::move(model);
    role.model.scalar_head = HasScalarHead(name) || input.spec.kind() == v1::JOB_KIND_REWARD_MODEL;
    role.generates = rl && name == "actor";
    role.scores = rl && (name != "actor" || ActorScores(input.spec));
    role.trains = name == "actor" || name == "critic" || name == "cost_critic";
    out.problem.roles.push_back(std::move(role));
  }
  for (const std::string& role : AllRoles(input.spec)) {
    if (std::find(roles.begin(), roles.end(), role) != roles.end()) continue;
    if (role == "reward") continue;  // rules and commands
    out.notes.push_back(
        absl::StrCat("role ", role, " is not in the plan; give it devices of its own"));
  }
  out.problem.setting.workload = MakeWorkload(input.spec);
  return out;
}

}  // namespace baton::cli
