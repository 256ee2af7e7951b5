// SimulatedJob: the job that its options describe.
#include <string>

#include "controller/spec/job_spec/spec.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {

v1::Job MakeSimulatedJob(const SimulatedJob::Options& options) {
  v1::JobSpec spec;
  spec.set_kind(options.sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(3);
  v1::TrainerSpec& trainer = *spec.mutable_trainer();
  trainer.set_total_training_steps(options.steps);
  trainer.set_save_freq(2);
  if (options.max_checkpoints > 0) trainer.set_max_checkpoints(options.max_checkpoints);
  const auto shape = [](v1::ParallelSpec* parallel, int ranks, int tp) {
    parallel->set_tp(tp);
    parallel->set_dp(ranks / tp);
  };
  shape(spec.mutable_actor()->mutable_parallel(), options.actor_ranks, options.actor_tp);
  if (options.critic_ranks > 1) {
    shape(spec.mutable_critic()->mutable_train()->mutable_parallel(), options.critic_ranks,
          options.critic_tp);
  }
  if (options.reference_ranks > 1) {
    shape(spec.mutable_reference()->mutable_parallel(), options.reference_ranks,
          options.reference_tp);
  }
  if (!options.preset.empty()) spec.mutable_algorithm()->set_preset(options.preset);
  if (options.cost_critic) {
    spec.mutable_algorithm()->set_cost_critic(true);
    spec.mutable_cost_model()->mutable_model()->set_path("/cost");
  }
  if (options.recompute_log_prob) spec.mutable_algorithm()->set_recompute_log_prob(true);
  if (!options.sft) {
    spec.mutable_data()->add_val_files("v");
    spec.mutable_trainer()->set_val_before_train(true);
    spec.mutable_trainer()->set_val_after_train(true);
    spec.mutable_trainer()->set_test_freq(2);
    spec.mutable_trainer()->set_keep_best("");  // tests of it set it
    spec.mutable_rollout()->set_n(2);
    spec.mutable_rollout()->set_tensor_model_parallel_size(options.generation_tp);
    spec.mutable_reward()->add_rules()->set_type("numeric");
    if (options.error_reward) spec.mutable_reward()->set_error_reward(-1);
    spec.mutable_reward()->set_max_error_rate(options.max_error_rate);
    spec.mutable_resources()->set_rollout_workers(options.rollout_workers);
  }
  for (const auto& roles : options.pools) {
    v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
    for (const std::string& role : roles) pool->add_roles(role);
  }
  if (!options.dataflow.empty()) {
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(options.dataflow, spec.mutable_dataflow()));
  }
  if (options.edit) options.edit(&spec);
  const CheckedSpec checked = CheckSpec(spec);
  for (const auto& v : checked.violations) ADD_FAILURE() << v.field() << ": " << v.description();
  v1::Job job;
  job.set_name("projects/default/jobs/j");
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

}  // namespace baton::controller
