#include "tests/simulation/model.h"

#include <algorithm>
#include <map>

#include "controller/core/prompt_source.h"
#include "controller/core/trajectory.h"
#include "tests/simulation/random.h"

namespace baton::simulation {

v1::JobSpec SpecOf(const JobPlan& plan) {
  v1::JobSpec spec;
  spec.set_kind(plan.sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.set_priority(plan.priority);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->set_train_batch_size(plan.batch);
  spec.mutable_data()->set_seed(static_cast<int64_t>(plan.seed));
  spec.mutable_trainer()->set_total_training_steps(plan.steps);
  spec.mutable_trainer()->set_save_freq(plan.save_freq);
  spec.mutable_trainer()->set_max_checkpoints(plan.max_checkpoints);
  if (plan.sft) return spec;
  spec.mutable_data()->add_val_files("v");
  spec.mutable_trainer()->set_val_before_train(plan.test_freq > 0);
  spec.mutable_trainer()->set_val_after_train(plan.test_freq > 0);
  spec.mutable_trainer()->set_test_freq(plan.test_freq);
  spec.mutable_rollout()->set_n(plan.samples);
  spec.mutable_algorithm()->set_filter_groups(plan.filter);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_reward()->set_error_reward(0);  // a score that failed for good leaves no gap
  spec.mutable_algorithm()->set_use_kl_loss(plan.reference);
  spec.mutable_algorithm()->set_recompute_log_prob(plan.recompute);
  if (plan.critic) spec.mutable_algorithm()->set_preset("ppo");
  v1::ParallelSpec* actor = spec.mutable_actor()->mutable_parallel();
  plan.tensor ? actor->set_tp(plan.actors) : actor->set_dp(plan.actors);
  if (plan.scorers > 1) spec.mutable_resources()->set_reward_workers(plan.scorers);
  if (plan.reference || plan.critic) {
    v1::ParallelSpec* reference = spec.mutable_reference()->mutable_parallel();
    reference->set_tp(plan.tensor ? 2 : 1);
    reference->set_dp(plan.scorers);
  }
  bool hybrid = false;
  for (const std::vector<std::string>& roles : plan.pools) {
    const auto has = [&](const char* role) {
      return std::find(roles.begin(), roles.end(), role) != roles.end();
    };
    hybrid |= has("actor") && has("rollout");
    v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
    for (const std::string& role : roles) pool->add_roles(role);
  }
  if (!hybrid) spec.mutable_resources()->set_rollout_workers(plan.rollouts);
  return spec;
}

uint64_t InitialWeights(const v1::JobSpec& spec, const std::string& role) {
  return Mix(role == "actor" ? 17 : 18, static_cast<uint64_t>(spec.data().seed()));
}

Payload Respond(uint64_t weights, v1::Purpose purpose, uint64_t prompt, uint64_t draw,
                uint32_t sample) {
  Payload out;
  out.purpose = purpose;
  out.draw = draw;
  out.weights = weights;
  out.content = Mix(Mix(Mix(Mix(weights, static_cast<uint64_t>(purpose)), prompt), draw), sample);
  out.tokens = 2 + static_cast<uint32_t>(out.content % 7);
  out.reward = static_cast<double>((out.content >> 8) % 2);
  return out;
}

Payload Example(uint64_t draw, uint64_t prompt) {
  Payload out;
  out.draw = draw;
  out.content = Mix(99, prompt);
  return out;
}

std::vector<Payload> Filter(const v1::JobSpec& spec, const std::vector<Payload>& batch) {
  if (spec.kind() == v1::JOB_KIND_SFT || !spec.algorithm().filter_groups()) return batch;
  std::map<uint64_t, std::pair<double, double>> range;
  for (const Payload& p : batch) {
    auto& [low, high] = range.emplace(p.draw, std::make_pair(p.reward, p.reward)).first->second;
    low = std::min(low, p.reward);
    high = std::max(high, p.reward);
  }
  std::vector<Payload> kept;
  for (const Payload& p : batch) {
    if (range[p.draw].first != range[p.draw].second) kept.push_back(p);
  }
  return kept;
}

uint64_t Train(uint64_t weights, const std::vector<Payload>& batch) {
  for (const Payload& p : batch) {
    weights = Mix(Mix(weights, p.content), p.reward > 0 ? 1 : 0);
  }
  return weights;
}

uint64_t ExpectedWeights(const v1::JobSpec& effective, int64_t steps, const std::string& role) {
  controller::PromptSource prompts(kTrainSize, static_cast<uint64_t>(effective.data().seed()),
                                   effective.data().shuffle());
  uint64_t weights = InitialWeights(effective, "actor");
  uint64_t asked = InitialWeights(effective, role);
  uint64_t draw = 0;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Payload> batch;
    for (int i = 0; i < effective.data().train_batch_size(); ++i, ++draw) {
      if (effective.kind() == v1::JOB_KIND_SFT) {
        batch.push_back(Example(draw, prompts.At(draw)));
        continue;
      }
      for (int sample = 0; sample < effective.rollout().n(); ++sample) {
        batch.push_back(Respond(weights, v1::PURPOSE_TRAIN, prompts.At(draw), draw,
                                static_cast<uint32_t>(sample)));
      }
    }
    batch = Filter(effective, batch);
    weights = Train(weights, batch);
    asked = Train(asked, batch);
  }
  return asked;
}

}  // namespace baton::simulation
