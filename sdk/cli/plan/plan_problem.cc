#include "sdk/cli/plan/plan_problem.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/nearest.h"
#include "sdk/planner/placement_spec/model_files.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;
using placement::PlannedModel;

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const PlannedModel& model : placement::KnownModels()) names.push_back(model.name);
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

// The model that the spec gives to a role.
absl::StatusOr<PlannedModel> ResolveModel(const PlanInput& input, const std::string& role,
                                          const v1::ModelSpec& model) {
  if (!model.has_path()) {
    if (model.has_init()) return placement::ModelOfInit(model.init());
    return absl::InvalidArgumentError(
        absl::StrCat("role ", role, " has no model; give --models ", role, "=NAME (",
                     absl::StrJoin(KnownNames(), ", "), ") or `model.path` in the spec"));
  }
  const fs::path path = fs::path(model.path()).is_absolute()
                            ? fs::path(model.path())
                            : fs::path(input.folder) / model.path();
  std::error_code code;
  if (fs::is_regular_file(path / "config.json", code))
    return placement::ReadModelFile((path / "config.json").string());
  if (const PlannedModel* known = placement::FindModel(CommonName(path))) return *known;
  const bool of_job = absl::StartsWith(model.path(), "job:");
  return absl::NotFoundError(
      absl::StrCat("role ", role, ": model.path ", model.path(),
                   of_job ? " is a job's model, and `plan` asks no controller; give --models "
                          : " has no config.json on this machine; give --models ",
                   role, "=NAME (", absl::StrJoin(KnownNames(), ", "), ") or =DIRECTORY",
                   of_job ? ", such as what `baton export` writes" : ""));
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

absl::StatusOr<PlannedModel> ReadModel(const std::string& name_or_path) {
  if (const PlannedModel* known = placement::FindModel(absl::AsciiStrToLower(name_or_path))) {
    return *known;
  }
  const fs::path path = name_or_path;
  std::error_code code;
  if (fs::is_directory(path, code))
    return placement::ReadModelFile((path / "config.json").string());
  if (fs::is_regular_file(path, code)) return placement::ReadModelFile(path.string());
  const std::vector<std::string> names = KnownNames();
  const std::string* nearest = Nearest(name_or_path, names);
  return absl::NotFoundError(
      absl::StrCat("there is no model '", name_or_path, "'",
                   nearest != nullptr ? absl::StrCat("; did you mean '", *nearest, "'?")
                                      : absl::StrCat("; give a Hugging Face directory or one of: ",
                                                     absl::StrJoin(KnownNames(), ", "))));
}

absl::StatusOr<placement::SpecProblem> MakePlanProblem(const PlanInput& input) {
  const std::vector<std::string> roles = placement::ModelRoles(input.spec);
  auto given = GivenModels(input.models, roles);
  if (!given.ok()) return given.status();
  return placement::ProblemOf(input.spec, [&](const std::string& role, const v1::ModelSpec& model) {
    auto text = given->find(role);
    if (text == given->end()) text = given->find("");
    return text == given->end() ? ResolveModel(input, role, model) : ReadModel(text->second);
  });
}

}  // namespace baton::cli
