#include "sdk/cli/watch/learning_summary.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/table.h"

namespace baton::cli {
namespace {

// By step.
using Measured = std::vector<std::pair<int64_t, double>>;

Measured ValuesOf(const v1::ListMetricsResponse& metrics, int64_t last_step, const char* name) {
  Measured values;
  for (const v1::StepMetrics& step : metrics.steps()) {
    if (step.step() > last_step) break;
    auto it = step.metrics().find(name);
    if (it != step.metrics().end()) values.emplace_back(step.step(), it->second);
  }
  return values;
}

template <typename Iterator>
double MeanOf(Iterator first, size_t count) {
  const double sum =
      std::accumulate(first, first + static_cast<std::ptrdiff_t>(count), 0.0,
                      [](double so_far, const auto& value) { return so_far + value.second; });
  return sum / static_cast<double>(count);
}

// Compares the mean of the first `count` values with that of the last `count`.
std::string Compared(const char* label, const Measured& values, size_t count) {
  // A long job keeps not every step's metrics.
  const auto steps = static_cast<size_t>(values.back().first - values.front().first + 1);
  const char* of = values.size() == steps ? " steps" : " steps whose metrics are kept";
  const std::string where =
      count == 1 ? absl::StrCat("step ", values.front().first, " and step ", values.back().first)
                 : absl::StrCat("the mean of the first ", count, " and of the last ", count, " of ",
                                values.size(), of);
  return absl::StrCat(label, " ", ShortNumber(MeanOf(values.begin(), count)), " → ",
                      ShortNumber(MeanOf(values.rbegin(), count)), ": ", where, "\n");
}

}  // namespace

std::string LearningSummary(const v1::ListMetricsResponse& metrics, int64_t last_step) {
  const char* label = "reward";
  Measured values = ValuesOf(metrics, last_step, "critic/score/mean");
  if (values.empty()) {
    label = "loss";
    values = ValuesOf(metrics, last_step, "train/loss");
  }
  std::string text;
  if (values.size() >= 2) {
    text = Compared(label, values, std::clamp<size_t>(values.size() / 5, 1, 10));
  }
  for (const char* name : {"val/accuracy", "val/loss"}) {
    const Measured evaluations = ValuesOf(metrics, last_step, name);
    if (evaluations.size() >= 2) absl::StrAppend(&text, Compared(name, evaluations, 1));
  }
  return text;
}

}  // namespace baton::cli
