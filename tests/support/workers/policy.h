// A tiny job for tests of the roles that stand on the engine.
#ifndef BATON_TESTS_SUPPORT_WORKERS_POLICY_H_
#define BATON_TESTS_SUPPORT_WORKERS_POLICY_H_

#include <cstdint>
#include <string>

#include "absl/synchronization/notification.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::policy {

/// Sums of digits with a model of a few thousand parameters.
inline v1::JobSpec TinySpec() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  v1::ModelInitSpec* init = spec.mutable_model()->mutable_init();
  init->set_characters("0123456789+=: ");
  init->set_hidden_size(16);
  init->set_intermediate_size(32);
  init->set_num_hidden_layers(2);
  init->set_num_attention_heads(2);
  init->set_max_position_embeddings(64);
  spec.mutable_data()->set_seed(7);
  spec.mutable_data()->set_train_batch_size(4);
  spec.mutable_data()->set_max_prompt_length(16);
  spec.mutable_data()->set_max_response_length(16);
  spec.mutable_rollout()->set_n(1);
  spec.mutable_rollout()->set_temperature(1);
  spec.mutable_rollout()->set_kv_cache_bytes(1 << 20);
  spec.mutable_actor()->set_lr(1e-2);
  spec.mutable_trainer()->set_total_training_steps(10);
  return spec;
}

/// A response of that job, of 12 tokens at most.
inline v1::Generate TinyGenerate(uint64_t version, uint32_t sample) {
  v1::Generate generate;
  generate.set_prompt("1+2=");
  generate.set_seed(5);
  generate.set_sample_index(sample);
  generate.set_policy_version(version);
  generate.set_temperature(1);
  generate.set_top_p(1);
  generate.set_max_new_tokens(12);
  generate.set_max_prompt_length(16);
  return generate;
}

/// The notification for a call that is never cancelled.
inline const absl::Notification& Never() {
  static const auto* const never = new absl::Notification();
  return *never;
}

}  // namespace baton::policy

#endif  // BATON_TESTS_SUPPORT_WORKERS_POLICY_H_
