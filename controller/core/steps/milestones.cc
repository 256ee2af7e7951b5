#include "controller/core/steps/milestones.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/wait_list.h"

namespace baton::controller {

Milestones::Milestones(std::shared_ptr<const v1::Job> submitted, int64_t total_steps)
    : submitted_(std::move(submitted)), total_steps_(total_steps) {}

void Milestones::Restore(const store::v1::JobRow& row) {
  evaluated_step_ = row.evaluated_step();
  saved_step_ = row.saved_step();
  learning_ = row.learning();
  saved_ = {{row.saved_algorithm().begin(), row.saved_algorithm().end()}, row.saved_learning()};
  checkpoints_ = {row.checkpoints().begin(), row.checkpoints().end()};
  drops_optimizer_ = row.drops_optimizer();
  worked_seconds_ = row.worked_seconds();
}

void Milestones::Save(store::v1::JobRow* row) const {
  row->set_evaluated_step(evaluated_step_);
  row->set_saved_step(saved_step_);
  *row->mutable_learning() = learning_;
  *row->mutable_saved_learning() = saved_.learning;
  for (const auto& [name, value] : saved_.algorithm) {
    (*row->mutable_saved_algorithm())[name] = value;
  }
  row->set_worked_seconds(worked_seconds_);
  if (drops_optimizer_) row->set_drops_optimizer(true);
}

bool Milestones::EvaluationDue(int64_t step, bool validates) const {
  // In a job of kind sft the trainer measures held-out examples itself, in the step's update.
  return spec().kind() == v1::JOB_KIND_RL && evaluated_step_ != step &&
         EvaluatesAfter(step, step, validates);
}

bool Milestones::EvaluatesAfter(int64_t after, int64_t step, bool validates) const {
  if (!validates) return false;
  const v1::TrainerSpec& trainer = spec().trainer();
  if (after == 0) return trainer.val_before_train();
  if (after >= total_steps_ || (after == step && AtEnd(step))) return trainer.val_after_train();
  return trainer.test_freq() > 0 && after % trainer.test_freq() == 0;
}

bool Milestones::AtEnd(int64_t step) const {
  return step >= total_steps_ || !learning_.stop_reason().empty();
}

bool Milestones::SaveDue(int64_t step, bool pausing) const {
  if (saved_step_ == step || spec().trainer().val_only()) return false;  // nothing was learned
  // A job that pauses or ends gives its workers away, and the weights with them.
  if (pausing || AtEnd(step)) return true;
  // The best step so far is worth a checkpoint even if its number is not due for one.
  if (learning_.has_best() && learning_.best_step() == step) return true;
  const int freq = spec().trainer().save_freq();
  return freq > 0 && step > 0 && step % freq == 0;
}

void Milestones::EndWhenOutOfTime() {
  const double hours = spec().trainer().max_hours();
  if (hours <= 0 || worked_seconds_ < hours * 3600) return;
  learning_.set_stop_reason(absl::StrCat("trainer.max_hours (", hours, ") is used up"));
}

LearningNews Milestones::NoteStep(const StepOutcome& outcome) {
  return controller::NoteStep(spec(), outcome, &learning_);
}

LearningNews Milestones::NoteValues(int64_t step, const std::map<std::string, double>& metrics,
                                    bool evaluation) {
  return controller::NoteValues(spec(), step, metrics, evaluation, &learning_);
}

void Milestones::KeepEvaluation(int64_t step, const std::map<std::string, double>& metrics,
                                EffectSink& out) {
  // A rollback to a step that was saved before its evaluation does not evaluate it again: the job
  // paused in between, or it is the first step. So the results go into the saved state.
  if (step != rollback_step()) return;
  if (step == out.step()) {
    saved_.learning = learning_;
  } else {
    // Later steps were done meanwhile, and a rollback must undo what was learned from them. The
    // user was already told the news of the evaluation.
    controller::NoteValues(spec(), step, metrics, /*evaluation=*/true, &saved_.learning);
  }
  KeepCheckpoints(out);
}

void Milestones::Saved(const v1::Checkpoint& checkpoint, SavedState saved, EffectSink& out) {
  saved_step_ = checkpoint.step();
  saved_ = std::move(saved);
  saved_.learning = learning_;
  checkpoints_.push_back(checkpoint);
  out.Do(PutCheckpoint{checkpoint});
  KeepCheckpoints(out);
}

int64_t Milestones::rollback_step() const { return std::max<int64_t>(saved_step_, 0); }

const SavedState& Milestones::RollBack() {
  learning_ = saved_.learning;
  evaluated_step_ = std::min(evaluated_step_, rollback_step());
  return saved_;
}

// Marks the best checkpoint, and deletes those that are neither the best nor among the newest.
void Milestones::KeepCheckpoints(EffectSink& out) {
  const auto is_best = [this](const v1::Checkpoint& checkpoint) {
    return learning_.has_best() && checkpoint.step() == learning_.best_step();
  };
  // The mark moves only once the new best checkpoint is on disk, so there is always one to go back
  // to.
  if (std::any_of(checkpoints_.begin(), checkpoints_.end(), is_best)) {
    for (v1::Checkpoint& checkpoint : checkpoints_) {
      if (checkpoint.best() == is_best(checkpoint)) continue;
      checkpoint.clear_best();
      if (is_best(checkpoint)) checkpoint.set_best(true);
      out.Do(PutCheckpoint{checkpoint});
    }
  }
  const auto spared = [](const v1::Checkpoint& checkpoint) { return checkpoint.best(); };
  const auto keep = static_cast<size_t>(spec().trainer().max_checkpoints());
  auto others = checkpoints_.size() - static_cast<size_t>(std::count_if(
                                          checkpoints_.begin(), checkpoints_.end(), spared));
  for (auto it = checkpoints_.begin(); keep > 0 && others > keep;) {
    if (spared(*it)) {
      ++it;
      continue;
    }
    out.Do(DeleteCheckpoint{*it});
    it = checkpoints_.erase(it);
    --others;
  }
}

void Milestones::DropOptimizers(EffectSink& out) {
  if (spec().trainer().keep_optimizer() == "all" || checkpoints_.empty()) return;
  for (auto it = checkpoints_.begin(); it != std::prev(checkpoints_.end()); ++it) {
    if (it->optimizer_bytes() <= 0) continue;  // it has none, or not in files of its own
    it->set_weights_only(true);
    it->set_size_bytes(it->size_bytes() - it->optimizer_bytes());
    it->clear_optimizer_bytes();
    out.Do(PutCheckpoint{*it});
    drops_optimizer_ = true;
  }
  GoOnDropping(out);
}

void Milestones::GoOnDropping(EffectSink& out) const {
  if (!drops_optimizer_) return;
  controller::DropOptimizers drop;
  std::copy_if(checkpoints_.begin(), checkpoints_.end(), std::back_inserter(drop.checkpoints),
               [](const v1::Checkpoint& checkpoint) { return checkpoint.weights_only(); });
  out.Do(std::move(drop));
}

void Milestones::Count(bool works, absl::Time now) {
  if (works && counted_ != absl::InfinitePast()) {
    worked_seconds_ += absl::ToDoubleSeconds(now - counted_);
  }
  counted_ = now;
}

void Milestones::Delay(absl::Duration duration, absl::Time now) {
  DelayTime(duration, now, counted_);  // the job did not work meanwhile
}

}  // namespace baton::controller
