// Rules of how a job ends.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/core/job/job_state.h"
#include "tests/simulation/rules/invariants.h"
#include "tests/simulation/rules/recorded_run.h"

namespace baton::simulation {

std::string JobEndedWell(const store::v1::JobRow& row, const JobHistory& history) {
  switch (row.job().state()) {
    case v1::Job::STATE_SUCCEEDED:
      return "";
    case v1::Job::STATE_CANCELLED:
      return history.cancelled ? "" : "it is CANCELLED and nobody wanted that";
    case v1::Job::STATE_FAILED: {
      const auto code = static_cast<absl::StatusCode>(row.job().error().code());
      const bool by_fault =
          code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
      if (by_fault && !row.job().error().message().empty()) return "";
      const bool too_many_errors = code == absl::StatusCode::kFailedPrecondition &&
                                   row.job().effective_spec().reward().max_error_rate() < 1;
      if (too_many_errors) return "";
      return absl::StrCat("it FAILED without a fault that explains it: ",
                          row.job().error().message());
    }
    default:
      return absl::StrCat("it never ended; it is ", controller::StateName(row.job().state()));
  }
}

std::string AnEvaluationAloneMeasuresAndSavesNothing(const store::v1::JobRow& row,
                                                     const JobFolder& folder) {
  if (!row.job().effective_spec().trainer().val_only()) return "";
  if (row.job().step() != 0) return "a job that only evaluates did a step";
  if (!folder.complete.empty()) return "a job that only evaluates saved a checkpoint";
  if (row.job().state() != v1::Job::STATE_SUCCEEDED) return "";
  return row.evaluated_step() == 0 ? "" : "a job that only evaluates ended without its evaluation";
}

std::string WeightsAreThoseOfAnUndisturbedRun(const store::v1::JobRow& row,
                                              const JobHistory& history, const JobFolder& folder) {
  const v1::JobSpec& spec = row.job().effective_spec();
  if (row.job().state() != v1::Job::STATE_SUCCEEDED) return "";
  if (spec.trainer().val_only()) return "";
  const bool in_order = spec.schedule().sampler() == "in_order" || row.incarnation() <= 1;
  if (IsAsync(spec) && (spec.schedule().max_staleness() > 0 || !in_order)) return "";
  // The late responses, and the prompts with long responses, depend on the pace.
  const bool by_pace = spec.schedule().has_group_timeout_seconds() ||
                       spec.schedule().begin_order() == "longest_first";
  if (by_pace) return "";
  if (history.scored_by_error) return "";
  const int64_t steps = ExpectEnd(spec).steps;
  // A sync job gives up earlier where groups without rewards follow each other.
  if (IsAsync(spec) && !ExpectRun(spec, steps).possible) return "";
  if (row.job().step() != steps) {
    return absl::StrCat("it ended after step ", row.job().step(), " and not after step ", steps);
  }
  const auto last = folder.complete.find(steps);
  if (last == folder.complete.end()) return absl::StrCat("there is no checkpoint of step ", steps);
  for (const v1::UpdateNode& node : row.job().dataflow().update()) {
    const uint64_t expected = ExpectedWeights(spec, steps, node.role());
    const uint64_t weights = last->second.trained.at(node.role()).weights;
    if (weights == expected) continue;
    return absl::StrCat("after ", steps, " steps the weights of the ", node.role(), " are ",
                        weights, " instead of ", expected);
  }
  return "";
}

std::string WeightsAreThoseOfTheRecordedBatches(const store::v1::JobRow& row,
                                                const JobHistory& history,
                                                const JobFolder& folder) {
  const v1::Job& job = row.job();
  if (job.state() != v1::Job::STATE_SUCCEEDED) return "";
  if (job.effective_spec().kind() != v1::JOB_KIND_RL) return "";
  if (job.effective_spec().trainer().val_only()) return "";
  const auto last = folder.complete.find(job.step());
  if (last == folder.complete.end()) {
    return absl::StrCat("there is no checkpoint of step ", job.step());
  }
  for (const v1::UpdateNode& node : job.dataflow().update()) {
    const ExpectedRun run = RecordedRun(job.effective_spec(), history, job.step(), node.role());
    const uint64_t weights = last->second.trained.at(node.role()).weights;
    if (run.possible && weights == run.weights) continue;
    return absl::StrCat("after ", job.step(), " steps the weights of the ", node.role(), " are ",
                        weights, ", and its batches make ",
                        run.possible ? absl::StrCat(run.weights) : "none: one is missing");
  }
  return "";
}

std::string TheBestCheckpointIsKept(const store::v1::JobRow& row, const JobHistory& history) {
  if (row.job().state() != v1::Job::STATE_SUCCEEDED) return "";
  const v1::JobSpec& spec = row.job().effective_spec();
  if (history.scored_by_error && !IsAsync(spec)) return "";
  const int64_t best = EndOf(spec, history, row.job().step()).best;
  std::vector<int64_t> marked;
  for (const v1::Checkpoint& checkpoint : row.checkpoints()) {
    if (checkpoint.best()) marked.push_back(checkpoint.step());
  }
  if (best == 0 && marked.empty()) return "";
  if (marked == std::vector<int64_t>{best}) return "";
  return absl::StrCat("the best step is ", best, ", and ", marked.size(),
                      " checkpoints are marked as the best",
                      marked.empty() ? "" : absl::StrCat(", first that of step ", marked.front()));
}

std::string TheNewestCheckpointKeepsTheOptimizer(const store::v1::JobRow& row,
                                                 const JobFolder& folder) {
  const bool drops = row.job().state() == v1::Job::STATE_SUCCEEDED &&
                     row.job().effective_spec().trainer().keep_optimizer() != "all";
  for (const v1::Checkpoint& checkpoint : row.checkpoints()) {
    const bool keeps = !drops || checkpoint.step() == row.checkpoints().rbegin()->step();
    if (checkpoint.weights_only() == keeps) {
      return absl::StrCat("checkpoint ", checkpoint.step(), keeps ? " is" : " is not",
                          " marked as one with weights only");
    }
    const auto files = folder.complete.find(checkpoint.step());
    const bool has = files != folder.complete.end() && files->second.optimizer;
    if (has == keeps || (has && row.drops_optimizer())) continue;  // or it is being removed
    return absl::StrCat("checkpoint ", checkpoint.step(), has ? " still has" : " does not have",
                        " the optimizer's files");
  }
  return "";
}

std::string EveryBatchIsAccountedFor(const store::v1::JobRow& row, const JobHistory& history,
                                     const JobFolder& folder) {
  const v1::JobSpec& spec = row.job().effective_spec();
  if (row.job().state() != v1::Job::STATE_SUCCEEDED) return "";
  if (spec.trainer().val_only()) return "";
  if (history.scored_by_error && !IsAsync(spec)) return "";
  const int64_t steps = EndOf(spec, history, row.job().step()).steps;
  const auto last = folder.complete.find(steps);
  if (last == folder.complete.end()) {
    return IsAsync(spec) ? absl::StrCat("there is no checkpoint of step ", steps) : "";
  }
  std::set<int64_t> trained;
  for (auto it = history.made_by.find(last->second.trained.at("actor").weights);
       it != history.made_by.end(); it = history.made_by.find(it->second.before)) {
    if (!trained.insert(it->second.step).second) {
      return absl::StrCat("step ", it->second.step, " stands twice on the surviving branch");
    }
  }
  for (int64_t step = 1; step <= steps; ++step) {
    const bool empty = RunOf(spec, history, step).weights == RunOf(spec, history, step - 1).weights;
    if ((trained.count(step) == 0) != empty) {
      return absl::StrCat("step ", step, " was ", empty ? "empty and trained" : "never trained");
    }
  }
  return "";
}

}  // namespace baton::simulation
