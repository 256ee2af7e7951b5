#include "controller/spec/dataflow/check_dataflow.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/algorithms/loss_spec.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/dataflow/score_graph.h"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/schema_spec/spec_fields.h"

namespace baton::controller {
namespace {

// The methods that Baton's own workers serve.
const std::map<std::string, std::set<std::string>>& OwnMethods() {
  static const auto* const methods = new std::map<std::string, std::set<std::string>>{
      {roles::kActor, {"compute_log_prob"}},     {roles::kReward, {"compute_reward"}},
      {roles::kReference, {"compute_log_prob"}}, {roles::kCritic, {"compute_values"}},
      {roles::kCostCritic, {"compute_values"}},  {roles::kRewardModel, {"compute_reward"}},
      {roles::kCost, {"compute_reward"}},        {roles::kJudge, {"compute_reward"}},
  };
  return *methods;
}

class DataflowChecker {
 public:
  DataflowChecker(const v1::JobSpec& spec, const v1::Dataflow& dataflow, Violations* out)
      : spec_(spec), dataflow_(dataflow), own_(spec.has_dataflow()), out_(*out) {}

  void Run() {
    CheckGenerate();
    CheckNames();
    CheckInputs();
    CheckCycle();
    CheckRewards();
    CheckOwnRewards();
    if (spec_.trainer().val_only()) return;  // what training would need does not matter
    CheckAdvantage();
    CheckUpdates();
    CheckSizes();
  }

 private:
  void Fail(const std::string& field, const std::string& description) {
    out_.Add(field, description);
  }
  static std::string Score(int i, absl::string_view field) {
    return absl::StrCat("dataflow.score[", i, "].", field);
  }

  void CheckGenerate() {
    std::set<std::string> seen;
    for (int i = 0; i < dataflow_.generate_size(); ++i) {
      const std::string& purpose = dataflow_.generate(i).purpose();
      const std::string field = absl::StrCat("dataflow.generate[", i, "].purpose");
      if (!seen.insert(purpose).second) {
        Fail(field, absl::StrCat("'", purpose, "' is there twice"));
      }
    }
    if (dataflow_.generate_size() > 0 && seen.count("train") == 0) {
      Fail("dataflow.generate",
           "has no node of purpose 'train'; there would be nothing to train on");
    }
  }

  void CheckNames() {
    std::set<std::string> nodes;
    for (int i = 0; i < dataflow_.score_size(); ++i) {
      const v1::ScoreNode& node = dataflow_.score(i);
      if (node.role() == roles::kRollout || node.role() == roles::kRelay) {
        Fail(Score(i, "role"),
             absl::StrCat("'", node.role(), "' is not a role that scores; one of: ",
                          absl::StrJoin(OwnRoles(), ", "), ", or a role of a worker of your own"));
      }
      if (node.role() == roles::kActor && node.method() != "compute_log_prob" &&
          !node.method().empty()) {
        Fail(Score(i, "method"),
             absl::StrCat("'", node.method(),
                          "' is not a method by which the actor scores; it has: "
                          "compute_log_prob"));
      }
      if (!node.node().empty() && !nodes.insert(node.node()).second) {
        Fail(Score(i, "node"), absl::StrCat("'", node.node(), "' is there twice"));
      }
      CheckOut(i);
    }
  }

  void CheckOut(int i) {
    const std::string& out = dataflow_.score(i).out();
    const auto& given = GeneratedColumns();
    if (out.empty()) return;
    if (std::find(given.begin(), given.end(), out) != given.end() || out == "sampling_log_prob") {
      Fail(Score(i, "out"), absl::StrCat("'", out, "' is made by generation"));
    } else if (out == "advantages" || out == "returns") {
      Fail(Score(i, "out"),
           absl::StrCat("'", out, "' is made by the advantage node",
                        out == "returns" ? "" : "; call it 'advantage', for estimator given"));
    } else if (!made_by_.emplace(out, i).second) {
      Fail(Score(i, "out"), absl::StrCat("'", out, "' is made by node '",
                                         dataflow_.score(made_by_[out]).node(), "' already"));
    }
  }

  // Baton's own reward workers compute what spec.reward describes.
  void CheckOwnRewards() {
    if (!own_ || spec_.reward().rules_size() > 0 || !spec_.reward().command().empty()) return;
    for (int i = 0; i < dataflow_.score_size(); ++i) {
      const v1::ScoreNode& node = dataflow_.score(i);
      if (node.role() != roles::kReward || node.method() != "compute_reward") continue;
      Fail(Score(i, "method"),
           "compute_reward computes the rules of spec.reward and runs its command, and there is "
           "neither; give one, or name the method of a worker of your own");
    }
  }

  static std::vector<std::string> OwnRoles() {
    std::vector<std::string> roles;
    for (const auto& [role, methods] : OwnMethods()) roles.push_back(role);
    return roles;
  }

  void CheckInputs() {
    std::vector<std::string> made = GeneratedColumns();
    for (const auto& [out, node] : made_by_) made.push_back(out);
    for (int i = 0; i < dataflow_.score_size(); ++i) {
      for (int k = 0; k < dataflow_.score(i).inputs_size(); ++k) {
        const std::string& input = dataflow_.score(i).inputs(k);
        if (std::find(made.begin(), made.end(), input) != made.end()) continue;
        Fail(
            absl::StrCat("dataflow.score[", i, "].inputs[", k, "]"),
            absl::StrCat("no node produces '", input, "'; there are: ", absl::StrJoin(made, ", ")));
      }
    }
  }

  // Nodes without open inputs are taken away until none is left, or all that are left wait for one
  // another.
  void CheckCycle() {
    std::set<int> left;
    for (int i = 0; i < dataflow_.score_size(); ++i) left.insert(i);
    const auto open = [&](int i) {
      for (const std::string& input : dataflow_.score(i).inputs()) {
        const auto from = made_by_.find(input);
        if (from != made_by_.end() && left.count(from->second) > 0) return from->second;
      }
      return -1;
    };
    for (bool taken = true; taken;) {
      taken = false;
      for (auto i = left.begin(); i != left.end();) {
        const bool free = open(*i) < 0;
        i = free ? left.erase(i) : std::next(i);
        taken |= free;
      }
    }
    if (left.empty()) return;
    std::vector<std::string> path;
    std::set<int> seen;
    int at = *left.begin();
    for (; seen.insert(at).second; at = open(at)) {
    }  // from here on `at` is in the cycle
    for (const int first = at; path.empty() || at != first; at = open(at)) {
      path.push_back(dataflow_.score(at).node());
    }
    path.push_back(path.front());
    Fail("dataflow.score",
         absl::StrCat("a cycle: ", absl::StrJoin(path, " needs "), "; remove one of these inputs"));
  }

  void CheckRewards() {
    std::map<std::string, double> sources(dataflow_.advantage().rewards().begin(),
                                          dataflow_.advantage().rewards().end());
    if (sources.empty()) sources["reward"] = 1;
    for (const auto& [out, weight] : sources) {
      if (made_by_.count(out) == 0) {
        Fail(own_ ? "dataflow.advantage.rewards" : "reward",
             absl::StrCat("no node makes '", out, "'",
                          sources.size() == 1 ? ", the reward of a response" : "",
                          own_ ? "; add a score node with that `out`"
                               : "; give `reward.rules`, a `command`, a `method` or "
                                 "`reward_model`"));
      }
      if (out == "reward" && sources.size() > 1) {
        Fail("dataflow.advantage.rewards",
             "'reward' is the name of the sum; call this source something else");
      }
    }
  }

  void CheckAdvantage() {
    const v1::AdvantageNode& node = dataflow_.advantage();
    if (own_ && node.estimator().empty()) return;
    const std::string path = own_ ? "dataflow.advantage" : "algorithm";
    const std::string options_path = own_ ? "dataflow.advantage.options" : "algorithm.advantage";
    const auto options = ToOptions(node.options());
    if (!options.ok()) return Fail(options_path, std::string(options.status().message()));
    const auto check = algorithms::CheckEstimator(node.estimator(), *options);
    for (const auto& problem : check.problems) {
      const std::string field = problem.option.empty()
                                    ? path + (own_ ? ".estimator" : ".adv_estimator")
                                    : OptionPath(options_path, problem.option);
      Fail(field, problem.message);
    }
    if (!check.problems.empty()) return;
    for (const std::string& column : check.needs.columns) CheckNeed(path, node.estimator(), column);
    // (With grpo, a single response's advantage is its own reward.)
    const bool alone = node.estimator() == "grpo" || node.estimator() == "dr_grpo";
    if (check.needs.groups && !alone && spec_.rollout().n() == 1) {
      Fail("rollout.n", absl::StrCat("1, but estimator ", node.estimator(),
                                     " compares the responses to a prompt; give at least 2"));
    }
    if (Updates(roles::kCritic) && !check.needs.returns) {
      Fail(path, absl::StrCat("estimator ", node.estimator(),
                              " makes no returns for the critic to learn; use gae, or remove the "
                              "critic's update"));
    }
    if (Updates(roles::kCostCritic) && !check.needs.cost_returns) {
      Fail(OptionPath(options_path, "cost_estimator"),
           absl::StrCat("these options make no cost_returns for the cost critic to learn; give "
                        "use_cost: true and cost_estimator: gae, or ",
                        own_ ? "remove the cost critic's update" : "algorithm.cost_critic: false"));
    }
  }

  bool Updates(absl::string_view role) const {
    return std::any_of(dataflow_.update().begin(), dataflow_.update().end(),
                       [&](const v1::UpdateNode& update) { return update.role() == role; });
  }

  void CheckNeed(const std::string& path, const std::string& estimator, const std::string& column) {
    const auto& given = GeneratedColumns();
    if (made_by_.count(column) > 0 || column == "reward") return;
    if (std::find(given.begin(), given.end(), column) != given.end()) return;
    if (column == "reward_baseline") {
      for (const v1::GenerateNode& node : dataflow_.generate()) {
        if (node.purpose() == "baseline") return;
      }
      return Fail(path, absl::StrCat("estimator ", estimator,
                                     " needs the reward of a greedy "
                                     "response; add {purpose: baseline} to dataflow.generate"));
    }
    const bool of_cost_critic = !own_ && column == "cost_values";
    Fail(path, absl::StrCat("estimator ", estimator, " with these options needs '", column,
                            "', which no score node makes; ",
                            of_cost_critic ? "set algorithm.cost_critic: true" : "add one",
                            ", or change the options"));
  }

  void CheckUpdates() {
    std::set<std::string> roles;
    for (int i = 0; i < dataflow_.update_size(); ++i) {
      const v1::UpdateNode& node = dataflow_.update(i);
      const std::string path = absl::StrCat("dataflow.update[", i, "]");
      if (MayTrain(node.role()) && !roles.insert(node.role()).second) {
        Fail(path + ".role", absl::StrCat("'", node.role(), "' is updated twice in a step"));
      }
      CheckLoss(path, node);
    }
    if (roles.count(roles::kActor) == 0 && dataflow_.update_size() > 0) {
      Fail("dataflow.update", "has no node of role actor");
    }
    for (int i = 0; i < dataflow_.score_size(); ++i) {
      const std::string& role = dataflow_.score(i).role();
      if (!IsCritic(role) || roles.count(role) > 0) continue;
      Fail(Score(i, "role"),
           absl::StrCat("'", role, "' scores, but no update trains it; add {role: ", role,
                        ", method: update, loss: value} to "
                        "dataflow.update, or give the role another name"));
    }
    for (const std::string& role : roles) {
      if (!IsCritic(role) || made_by_.count(ColumnsOf(role).values) > 0) continue;
      Fail("dataflow.update",
           absl::StrCat("the ", role == roles::kCritic ? "critic" : "cost critic",
                        " learns, and no node asks for its values; add the "
                        "score node {role: ",
                        role, ", method: compute_values, out: ", ColumnsOf(role).values, "}"));
    }
  }

  void CheckLoss(const std::string& path, const v1::UpdateNode& node) {
    static const auto* const actor =
        new std::vector<std::string>{"cispo", "gspo", "ppo_clip", "reinforce"};
    static const auto* const critic = new std::vector<std::string>{"value"};
    const auto& losses = IsCritic(node.role()) ? *critic : *actor;
    if (!node.loss().empty() &&
        std::find(losses.begin(), losses.end(), node.loss()) == losses.end()) {
      Fail(path + ".loss",
           absl::StrCat("'", node.loss(), "' is not one of: ", absl::StrJoin(losses, ", ")));
    }
    CheckLossOptions(path, node);
    const auto kl = node.options().fields().find("use_kl_loss");
    if (kl != node.options().fields().end() && kl->second.bool_value() &&
        made_by_.count("ref_log_prob") == 0) {
      Fail(path + ".options.use_kl_loss",
           "needs 'ref_log_prob', which no score node makes; add {role: reference, method: "
           "compute_log_prob, out: ref_log_prob}");
    }
  }

  void CheckLossOptions(const std::string& path, const v1::UpdateNode& node) {
    const std::string options_path = own_ ? path + ".options" : "algorithm.loss";
    const auto options = ToOptions(node.options());
    if (!options.ok()) return Fail(options_path, std::string(options.status().message()));
    const auto check = algorithms::CheckLoss(node.loss(), *options);
    for (const auto& problem : check.problems) {
      if (problem.option.empty()) continue;  // the name: said above
      Fail(OptionPath(options_path, problem.option), problem.message);
    }
    const auto& needs = check.columns;
    if (std::find(needs.begin(), needs.end(), "old_log_prob") != needs.end() &&
        made_by_.count("old_log_prob") == 0) {
      for (const absl::string_view option : RolloutCorrections(check.loss)) {
        Fail(absl::StrCat(options_path, ".", option),
             absl::StrCat("needs 'old_log_prob', which no score node makes; ",
                          own_ ? "add {role: actor, method: compute_log_prob, out: old_log_prob}"
                               : "set algorithm.recompute_log_prob: true",
                          ", or leave it out"));
      }
    }
  }

  // The source of a preset's option: a field of spec.algorithm, or a free option.
  std::string OptionPath(const std::string& options_path, const std::string& option) const {
    const bool field = v1::AlgorithmSpec::descriptor()->FindFieldByName(option) != nullptr;
    return absl::StrCat(!own_ && field ? "algorithm" : options_path, ".", option);
  }

  void CheckSizes() {
    const int64_t batch = spec_.data().train_batch_size();
    const int64_t gen = spec_.data().gen_batch_size();
    if (gen < batch) {
      Fail("data.gen_batch_size", absl::StrCat(gen, " is less than train_batch_size ", batch));
    } else if (gen > batch && !spec_.algorithm().dynamic_sampling()) {
      Fail("data.gen_batch_size", absl::StrCat(gen, " is more than train_batch_size ", batch,
                                               "; that needs algorithm.dynamic_sampling: true"));
    }
    if (spec_.algorithm().dynamic_sampling() && !FiltersGroups()) {
      Fail("algorithm.dynamic_sampling",
           "replaces groups that filter_groups drops; set algorithm.filter_groups: true");
    }
  }

  bool FiltersGroups() const {
    const auto& fields = dataflow_.advantage().options().fields();
    const auto found = fields.find("filter_groups");
    return found != fields.end() && found->second.bool_value();
  }

  const v1::JobSpec& spec_;
  const v1::Dataflow& dataflow_;
  const bool own_;
  Violations& out_;
  std::map<std::string, int> made_by_;
};

// What needs workers that know settings of chat templates; where no setting does, lines do.
std::string FieldOfChatSettings(const v1::JobSpec& effective) {
  if (effective.data().loss_on() == "all_assistant") return "spec.data.loss_on";
  if (effective.reward().with_prompt_suffix()) return "spec.reward.with_prompt_suffix";
  const std::pair<const char*, const v1::ModelSpec*> models[] = {
      {"model", &effective.model()},
      {"critic.model", &effective.critic().model()},
      {"cost_critic.model", &effective.cost_critic().model()},
      {"reference.model", &effective.reference().model()},
      {"reward_model.model", &effective.reward_model().model()},
      {"cost_model.model", &effective.cost_model().model()},
      {"judge.model", &effective.judge().model()}};
  for (const auto& [field, model] : models) {
    if (model->has_chat_template_kwargs() || model->has_chat_template_date()) {
      return absl::StrCat("spec.", field, ".chat_template_",
                          model->has_chat_template_kwargs() ? "kwargs" : "date");
    }
  }
  return "spec.data";
}

}  // namespace

void CheckDataflow(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                   Violations* violations) {
  DataflowChecker(effective, dataflow, violations).Run();
}

std::set<std::string> ForeignRoles(const v1::Dataflow& dataflow) {
  std::set<std::string> foreign;
  for (const v1::ScoreNode& node : dataflow.score()) {
    const auto own = OwnMethods().find(node.role());
    if (own == OwnMethods().end() || own->second.count(node.method()) == 0) {
      foreign.insert(node.role());
    }
  }
  return foreign;
}

std::string FieldOfOffer(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                         const std::string& role, const MissingSupport& missing) {
  if (missing.feature == kRewardRulesFeature) return "spec.reward.rules";
  if (missing.feature == kRewardCommandFeature) return "spec.reward.command";
  if (missing.feature == kChatTemplatesFeature) return "spec.model.chat_template";
  if (missing.feature == kChatSettingsFeature) return FieldOfChatSettings(effective);
  if (missing.feature == kSftEvaluationFeature) return "spec.data.val_files";
  if (missing.feature == kUndecayedNormsFeature) {
    return absl::StrCat("spec.", TrainingPath(role), ".decay_norms_and_biases");
  }
  if (missing.feature == kByteFallbackFeature ||
      absl::StartsWith(missing.feature, kModelFeaturePrefix)) {
    return "spec.model.path";
  }
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const v1::ScoreNode& node = dataflow.score(i);
    if (node.role() != role || node.method() != missing.method) continue;
    if (effective.has_dataflow()) return absl::StrCat("spec.dataflow.score[", i, "].method");
    return role == roles::kReward ? "spec.reward.method" : "spec.algorithm.preset";
  }
  return "spec.resources";
}

}  // namespace baton::controller
