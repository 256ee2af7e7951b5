#include "controller/core/loop/evaluation.h"

#include <utility>

#include "controller/core/loop/evaluation_text.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/loop/step_loop.h"
#include "controller/core/trajectories/step_metrics.h"

namespace baton::controller {

bool EvaluationDue(const JobParts& job) {
  return job.milestones.EvaluationDue(job.out.step(), job.data.validates());
}

void TellEvaluation(int64_t step, absl::Time began,
                    const std::map<uint64_t, TrajectoryInfo>& trajectories, JobParts& job) {
  std::map<std::string, double> metrics =
      EvaluationMetrics(trajectories, job.scheduler.table().plan().Samples(v1::PURPOSE_EVAL),
                        job.data.val_sources(), job.data.ValSize(job.spec().data()));
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(job.out.now() - began);
  job.milestones.Evaluated(step);
  job.life.HideEvaluation();
  job.life.ShowMetrics(metrics);
  v1::JobEvent event;
  event.set_type("evaluation");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  event.set_message(EvaluationText(event.metrics()));
  job.out.EmitAt(step, std::move(event));
  job.out.Do(PutMetrics{step, metrics});
  job.life.ApplyLearning(job.milestones.NoteValues(step, metrics, /*evaluation=*/true), job);
  job.milestones.KeepEvaluation(step, metrics, job.out);
  job.out.Do(PutJob{});
}

void FinishEvaluation(JobParts& job) {
  TellEvaluation(job.out.step(), job.scheduler.times().began, job.scheduler.table().all(), job);
  job.work.Clear("", job);
  job.Switch(Activity::kNone);
  job.out.Do(PutJob{});
  Advance(job);
}

bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out) {
  v1::JobEvent event;
  event.set_type("evaluation");
  // "val0" is the first name after all that begin with "val/".
  for (auto m = metrics.lower_bound("val/"); m != metrics.end() && m->first < "val0"; ++m) {
    (*event.mutable_metrics())[m->first] = m->second;
  }
  if (event.metrics().empty()) return false;
  event.set_message(EvaluationText(event.metrics()));
  out.Emit(std::move(event));
  return true;
}

}  // namespace baton::controller
