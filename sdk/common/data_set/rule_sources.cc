#include "sdk/common/data_set/rule_sources.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"

namespace baton {
namespace {

constexpr size_t kSourcesNamed = 8;

std::string Names(const std::set<std::string>& sources) {
  std::string out;
  size_t named = 0;
  for (const std::string& source : sources) {
    if (named++ == kSourcesNamed) return out + ", …";
    absl::StrAppend(&out, named == 1 ? "" : ", ",
                    source.empty() ? "none" : absl::StrCat("'", CutText(source), "'"));
  }
  return out;
}

// Whether something other than a limited rule gives every response a reward.
bool RewardsAll(const v1::JobSpec& spec) {
  const v1::RewardSpec& reward = spec.reward();
  const bool own_method = !reward.method().empty() && reward.method() != "compute_reward";
  return reward.rules().empty() || !reward.command().empty() || own_method || spec.has_judge() ||
         spec.has_reward_model() || spec.has_dataflow() ||
         std::any_of(reward.rules().begin(), reward.rules().end(),
                     [](const v1::RewardRule& rule) { return rule.when().source().empty(); });
}

}  // namespace

std::vector<SourceProblem> FindSourceProblems(const v1::JobSpec& spec,
                                              const std::set<std::string>& sources) {
  std::vector<SourceProblem> out;
  if (spec.kind() != v1::JOB_KIND_RL) return out;
  std::set<std::string> judged;
  for (int i = 0; i < spec.reward().rules_size(); ++i) {
    for (const std::string& source : spec.reward().rules(i).when().source()) {
      judged.insert(source);
      if (sources.count(source) > 0) continue;
      out.push_back({absl::StrCat("spec.reward.rules[", i, "].when.source"),
                     absl::StrCat("no line has the source '", source, "'; the lines have ",
                                  Names(sources), " (spec.data.source_key says where it stands)")});
    }
  }
  if (RewardsAll(spec) || sources.empty()) return out;
  std::set<std::string> left;
  std::set_difference(sources.begin(), sources.end(), judged.begin(), judged.end(),
                      std::inserter(left, left.end()));
  if (left.empty()) return out;
  out.push_back({"spec.reward.rules",
                 absl::StrCat("each rule is limited to sources by `when`, and none judges lines of "
                              "the source ",
                              Names(left),
                              ", which would have no reward: add a rule for them, or leave them "
                              "out of the files")});
  return out;
}

}  // namespace baton
