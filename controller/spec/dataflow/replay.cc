#include "controller/spec/dataflow/replay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/spec/dataflow/learning.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {
namespace {

constexpr char kRecordedPurpose[] = "recorded";

void MakeSpecOfReplay(v1::JobSpec* spec) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  trainer->set_save_freq(0);
  trainer->set_test_freq(0);
  trainer->set_val_before_train(false);
  trainer->set_val_after_train(false);
  trainer->set_max_checkpoints(0);  // a rollback needs the first one
  trainer->set_max_hours(0);
  trainer->set_fail_after_idle_steps(0);
  trainer->clear_early_stop();
  trainer->clear_keep_best();
  trainer->clear_keep_best_mode();
  // The texts of data.pretrain_files are trained on, but no prompts are used.
  spec->mutable_data()->clear_train_files();
  spec->mutable_data()->clear_train_mix();
  spec->mutable_data()->clear_val_files();
  spec->mutable_resources()->clear_pools();
  spec->mutable_resources()->clear_placement();
}

// The first step from which each step up to `to` is recorded.
int64_t FirstOf(const Kept& kept, int64_t to) {
  int64_t first = to + 1;
  while (first > 1 && kept.recorded.count(first - 1) > 0) --first;
  return first;
}

// True if training can go on after `step`.
bool HasState(const Kept& kept, int64_t step) {
  const bool saved = kept.checkpoints.count(step) > 0 && kept.weights_only.count(step) == 0;
  return saved || (step == 0 && kept.recorded.count(1) > 0);
}

std::optional<int64_t> OldestStart(const Kept& kept, int64_t to) {
  for (int64_t from = FirstOf(kept, to) - 1; from < to; ++from) {
    if (HasState(kept, from)) return from;
  }
  return std::nullopt;
}

absl::Status NotKept(const Kept& kept, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ". Kept are the batches and responses of ", StepsText(kept.recorded),
                   ", and checkpoints of ", StepsText(kept.checkpoints),
                   "; with trainer.keep_experience: all, trainer.max_checkpoints: 0 and "
                   "trainer.keep_optimizer: all, a job keeps all of them"));
}

}  // namespace

bool Replays(const v1::Dataflow& dataflow) {
  return std::any_of(
      dataflow.generate().begin(), dataflow.generate().end(),
      [](const v1::GenerateNode& node) { return node.purpose() == kRecordedPurpose; });
}

void RecordGraph(v1::Dataflow* graph) {
  graph->clear_score();
  graph->clear_generate();
  graph->add_generate()->set_purpose(kRecordedPurpose);
}

void MakeReplay(int64_t to_step, store::v1::JobRow* row) {
  v1::Job* job = row->mutable_job();
  job->set_total_steps(to_step);
  MakeSpecOfReplay(job->mutable_effective_spec());
  v1::Dataflow* graph = job->mutable_dataflow();
  RecordGraph(graph);
  row->clear_slots();
  std::set<std::string> groups;
  for (const GroupRole& role : GroupRolesOf(job->effective_spec(), *graph)) {
    groups.insert(role.role);
  }
  auto* kept = row->mutable_groups();
  kept->erase(std::remove_if(kept->begin(), kept->end(),
                             [&](const store::v1::GroupRow& group) {
                               return groups.count(group.role()) == 0;
                             }),
              kept->end());
  ForgetEnding(/*has_best_checkpoint=*/false, row->mutable_learning());
  *row->mutable_saved_learning() = row->learning();
  row->set_worked_seconds(0);
}

absl::StatusOr<ReplayRange> ChooseReplay(const Kept& kept, std::optional<int64_t> from,
                                         std::optional<int64_t> to) {
  if (kept.done == 0) {
    return absl::FailedPreconditionError(
        "the job has completed no step, so there is nothing to train again; replay it once it has "
        "completed one");
  }
  if (to.has_value() && (*to < 1 || *to > kept.done)) {
    return absl::InvalidArgumentError(
        absl::StrCat("to_step ", *to, ": the job has done steps 1 to ", kept.done));
  }
  if (from.has_value() && (*from < 0 || *from >= to.value_or(kept.done))) {
    return absl::InvalidArgumentError(
        absl::StrCat("from_step ", *from, " is not in [0, ", to.value_or(kept.done) - 1, "]"));
  }
  if (from.has_value() && !HasState(kept, *from)) {
    return NotKept(kept, absl::StrCat("the weights after step ", *from, " are not kept"));
  }
  ReplayRange range;
  const auto reaches = [&](int64_t end) {
    const std::optional<int64_t> start = from.has_value() ? from : OldestStart(kept, end);
    if (!start.has_value() || *start >= end || FirstOf(kept, end) > *start + 1) return false;
    range = {*start, end, kept.checkpoints.count(end) > 0};
    return true;
  };
  if (to.has_value()) {
    if (reaches(*to)) return range;
    return NotKept(
        kept, from.has_value()
                  ? absl::StrCat("not all of steps ", *from + 1, "-", *to, " are kept")
                  : absl::StrCat("no weights are kept from which step ", *to, " can be reached"));
  }
  for (auto end = kept.checkpoints.rbegin(); end != kept.checkpoints.rend(); ++end) {
    if (*end <= kept.done && reaches(*end)) return range;
  }
  return NotKept(kept, "there is no checkpoint that a replay can reach");
}

std::string StepsText(const std::set<int64_t>& steps) {
  std::vector<std::string> parts;
  for (auto it = steps.begin(); it != steps.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != steps.end() && *it == last + 1) ++last;
    parts.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
  }
  if (parts.empty()) return "no step";
  return absl::StrCat(steps.size() == 1 ? "step " : "steps ", absl::StrJoin(parts, ", "));
}

absl::Status CheckReplayable(const v1::Job& job) {
  if (job.effective_spec().kind() != v1::JOB_KIND_RL) {
    return absl::FailedPreconditionError(
        "only jobs of kind rl record their batches; a job of another kind trains on its data files "
        "alone, so submitting its spec again repeats it");
  }
  if (Replays(job.dataflow())) {
    return absl::FailedPreconditionError(
        "the job is a replay itself; replay the job that it "
        "replays");
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
