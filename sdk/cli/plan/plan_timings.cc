#include "sdk/cli/plan/plan_timings.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace baton::cli {
namespace {

std::vector<double> Values(const v1::ListMetricsResponse& steps, const char* name) {
  std::vector<double> out;
  for (const v1::StepMetrics& step : steps.steps()) {
    const auto at = step.metrics().find(name);
    if (at != step.metrics().end() && at->second > 0) out.push_back(at->second);
  }
  if (out.size() > 1) out.erase(out.begin());
  return out;
}

int64_t Tokens(const v1::ListMetricsResponse& steps, const char* name, int64_t otherwise) {
  const double mean = placement::Median(Values(steps, name));
  return mean > 0 ? std::max<int64_t>(1, std::llround(mean)) : otherwise;
}

}  // namespace

absl::StatusOr<v1::ListMetricsResponse> ParseTimings(const std::string& json) {
  v1::ListMetricsResponse out;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &out, options);
  if (!status.ok() || out.steps().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are no steps in it; write it with `baton metrics JOB -o json`",
                     status.ok() ? "" : absl::StrCat(" (", std::string(status.message()), ")")));
  }
  return out;
}

absl::StatusOr<placement::Recording> MakeRecording(const v1::JobSpec& spec,
                                                   const v1::ListMetricsResponse& steps,
                                                   const placement::Workload& workload,
                                                   const placement::PlannedModel& actor) {
  placement::Recording out;
  out.actor = actor;
  out.workload = workload;
  out.workload.prompt_tokens = Tokens(steps, "prompt_length/mean", workload.prompt_tokens);
  out.workload.response_tokens = Tokens(steps, "response_length/mean", workload.response_tokens);
  const v1::ParallelSpec& parallel = spec.actor().parallel();
  out.training.tensor = std::max(1, parallel.tp());
  out.training.data = std::max(1, parallel.dp());
  out.rollouts.data = std::max(1, spec.resources().rollout_workers());
  const int ranks = std::max(1, spec.rollout().tensor_model_parallel_size());
  out.rollouts.tensor = out.rollouts.generation_tensor = ranks;
  out.kv_bytes = spec.rollout().kv_cache_bytes() > 0
                     ? static_cast<double>(spec.rollout().kv_cache_bytes())
                     : 1024.0 * 1024 * 1024;
  out.training_seconds = Values(steps, "timing_s/update_actor");
  out.generation_seconds = Values(steps, "timing_s/gen");
  if (out.training_seconds.empty() && out.generation_seconds.empty()) {
    return absl::FailedPreconditionError(
        "no step has timing_s/update_actor or timing_s/gen yet; let the job finish a step");
  }
  return out;
}

}  // namespace baton::cli
