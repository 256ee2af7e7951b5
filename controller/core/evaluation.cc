#include "controller/core/evaluation.h"

#include <utility>

#include "controller/core/evaluation_text.h"
#include "controller/core/job_parts.h"
#include "controller/core/step_loop.h"
#include "controller/core/step_metrics.h"

namespace baton::controller {

bool EvaluationDue(const JobParts& job) {
  return job.milestones.EvaluationDue(job.out.step(), job.data.validates());
}

void FinishEvaluation(JobParts& job) {
  const TrajectoryTable& table = job.scheduler.table();
  std::map<std::string, double> metrics =
      EvaluationMetrics(table.all(), table.Samples(v1::PURPOSE_EVAL), job.data.val_sources(),
                        job.data.ValSize(job.spec().data()));
  metrics["timing_s/testing"] = absl::ToDoubleSeconds(job.out.now() - job.scheduler.times().began);
  job.milestones.Evaluated(job.out.step());
  job.life.HideEvaluation();
  job.life.ShowMetrics(metrics);
  v1::JobEvent event;
  event.set_type("evaluation");
  for (const auto& [name, value] : metrics) (*event.mutable_metrics())[name] = value;
  event.set_message(EvaluationText(event.metrics()));
  job.out.Emit(std::move(event));
  job.out.Do(PutMetrics{job.out.step(), metrics});
  job.life.ApplyLearning(job.milestones.NoteValues(job.out.step(), metrics, /*evaluation=*/true),
                         job);
  job.milestones.KeepEvaluation(job.out);
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
