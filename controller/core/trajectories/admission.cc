#include "controller/core/trajectories/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/replay.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void Admission::Begin(bool evaluates, const WorkContext& context) {
  const v1::JobSpec& spec = submitted_->effective_spec();
  evaluates_ = evaluates;
  births_.Begin(evaluates, context.out);
  if (evaluates) {
    draws_.BeginEvaluation(context.data.ValSize(spec.data()));
  } else {
    // The responses of a replay are recorded: none is drawn.
    draws_.BeginStep(Replays(submitted_->dataflow()) ? 0 : GenBatchSize(spec));
  }
}

void Admission::End() {
  draws_.Stop();
  evaluates_ = false;
}

void Admission::TakeNumbers(const TrajectoryTable& table, EffectSink& out) {
  // Examples of kind sft have no tasks, so nothing names them.
  if (is_rl()) births_.Take((draws_.end() - draws_.first()) * PerDraw(table), out);
}

uint64_t Admission::Judged(const TrajectoryTable& table) const {
  const uint64_t work = table.all().size() + table.taken() + Left(table);
  const v1::JobSpec& spec = submitted_->effective_spec();
  if (!IsAsync(spec, submitted_->dataflow())) return work;
  // At first there are few, and one that fails would be a large share of them.
  return std::max<uint64_t>(
      work, static_cast<uint64_t>(spec.data().train_batch_size()) * table.plan().PerDraw());
}

uint64_t Admission::PerDraw(const TrajectoryTable& table) const {
  if (evaluates_) return table.plan().Samples(v1::PURPOSE_EVAL);
  return table.plan().Samples(v1::PURPOSE_TRAIN) + (is_rl() && table.plan().has_baseline() ? 1 : 0);
}

std::string Admission::WorkName(const EffectSink& out) const {
  return evaluates_ ? absl::StrCat("the evaluation of step ", out.step())
                    : absl::StrCat("step ", out.step() + 1);
}

std::vector<TrajectoryInfo> Admission::MakeNext(const TrajectoryTable& table,
                                                const WorkContext& context) {
  std::vector<TrajectoryInfo> made;
  const uint64_t draw = draws_.next();
  const uint64_t prompt = evaluates_ ? draw : context.data.PromptOf(draw);
  if (!is_rl()) {  // an example is a trajectory born READY
    TrajectoryInfo example;
    example.id = TrajectoryId(v1::PURPOSE_TRAIN, draw, 0, 1);
    example.draw = draw;
    example.prompt_id = prompt;
    example.state = TrajectoryState::kReady;
    made.push_back(std::move(example));
    draws_.Made();
    return made;
  }
  // A trajectory's number follows from its place, so a restarted controller gives it the same one.
  const uint64_t birth = births_.At((draw - draws_.first()) * PerDraw(table));
  made = MakeDraw(evaluates_ ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN, draw, prompt, birth, table,
                  context);
  draws_.Made();
  return made;
}

std::vector<TrajectoryInfo> Admission::MakeDraw(v1::Purpose purpose, uint64_t draw, uint64_t prompt,
                                                uint64_t birth, const TrajectoryTable& table,
                                                const WorkContext& context) const {
  std::vector<TrajectoryInfo> made;
  const uint32_t n = table.plan().Samples(purpose);
  if (table.plan().has_baseline() && purpose == v1::PURPOSE_TRAIN) {
    made.push_back(Make(v1::PURPOSE_BASELINE, draw, 0, prompt, birth++, table, context));
  }
  for (uint32_t sample = 0; sample < n; ++sample) {
    const bool leak = Mutant("evaluation-in-batch") && sample + 1 == n && n > 1;
    made.push_back(
        Make(leak ? v1::PURPOSE_EVAL : purpose, draw, sample, prompt, birth++, table, context));
  }
  return made;
}

TrajectoryInfo Admission::Make(v1::Purpose purpose, uint64_t draw, uint32_t sample, uint64_t prompt,
                               uint64_t birth, const TrajectoryTable& table,
                               const WorkContext& context) const {
  const ScoreGraph& graph = table.plan().graph();
  TrajectoryInfo trajectory;
  trajectory.id = TrajectoryId(purpose, draw, sample, table.plan().Samples(purpose));
  trajectory.purpose = purpose;
  trajectory.draw = draw;
  trajectory.sample = sample;
  trajectory.prompt_id = prompt;
  trajectory.policy_version = context.versions.newest();
  trajectory.incarnation = context.out.incarnation();
  auto kept = context.buffer.found().Recall(trajectory, table.plan().Wanted(trajectory));
  // A response of other weights is generated again: what a batch of mode sync consumes was sampled
  // by exactly the weights that the step begins with.
  const bool fresh = kept.has_value() && (context.any_version ||
                                          context.versions.WhyStale(*kept, context.out).empty() ||
                                          (Mutant("stale-restored") || Mutant("stale-consumed")));
  if (fresh) {
    trajectory = *std::move(kept);
    // A score of a response that was lost may still be under way.
    trajectory.restored = trajectory.losses == 0;
  }
  const bool drafts = submitted_->effective_spec().rollout().speculation().mode() != "off";
  if (!fresh && drafts && !Mutant("dead-branch-forgotten")) {
    trajectory.earlier = context.buffer.earlier().Of(trajectory);
  }
  trajectory.birth = birth;
  trajectory.attempt = context.out.attempt_base();
  trajectory.tries.assign(static_cast<size_t>(graph.size()), NodeTry{context.out.attempt_base()});
  return trajectory;
}

}  // namespace baton::controller
