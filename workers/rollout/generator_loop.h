// The loop of the one thread that generates: tasks in, tokens out, weights changed in between.
#ifndef BATON_WORKERS_ROLLOUT_GENERATOR_LOOP_H_
#define BATON_WORKERS_ROLLOUT_GENERATOR_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/task_context.h"
#include "workers/engine/generation/generator.h"
#include "workers/hybrid/shared_policy.h"
#include "workers/rollout/speculation/tree_drafter.h"

namespace baton::rollout {

/// A response that is being sampled.
struct Generation {
  std::shared_ptr<TaskContext> context;
  engine::GenerateRequest request;  ///< The loop gives it its id.
  std::string prompt_text;          ///< As the model sees it.
  std::string prompt_suffix;        ///< What the chat template began the response with.
  /// The policy version that must sample it.
  uint64_t policy_version = 0;
  bool stream = true;  ///< Tokens are sent as they come, not with the result alone.
  /// Only the drafter profits (RunAhead). It gives way to anything else, and its result has nothing
  /// but metric `tokens` and "cancelled", if it had to.
  bool ahead = false;
  bool cancelled = false;                 ///< The generation ends with the next step.
  std::vector<int32_t> tokens;            ///< So far, resumed ones first.
  std::vector<float> log_probs;           ///< One per token, under the full softmax.
  std::vector<float> sampling_log_probs;  ///< One per token, under the distribution sampled from …
  bool truncated = false;                 ///< … which differs: top-k or top-p cut something.
  /// Sums over the generator's steps that gave it tokens: their number, their seconds, and the rows
  /// that each of them decoded, with those of drafts.
  double steps = 0, step_seconds = 0, step_rows = 0;
  int64_t draft_accepted = 0;  ///< Tokens of request.draft that were drawn.
  /// Outcomes of all drafts of the generator since the generation before ended.
  engine::DraftStats drafts;
};

/// Owns the thread that steps a generator: one that its owner loads with versions from elsewhere
/// (LoadWeights), or one that is lent with its weights (Attach, Detach). Thread-safe. Work is taken
/// in the order of the calls; what is run ahead ends as soon as anything else comes.
class GeneratorLoop : public hybrid::GeneratorUser {
 public:
  /// Without a generator, so no version. `finish` builds the result of a generation that ended
  /// ("stop", "length", "cancelled"); on the loop's thread.
  using Finish = std::function<v1::TaskResult(const Generation&, const std::string& reason)>;
  /// `drafter`: proposes drafts to the generator, and catches up with ended responses while the
  /// generator is idle; null: nothing does. It must outlive this.
  explicit GeneratorLoop(Finish finish, TreeDrafter* drafter = nullptr);
  /// Cancels what runs, leaves the generator idle and finishes every task.
  ~GeneratorLoop() override;

  /// Starts a generation; its task is finished by the loop, with an error if the version is not
  /// the one loaded, the generator refuses the request or ends it with an error. Cancels it when
  /// its task is cancelled.
  void Add(Generation generation);

  /// Ends what was added to be run ahead; does not wait for that.
  void StopAhead();

  /// Gives the generator whose model has the weights of a version. It must outlive the loop, and
  /// no other thread may touch it meanwhile.
  using Load = std::function<absl::StatusOr<engine::Generator*>()>;
  /// Waits until all generations added before have ended, runs `load` with the generator idle and
  /// takes `version` as the one loaded. After an error no version is loaded.
  absl::Status LoadWeights(uint64_t version, Load load);

  /// GeneratorUser. Attach: as LoadWeights of what is loaded already, without waiting.
  void Attach(engine::Generator* generator, uint64_t version) override;
  void Detach(const absl::Status& why, std::function<void()> done) override;

 private:
  struct Command;
  struct Inbox;
  void Work();
  void TakeCommands();
  void Start(Generation generation);
  void EndAhead();
  bool AnyForeground() const;
  void RunLoad(Command& command);
  void Step();
  void End(std::map<uint64_t, Generation>::iterator it, const std::string& reason);
  void Fail(std::map<uint64_t, Generation>::iterator it, const absl::Status& error);
  void StopRunning(const absl::Status& why);
  bool idle() const { return generator_ == nullptr || generator_->idle(); }

  // The loop's thread only.
  const Finish finish_;
  TreeDrafter* const drafter_;
  engine::DraftStats reported_;  ///< The generator's counts when a generation last ended.
  std::map<uint64_t, Generation> running_;
  size_t ahead_ = 0;  ///< How many of `running_` are run ahead.
  uint64_t next_id_ = 1;
  engine::Generator* generator_ = nullptr;  ///< Null: no version is loaded.
  absl::Status loaded_;                     ///< Outcome of the last load.
  uint64_t version_ = 0;

  const std::shared_ptr<Inbox> inbox_;  ///< Shared with callbacks that may come late.
  std::thread thread_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_GENERATOR_LOOP_H_
