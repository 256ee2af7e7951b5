#include "tests/simulation/parts/model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/trajectory.h"
#include "tests/simulation/parts/random.h"

namespace baton::simulation {
namespace {

constexpr char kMeanScore[] = "critic/score/mean";
constexpr char kFailingRewards[] = "failing-rewards";  // a label of the spec

// The responses to one prompt that have a reward.
std::vector<Payload> GroupOf(const v1::JobSpec& spec, uint64_t weights, uint64_t prompt,
                             uint64_t prompt_index) {
  std::vector<Payload> group;
  const auto n = static_cast<uint32_t>(spec.rollout().n());
  for (uint32_t sample = 0; sample < n; ++sample) {
    Payload response = Respond(weights, v1::PURPOSE_TRAIN, prompt, prompt_index, sample);
    response.id = controller::TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, sample, n);
    const std::optional<double> reward = RewardOf(spec, response);
    if (!reward.has_value()) continue;
    response.reward = *reward;
    group.push_back(response);
  }
  return group;
}

// The batch of the step after `run`; groups with too few rewards are replaced by the next prompts.
void DrawStep(const v1::JobSpec& spec, controller::PromptMix& prompts, uint64_t weights,
              ExpectedRun& run) {
  run.batch.clear();
  const auto groups = static_cast<uint64_t>(spec.data().train_batch_size());
  uint64_t missing = groups, lost = 0;
  while (missing > 0) {
    for (uint64_t left = std::exchange(missing, 0); left > 0; --left) {
      const uint64_t prompt_index = run.prompts++;
      if (spec.kind() == v1::JOB_KIND_SFT) {
        run.batch.push_back(Example(prompt_index, prompts.At(prompt_index)));
        run.batch.back().id = controller::TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, 0, 1);
        continue;
      }
      const std::vector<Payload> group =
          GroupOf(spec, weights, prompts.At(prompt_index), prompt_index);
      if (group.size() < LeastInGroup(spec)) {
        ++missing;
        ++lost;
      } else {
        run.batch.insert(run.batch.end(), group.begin(), group.end());
      }
    }
    run.possible = lost < (controller::JobCoreOptions().max_attempts + 1) * groups;
    if (!run.possible) return;
  }
}

}  // namespace

v1::JobSpec SpecOf(const JobPlan& plan) {
  v1::JobSpec spec;
  spec.set_kind(plan.sft ? v1::JOB_KIND_SFT : v1::JOB_KIND_RL);
  spec.set_priority(plan.priority);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  for (size_t i = 1; i < plan.mix.size(); ++i) {
    spec.mutable_data()->add_train_files(absl::StrCat("t", i));
  }
  spec.mutable_data()->mutable_train_mix()->Assign(plan.mix.begin(), plan.mix.end());
  spec.mutable_data()->set_train_batch_size(plan.batch);
  spec.mutable_data()->set_seed(static_cast<int64_t>(plan.seed));
  spec.mutable_trainer()->set_total_training_steps(plan.steps);
  spec.mutable_trainer()->set_save_freq(plan.save_freq);
  spec.mutable_trainer()->set_max_checkpoints(plan.max_checkpoints);
  if (plan.sft) return spec;
  if (plan.keep_all) {
    spec.mutable_trainer()->set_keep_experience("all");
    spec.mutable_trainer()->set_keep_optimizer("all");
  }
  spec.mutable_trainer()->set_keep_best(plan.keep_best ? kMeanScore : "");  // not the default
  if (plan.stops) {
    spec.mutable_trainer()->mutable_early_stop()->set_metric(kMeanScore);
    spec.mutable_trainer()->mutable_early_stop()->set_patience(1);
  }
  spec.mutable_data()->add_val_files("v");
  spec.mutable_trainer()->set_val_before_train(plan.test_freq > 0);
  spec.mutable_trainer()->set_val_after_train(plan.test_freq > 0);
  spec.mutable_trainer()->set_test_freq(plan.test_freq);
  if (plan.val_only) {
    spec.mutable_trainer()->set_val_only(true);
    spec.mutable_trainer()->set_val_before_train(true);
  }
  spec.mutable_rollout()->set_n(plan.samples);
  spec.mutable_algorithm()->set_filter_groups(plan.filter);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  if (plan.error_reward) spec.mutable_reward()->set_error_reward(0);
  spec.mutable_reward()->set_max_error_rate(plan.max_error_rate);
  if (plan.failing_rewards > 0) {
    (*spec.mutable_labels())[kFailingRewards] = absl::StrCat(plan.failing_rewards);
  }
  spec.mutable_algorithm()->set_use_kl_loss(plan.reference);
  spec.mutable_algorithm()->set_recompute_log_prob(plan.recompute);
  if (plan.critic) spec.mutable_algorithm()->set_preset("ppo");
  if (plan.run_ahead) spec.mutable_rollout()->mutable_speculation()->set_run_ahead(true);
  if (plan.async) {
    spec.mutable_algorithm()->set_mode("async");
    spec.mutable_schedule()->set_max_staleness(plan.max_staleness);
    spec.mutable_schedule()->set_sampler(plan.in_order ? "in_order" : "fifo");
    spec.mutable_schedule()->set_pace(plan.paced ? "auto" : "off");
    if (plan.group_timeout > 0) {
      spec.mutable_schedule()->set_group_timeout_seconds(plan.group_timeout);
    }
    if (plan.longest_first && !plan.in_order)
      spec.mutable_schedule()->set_begin_order("longest_first");
  }
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

std::vector<uint64_t> FileSizes(int files) {
  std::vector<uint64_t> sizes;
  uint64_t left = kTrainSize;
  for (int i = 1; i < files; ++i) {
    sizes.push_back(static_cast<uint64_t>(i) + 1);
    left -= sizes.back();
  }
  sizes.push_back(left);
  return sizes;
}

controller::PromptMix PromptsOf(const v1::JobSpec& effective) {
  return {effective.data(), FileSizes(effective.data().train_files_size())};
}

bool IsAsync(const v1::JobSpec& effective) { return effective.algorithm().mode() == "async"; }

uint64_t InitialWeights(const v1::JobSpec& spec, const std::string& role) {
  return Mix(role == "actor" ? 17 : 18, static_cast<uint64_t>(spec.data().seed()));
}

Payload Respond(uint64_t weights, v1::Purpose purpose, uint64_t prompt, uint64_t prompt_index,
                uint32_t sample) {
  Payload out;
  out.purpose = purpose;
  out.prompt_index = prompt_index;
  out.weights = weights;
  out.content =
      Mix(Mix(Mix(Mix(weights, static_cast<uint64_t>(purpose)), prompt), prompt_index), sample);
  out.tokens = 2 + static_cast<uint32_t>(out.content % 7);
  out.reward = RewardIn(out.content);
  return out;
}

double RewardIn(uint64_t content) { return static_cast<double>((content >> 8) % 2); }

Payload Example(uint64_t prompt_index, uint64_t prompt) {
  Payload out;
  out.prompt_index = prompt_index;
  out.content = Mix(99, prompt);
  return out;
}

std::vector<Payload> Filter(const v1::JobSpec& spec, const std::vector<Payload>& batch) {
  if (spec.kind() == v1::JOB_KIND_SFT || !spec.algorithm().filter_groups()) return batch;
  std::map<uint64_t, std::vector<double>> rewards;
  for (const Payload& p : batch) rewards[p.prompt_index].push_back(p.reward);
  std::vector<Payload> kept;
  for (const Payload& p : batch) {
    const std::vector<double>& group = rewards[p.prompt_index];
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    if (group.size() < 2 || *low != *high) kept.push_back(p);
  }
  return kept;
}

uint64_t Train(uint64_t weights, const std::vector<Payload>& batch) {
  for (const Payload& p : batch) {
    weights = Mix(Mix(weights, p.content), p.reward > 0 ? 1 : 0);
  }
  return weights;
}

bool MayFailRewards(const v1::JobSpec& spec) { return spec.labels().count(kFailingRewards) > 0; }

bool RewardFails(const v1::JobSpec& spec, const Payload& response) {
  const auto label = spec.labels().find(kFailingRewards);
  uint64_t percent = 0;
  if (label != spec.labels().end()) (void)absl::SimpleAtoi(label->second, &percent);
  return Mix(response.content, 0x7265776172640aull) % 100 < percent;
}

std::optional<double> RewardOf(const v1::JobSpec& spec, const Payload& response) {
  if (!RewardFails(spec, response)) return response.reward;
  if (!spec.reward().has_error_reward()) return std::nullopt;
  return spec.reward().error_reward();
}

size_t LeastInGroup(const v1::JobSpec& spec) {
  const bool compared = spec.algorithm().preset() != "ppo";  // with each other
  return compared && spec.rollout().n() > 1 ? 2 : 1;
}

ExpectedRun ExpectRun(const v1::JobSpec& effective, int64_t steps, const std::string& role) {
  controller::PromptMix prompts = PromptsOf(effective);
  ExpectedRun run;
  uint64_t actor = InitialWeights(effective, "actor");  // which samples
  run.weights = InitialWeights(effective, role);
  for (int64_t step = 0; step < steps && run.possible; ++step) {
    DrawStep(effective, prompts, actor, run);
    const std::vector<Payload> trained = Filter(effective, run.batch);
    actor = Train(actor, trained);
    run.weights = Train(run.weights, trained);
  }
  return run;
}

ExpectedEnd ExpectEnd(const v1::JobSpec& effective) {
  return ExpectEnd(effective, [&](int64_t step) { return ExpectRun(effective, step); });
}

ExpectedEnd ExpectEnd(const v1::JobSpec& effective,
                      const std::function<ExpectedRun(int64_t step)>& run_of) {
  const int64_t total = effective.trainer().total_training_steps();
  const bool stops = effective.trainer().has_early_stop();
  const bool keeps = !effective.trainer().keep_best().empty();
  ExpectedEnd end;
  end.steps = total;
  double most = -1;
  for (int64_t step = 1; (stops || keeps) && step <= total; ++step) {
    const ExpectedRun run = run_of(step);
    if (run.batch.empty()) break;
    double sum = 0;
    for (const Payload& response : run.batch) sum += response.reward;
    const double mean = sum / static_cast<double>(run.batch.size());
    if (mean > most) {
      most = mean;
      end.best = step;
    } else if (stops) {
      end.steps = step;
      break;
    }
  }
  if (!keeps) end.best = 0;
  return end;
}

uint64_t ExpectedWeights(const v1::JobSpec& effective, int64_t steps, const std::string& role) {
  const ExpectedRun run = ExpectRun(effective, steps, role);
  return run.possible ? run.weights : 0;
}

}  // namespace baton::simulation
