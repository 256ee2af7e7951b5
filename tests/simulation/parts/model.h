// The simulated model: its weights are one number, the hash of everything it was trained on.
//
// So a job that ends with the expected weights lost nothing, repeated nothing and changed no
// order. `ExpectedWeights` works them out without the core: prompt by prompt, in a plain loop.
#ifndef BATON_TESTS_SIMULATION_PARTS_MODEL_H_
#define BATON_TESTS_SIMULATION_PARTS_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/prompts/prompt_mix.h"

namespace baton::simulation {

inline constexpr uint64_t kTrainSize = 10;
inline constexpr uint64_t kValSize = 3;

/// A job that a client submits.
struct JobPlan {
  std::string id;
  std::string project = "default";
  bool sft = false;
  bool filter = false;  ///< Groups whose rewards are all alike are dropped.
  int steps = 3;
  int batch = 2;
  int samples = 2;
  int rollouts = 2;
  int save_freq = 2;
  int test_freq = 0;
  int max_checkpoints = 2;
  int priority = 0;
  bool reference = false;
  bool critic = false;       ///< Preset ppo: one that trains with the actor, and a reference.
  bool recompute = false;    ///< The actor computes the log-probs of responses again.
  int actors = 1;            ///< Ranks of its group.
  int scorers = 1;           ///< Workers of reward, and copies of the reference.
  bool tensor = false;       ///< The actor's ranks hold one copy together; two do of the reference.
  int slowness = 1;          ///< Factor of the time that its tokens and scores take.
  bool error_reward = true;  ///< A response without a reward is worth 0; else it is left out.
  int failing_rewards = 0;   ///< Percent of its responses of which no worker can compute a reward.
  double max_error_rate = 1;                    ///< Bound of reward errors: above it the job fails.
  std::vector<std::vector<std::string>> pools;  ///< Roles that share workers.
  bool keep_best = false;  ///< Keeps its best checkpoint, by critic/score/mean.
  bool stops = false;      ///< Ends when critic/score/mean does not get better.
  bool keep_all = false;   ///< Keeps its experience of every step.
  bool async = false;  ///< Its rollouts run ahead of its trainer, by max_staleness updates at most.
  int max_staleness = 0;
  bool in_order = false;       ///< Its batches take the oldest prompt groups.
  double group_timeout = 0;    ///< Seconds, after which groups go on without stragglers; 0: none.
  bool paced = true;           ///< Groups begin no further ahead than makes steps shorter.
  bool longest_first = false;  ///< Prompts with long responses are begun first.
  bool run_ahead = false;      ///< Idle rollouts sample what is drawn next.
  std::vector<v1::FileMixSpec> mix;  ///< Mix of its files of prompts; empty: it has one file.
  bool val_only = false;             ///< It evaluates the model that it begins with, and ends.
  bool revived = false;              ///< Once it has failed or was cancelled, its user resumes it.
  uint64_t seed = 1;
};
v1::JobSpec SpecOf(const JobPlan& plan);
inline std::string JobNameOf(const JobPlan& plan) {
  return "projects/" + plan.project + "/jobs/" + plan.id;
}
/// The number of the kTrainSize prompts in each of so many files; several files have different
/// numbers.
std::vector<uint64_t> FileSizes(int files);
/// The prompts that the job of an effective spec draws.
controller::PromptMix PromptsOf(const v1::JobSpec& effective);
/// Whether the job of an effective spec is async.
bool IsAsync(const v1::JobSpec& effective);

/// A response, or an example of sft.
struct Payload {
  uint64_t id = 0;  ///< Id of the trajectory.
  v1::Purpose purpose = v1::PURPOSE_TRAIN;
  uint64_t prompt_index = 0;
  uint64_t weights = 0;  ///< Weights that sampled it; 0: an example.
  uint64_t version = 0;  ///< Version of those weights.
  uint64_t branch = 0;   ///< … and branch of the actor that made them (disk.h).
  uint64_t content = 0;
  uint32_t tokens = 0;
  double reward = 0;
};

/// Whether no worker can compute a reward of that response, for a reason of the infrastructure.
bool RewardFails(const v1::JobSpec& spec, const Payload& response);
/// Whether the reward of any response of the job may fail so.
bool MayFailRewards(const v1::JobSpec& spec);
/// The reward that the job counts; nullopt: the response takes no part in a batch.
std::optional<double> RewardOf(const v1::JobSpec& spec, const Payload& response);

/// The first weights of a role that trains.
uint64_t InitialWeights(const v1::JobSpec& spec, const std::string& role);
/// Samples; the same for every worker, attempt and place to resume from.
Payload Respond(uint64_t weights, v1::Purpose purpose, uint64_t prompt, uint64_t prompt_index,
                uint32_t sample);
Payload Example(uint64_t prompt_index, uint64_t prompt);
/// The reward of a response, by its content.
double RewardIn(uint64_t content);
/// Drops groups whose rewards are all alike, if the job's spec wants that, in the order of ids. A
/// group of one stays: there is nothing to compare it with.
std::vector<Payload> Filter(const v1::JobSpec& spec, const std::vector<Payload>& batch);
uint64_t Train(uint64_t weights, const std::vector<Payload>& batch);
/// The least number of responses to a prompt that are trained on together.
size_t LeastInGroup(const v1::JobSpec& spec);
/// An undisturbed run after so many steps.
struct ExpectedRun {
  uint64_t weights = 0;        ///< Weights of the role asked for.
  uint64_t prompts = 0;        ///< Prompts drawn.
  std::vector<Payload> batch;  ///< The last step's, before its filters, with ids and rewards.
  bool possible = true;        ///< False: groups without rewards are drawn anew too often.
};
/// The step that it ends after, by its trainer.early_stop, and the step of its best checkpoint, by
/// trainer.keep_best (0: it keeps none).
struct ExpectedEnd {
  int64_t steps = 0;
  int64_t best = 0;
};
ExpectedRun ExpectRun(const v1::JobSpec& effective, int64_t steps,
                      const std::string& role = "actor");
ExpectedEnd ExpectEnd(const v1::JobSpec& effective);
/// By what `run` answers of each step; one without a batch is not done.
ExpectedEnd ExpectEnd(const v1::JobSpec& effective,
                      const std::function<ExpectedRun(int64_t step)>& run);
/// The weights of ExpectRun; 0: the run is not possible.
uint64_t ExpectedWeights(const v1::JobSpec& effective, int64_t steps,
                         const std::string& role = "actor");

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_MODEL_H_
