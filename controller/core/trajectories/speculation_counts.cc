#include "controller/core/trajectories/speculation_counts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton::controller {
namespace {

constexpr char kSpecPrefix[] = "spec/";
constexpr int kToldDepths = 16;    // of a draft that are told apart
constexpr double kMostSum = 1e15;  // of any number

}  // namespace

bool SpeculationCounts::IsKnown(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kSpecPrefix)) return false;
  static const auto* const names = new std::set<std::string>{
      "passes",         "draft_tokens",   "accepted_tokens",    "draft_seconds",
      "verify_seconds", "history_tokens", "memory_short_passes"};
  if (names->count(std::string(name)) > 0) return true;
  int depth = 0;
  const bool of_depth =
      absl::ConsumePrefix(&name, "proposed_at/") || absl::ConsumePrefix(&name, "accepted_at/");
  return of_depth && absl::SimpleAtoi(name, &depth) && depth >= 0 && depth < kToldDepths;
}

void SpeculationCounts::Note(const std::map<std::string, double>& measured) {
  for (auto it = measured.lower_bound(kSpecPrefix); it != measured.end(); ++it) {
    const bool sane = std::isfinite(it->second) && it->second >= 0 && it->second <= kMostSum;
    if (!sane || !IsKnown(it->first)) continue;
    sums_[it->first.substr(sizeof kSpecPrefix - 1)] += it->second;
  }
}

void SpeculationCounts::NoteMadeAgain(uint32_t drafted, double accepted) {
  made_again_ += drafted;
  // A worker may report any number, even NaN.
  if (accepted > 0) made_again_accepted_ += std::min<double>(drafted, accepted);
}

std::map<std::string, double> SpeculationCounts::Take() {
  std::map<std::string, double> sums = sums_;
  sums_.clear();
  std::map<std::string, double> metrics;
  const auto set = [&](const std::string& name, double value) {
    metrics[absl::StrCat("rollout/spec/", name)] = value;
  };
  if (made_again_ > 0) {
    set("made_again_tokens", made_again_);
    set("made_again_accepted", made_again_accepted_);
  }
  made_again_ = made_again_accepted_ = 0;
  if (sums["history_tokens"] > 0) {
    set("history_tokens", sums["history_tokens"]);
  }
  if (sums["memory_short_passes"] > 0) set("memory_short_passes", sums["memory_short_passes"]);
  // Includes time that was wasted.
  if (sums["draft_seconds"] > 0) set("draft_seconds", sums["draft_seconds"]);
  const double tokens = sums["draft_tokens"], passes = sums["passes"];
  if (tokens <= 0 || passes <= 0) return metrics;
  set("draft_tokens", tokens);
  set("tokens_saved", sums["accepted_tokens"]);
  set("acceptance", sums["accepted_tokens"] / tokens);
  set("draft_length", tokens / passes);
  set("accepted_per_pass", sums["accepted_tokens"] / passes);
  set("draft_seconds", sums["draft_seconds"]);
  set("verify_seconds", sums["verify_seconds"]);
  for (int depth = 0; depth < kToldDepths; ++depth) {
    const double proposed = sums[absl::StrCat("proposed_at/", depth)];
    if (proposed <= 0) continue;
    set(absl::StrCat("acceptance_at_depth/", depth),
        sums[absl::StrCat("accepted_at/", depth)] / proposed);
  }
  return metrics;
}

}  // namespace baton::controller
