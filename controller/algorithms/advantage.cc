#include "controller/algorithms/advantage.h"

#include <algorithm>
#include <cmath>

namespace baton::algorithms {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;  // sample standard deviation; 0 for one sample
  bool equal = true;     // all rewards are the same
};

Moments MomentsOf(absl::Span<const RewardedSample> group) {
  Moments m;
  const auto n = static_cast<double>(group.size());
  for (const RewardedSample& s : group) {
    m.mean += s.reward / n;
    m.equal &= s.reward == group.front().reward;
  }
  if (group.size() < 2) return m;
  double squares = 0;
  for (const RewardedSample& s : group) squares += (s.reward - m.mean) * (s.reward - m.mean);
  m.deviation = std::sqrt(squares / (n - 1));
  return m;
}

}  // namespace

Advantages GroupAdvantages(absl::Span<const RewardedSample> samples,
                           const GroupAdvantageOptions& options) {
  Advantages out;
  out.values.resize(samples.size());
  out.kept.resize(samples.size(), true);
  double groups = 0, dropped = 0, sum = 0, kept = 0, low = 0, high = 0;
  for (size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    end = begin;
    while (end < samples.size() && samples[end].group == samples[begin].group) ++end;
    const Moments m = MomentsOf(samples.subspan(begin, end - begin));
    const bool single = end - begin == 1;
    const bool drop = options.filter_groups && m.equal && !single;
    ++groups;
    dropped += drop ? 1 : 0;
    for (size_t i = begin; i < end; ++i) {
      double advantage = single ? samples[i].reward : samples[i].reward - m.mean;
      if (m.equal && !single) advantage = 0;  // not the rounding error of the mean
      if (options.norm_adv_by_std_in_grpo && !single) advantage /= m.deviation + options.epsilon;
      out.values[i] = advantage;
      out.kept[i] = !drop;
      if (drop) continue;
      low = kept == 0 ? advantage : std::min(low, advantage);
      high = kept == 0 ? advantage : std::max(high, advantage);
      sum += advantage;
      ++kept;
    }
  }
  out.metrics["critic/advantages/mean"] = kept == 0 ? 0 : sum / kept;
  out.metrics["critic/advantages/min"] = low;
  out.metrics["critic/advantages/max"] = high;
  out.metrics["train/groups"] = groups;
  out.metrics["train/filtered_groups"] = dropped;
  return out;
}

}  // namespace baton::algorithms
