#include "sdk/client/spec_warnings.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sdk/common/schema/kl_type.h"

namespace baton {
namespace {

// The unit in which the size of an optimizer step is counted.
const char* UnitOf(v1::JobKind kind) {
  return kind == v1::JOB_KIND_REWARD_MODEL ? "pairs" : "sequences";
}

void CheckMiniBatch(const std::string& section, const v1::ActorSpec& training,
                    const v1::JobSpec& spec, std::vector<std::string>* warnings) {
  const int64_t mini_batch = training.ppo_mini_batch_size();
  const bool rl = spec.kind() == v1::JOB_KIND_RL;
  const int64_t n = rl ? std::max(1, spec.rollout().n()) : 1;
  const int64_t batch = spec.data().train_batch_size() * n;
  if (mini_batch <= 0 || batch <= 0 || batch % mini_batch == 0) return;
  const std::string size = rl ? absl::StrCat("data.train_batch_size ",
                                             spec.data().train_batch_size(), " x rollout.n ", n)
                              : "data.train_batch_size";
  const std::string effect =
      mini_batch > batch
          ? "each step makes one update"
          : absl::StrCat("the last update of a step learns from ", batch % mini_batch);
  warnings->push_back(
      absl::StrCat(section, ".ppo_mini_batch_size: ", mini_batch, " ", UnitOf(spec.kind()),
                   " do not divide the ", batch, " of a step (", size, "), so ", effect,
                   rl ? absl::StrCat(". It counts sequences; verl counts prompts, so what is ",
                                     mini_batch, " there is ", mini_batch * n, " here")
                      : ""));
}

void CheckKl(int index, const v1::UpdateNode& node, const v1::JobSpec& spec,
             std::vector<std::string>* warnings) {
  if (node.role() != "actor" || spec.kind() != v1::JOB_KIND_RL) return;
  const auto& options = node.options().fields();
  const auto used = options.find("use_kl_loss");
  const auto type = options.find("kl_loss_type");
  if (!(used != options.end() ? used->second.bool_value() : spec.algorithm().use_kl_loss())) return;
  const std::string name =
      type != options.end() ? type->second.string_value() : spec.algorithm().kl_loss_type();
  const auto kl = ParseKlType(name);
  if (!kl || kl->estimate != KlType::kK1 || kl->straight_through) return;
  const std::string path = spec.has_dataflow()
                               ? absl::StrCat("dataflow.update[", index, "].options.kl_loss_type")
                               : "algorithm.kl_loss_type";
  warnings->push_back(absl::StrCat(
      path, ": the gradient of ", name,
      " is zero in expectation, so the term adds noise and holds nothing back; use k1+ or k3+ "
      "(the gradient of k2), k2 or k3"));
}

}  // namespace

std::vector<std::string> SpecWarnings(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  std::vector<std::string> warnings;
  CheckMiniBatch("actor", effective.actor(), effective, &warnings);
  if (effective.has_critic()) {
    CheckMiniBatch("critic.train", effective.critic().train(), effective, &warnings);
  }
  if (effective.has_cost_critic()) {
    CheckMiniBatch("cost_critic.train", effective.cost_critic().train(), effective, &warnings);
  }
  for (int i = 0; i < dataflow.update_size(); ++i) {
    CheckKl(i, dataflow.update(i), effective, &warnings);
  }
  return warnings;
}

std::string WithUnits(absl::string_view yaml) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(yaml, '\n')) {
    const bool counts =
        absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "ppo_mini_batch_size:");
    absl::StrAppend(&out, out.empty() ? "" : "\n", line,
                    counts ? "  # sequences (verl counts prompts); 0: the whole batch" : "");
  }
  return out;
}

}  // namespace baton
