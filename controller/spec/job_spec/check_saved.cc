#include "controller/spec/job_spec/check_saved.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/dataflow_shape.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/job_spec/spec.h"

namespace baton::controller {
namespace {

// A submitted spec has at most 1 MiB. Its defaults are small, but each role with a model may repeat
// the job's own, and the spec may have a graph too.
constexpr size_t kMostSavedBytes = size_t{16} << 20;

v1::FieldViolation SavedProblem(const std::string& field, std::string description) {
  v1::FieldViolation violation;
  violation.set_field(field);
  violation.set_description(std::move(description));
  return violation;
}

}  // namespace

std::vector<v1::FieldViolation> CheckSaved(const v1::Job& job) {
  const size_t bytes = job.spec().ByteSizeLong() + job.effective_spec().ByteSizeLong() +
                       job.dataflow().ByteSizeLong();
  if (bytes > kMostSavedBytes) {
    return {SavedProblem("spec", absl::StrCat("has ", bytes, " bytes with its defaults, at most ",
                                              kMostSavedBytes))};
  }
  v1::JobSpec spec = job.effective_spec();
  const bool replays = Replays(job.dataflow());
  // A replay uses no prompts, so it has no files of them.
  if (replays) spec.mutable_data()->add_train_files("recorded");
  // The graph of kind rl is checked as if the user had written it, because a preset's graph may
  // change in a later release and a job keeps its graph. The graphs of other kinds and of replays
  // follow from the spec.
  const bool own_graph = spec.kind() == v1::JOB_KIND_RL && !replays;
  if (own_graph) *spec.mutable_dataflow() = job.dataflow();
  CheckedSpec checked = CheckSpec(spec);
  if (!checked.violations.empty() || own_graph) return std::move(checked.violations);
  if (replays) RecordGraph(&checked.dataflow);
  if (ShapeText(job.dataflow()) == ShapeText(checked.dataflow)) return {};
  return {SavedProblem("dataflow", "is not the one that follows from the spec")};
}

std::string ProblemOfSaved(const v1::Job& job) {
  const std::vector<v1::FieldViolation> problems = CheckSaved(job);
  if (problems.empty()) return "";
  return absl::StrCat(
      problems[0].field(), ": ", problems[0].description(),
      problems.size() == 1 ? "" : absl::StrCat(" (and ", problems.size() - 1, " more problems)"));
}

}  // namespace baton::controller
