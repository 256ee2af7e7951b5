#include "workers/reward/weighted_reward.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::reward {
namespace {

void Add(const WeightedPart& part, const RewardResult& from, RewardResult* to) {
  if (!from.error.empty()) {
    to->infra_failed |= from.infra_failed;
    to->skipped = false;
    absl::StrAppend(&to->error, to->error.empty() ? "" : "; ", part.name, ": ", from.error);
    return;
  }
  if (!from.note.empty()) {
    absl::StrAppend(&to->note, to->note.empty() ? "" : "; ", part.name, ": ", from.note);
  }
  if (from.skipped) return;
  to->skipped = false;
  to->reward += part.weight * from.reward;
  to->scores[part.name] = from.reward;
  for (const auto& [name, value] : from.scores) {
    if (name == "accuracy") to->scores.emplace(name, value);  // the first part's stays
    to->scores[absl::StrCat(part.name, "/", name)] = value;
  }
}

class WeightedReward : public RewardFunction {
 public:
  explicit WeightedReward(std::vector<WeightedPart> parts) : parts_(std::move(parts)) {}

  absl::StatusOr<RewardResult> Score(const RewardInput& input) override {
    BATON_ASSIGN_OR_RETURN(std::vector<RewardResult> results,
                           ScoreBatch(absl::MakeConstSpan(&input, 1)));
    return std::move(results[0]);
  }

  absl::StatusOr<std::vector<RewardResult>> ScoreBatch(
      absl::Span<const RewardInput> inputs) override {
    std::vector<RewardResult> sums(inputs.size());
    for (RewardResult& sum : sums) sum.skipped = true;  // until a part judges it
    for (const WeightedPart& part : parts_) {
      auto results = part.function->ScoreBatch(inputs);
      if (!results.ok()) return Annotate(results.status(), part.name);
      for (size_t i = 0; i < inputs.size(); ++i) Add(part, (*results)[i], &sums[i]);
    }
    return sums;
  }

  void NoticeCancelled() override {
    for (const WeightedPart& part : parts_) part.function->NoticeCancelled();
  }

 private:
  const std::vector<WeightedPart> parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RewardFunction>> CreateWeightedReward(
    std::vector<WeightedPart> parts) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("reward: it has no rule and no command; give at least one");
  }
  std::set<std::string> names;
  for (const WeightedPart& part : parts) {
    if (part.name.empty() || part.name == "accuracy" || !names.insert(part.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("reward: the name '", part.name, "' is empty, taken or used twice"));
    }
    if (!std::isfinite(part.weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("reward: the weight of '", part.name, "' is not finite"));
    }
    if (part.function == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("reward: '", part.name, "' has no function"));
    }
  }
  return std::unique_ptr<RewardFunction>(new WeightedReward(std::move(parts)));
}

}  // namespace baton::reward
