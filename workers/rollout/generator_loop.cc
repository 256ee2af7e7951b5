#include "workers/rollout/generator_loop.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/rpc/error.h"

namespace baton::rollout {
namespace {

// Tokens that the drafter follows before the loop looks for commands again: some milliseconds.
constexpr int64_t kCatchUpTokens = 1 << 13;

v1::TaskResult AheadResult(const Generation& generation, const std::string& reason) {
  v1::TaskResult result;
  result.set_finish_reason(reason);
  (*result.mutable_metrics())["tokens"] = static_cast<double>(generation.tokens.size());
  return result;
}

}  // namespace

/// A generation to start; weights to load (then `load` is set); or the end of all before it (then
/// `detached` is).
struct GeneratorLoop::Command {
  Generation generation;
  Load load;
  uint64_t version = 0;
  std::function<void(absl::Status)> loaded;
  std::function<void()> detached;
  absl::Status why;                              ///< Reason of the detachment.
  std::deque<std::shared_ptr<Command>> dropped;  ///< Commands that this one overtook.

  /// Ends the command without running it.
  void Drop(const absl::Status& reason) {
    for (const auto& command : dropped) command->Drop(reason);
    if (detached != nullptr) return detached();
    if (load != nullptr) return loaded(reason);
    generation.context->Finish(reason);
  }
};

struct GeneratorLoop::Inbox {
  absl::Mutex mu;
  std::deque<std::shared_ptr<Command>> commands ABSL_GUARDED_BY(mu);
  std::vector<std::string> cancelled ABSL_GUARDED_BY(mu);  ///< Task tokens.
  bool busy ABSL_GUARDED_BY(mu) = false;                   ///< The generator has work.
  bool stops_ahead ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || busy || !cancelled.empty() || !commands.empty();
  }
  void Push(std::shared_ptr<Command> command) {
    absl::MutexLock lock(&mu);
    commands.push_back(std::move(command));
  }
};

GeneratorLoop::GeneratorLoop(Finish finish, TreeDrafter* drafter)
    : finish_(std::move(finish)),
      drafter_(drafter),
      inbox_(std::make_shared<Inbox>()),
      thread_([this] { Work(); }) {}

GeneratorLoop::~GeneratorLoop() {
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->stopping = true;
  }
  thread_.join();
}

void GeneratorLoop::Add(Generation generation) {
  const std::shared_ptr<TaskContext> context = generation.context;
  auto command = std::make_shared<Command>();
  command->generation = std::move(generation);
  inbox_->Push(std::move(command));
  context->OnCancel([inbox = inbox_, token = context->task().task_token()] {
    absl::MutexLock lock(&inbox->mu);
    inbox->cancelled.push_back(token);
  });
}

void GeneratorLoop::StopAhead() {
  absl::MutexLock lock(&inbox_->mu);
  inbox_->stops_ahead = true;
  for (const auto& command : inbox_->commands) {
    if (command->generation.ahead) command->generation.cancelled = true;
  }
}

absl::Status GeneratorLoop::LoadWeights(uint64_t version, Load load) {
  absl::Status status;
  absl::Notification done;
  auto command = std::make_shared<Command>();
  command->load = std::move(load);
  command->version = version;
  command->loaded = [&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  };
  inbox_->Push(std::move(command));
  done.WaitForNotification();
  return status;
}

void GeneratorLoop::Attach(engine::Generator* generator, uint64_t version) {
  auto command = std::make_shared<Command>();
  command->load = [generator] { return generator; };
  command->version = version;
  command->loaded = [](const absl::Status&) {};
  inbox_->Push(std::move(command));
}

void GeneratorLoop::Detach(const absl::Status& why, std::function<void()> done) {
  auto command = std::make_shared<Command>();
  command->why = why;
  command->detached = std::move(done);
  absl::MutexLock lock(&inbox_->mu);
  command->dropped.swap(inbox_->commands);
  inbox_->commands.push_back(std::move(command));
}

void GeneratorLoop::Work() {
  while (true) {
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasWork));
      if (inbox_->stopping) break;
    }
    TakeCommands();
    bool busy = true;
    if (!idle()) {
      Step();
    } else {
      busy = drafter_ != nullptr && drafter_->CatchUp(kCatchUpTokens);
    }
    absl::MutexLock lock(&inbox_->mu);
    inbox_->busy = busy || !idle();
  }
  const absl::Status why = absl::CancelledError("the rollout role was released");
  StopRunning(why);
  std::deque<std::shared_ptr<Command>> waiting;
  {
    absl::MutexLock lock(&inbox_->mu);
    waiting.swap(inbox_->commands);
  }
  for (const auto& command : waiting) command->Drop(why);
}

void GeneratorLoop::TakeCommands() {
  while (true) {
    std::vector<std::string> cancelled;
    std::shared_ptr<Command> command;
    bool stops_ahead = false;
    {
      absl::MutexLock lock(&inbox_->mu);
      cancelled.swap(inbox_->cancelled);
      const bool loads = !inbox_->commands.empty() && inbox_->commands.front()->load != nullptr;
      if (!inbox_->commands.empty() && (!loads || idle())) {
        command = std::move(inbox_->commands.front());
        inbox_->commands.pop_front();
      }
      stops_ahead = std::exchange(inbox_->stops_ahead, false) || loads;
    }
    if (stops_ahead) EndAhead();
    for (const std::string& token : cancelled) {
      for (auto& [id, generation] : running_) {
        if (generation.context->task().task_token() != token) continue;
        generator_->Cancel(id);
        generation.cancelled = true;
      }
    }
    if (command == nullptr) return;
    if (command->detached != nullptr) {
      StopRunning(command->why);
      command->Drop(command->why);
    } else if (command->load != nullptr) {
      RunLoad(*command);
    } else {
      Start(std::move(command->generation));
    }
  }
}

void GeneratorLoop::Start(Generation generation) {
  TaskContext& context = *generation.context;
  if (context.cancelled() || generation.cancelled || (generation.ahead && AnyForeground())) {
    context.Finish(generation.ahead ? AheadResult(generation, "cancelled")
                                    : finish_(generation, "cancelled"));
    return;
  }
  if (!generation.ahead) EndAhead();
  if (generator_ == nullptr || version_ != generation.policy_version) {
    const std::string held = generator_ != nullptr ? absl::StrCat("version ", version_)
                             : loaded_.ok()
                                 ? "no version"
                                 : absl::StrCat("none, for version ", version_,
                                                " could not be loaded: ", loaded_.message());
    context.Finish(MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                             absl::StrCat("asked to sample from policy version ",
                                          generation.policy_version, ", but holds ", held)));
    return;
  }
  // Drafts of responses that were run ahead are not counted.
  if (running_.size() == ahead_) reported_ = generator_->stats().drafts;
  const uint64_t id = next_id_++;
  generation.request.id = id;
  const absl::Status added = generator_->Add(generation.request);
  if (!added.ok()) {
    context.Finish(added);
    return;
  }
  ahead_ += generation.ahead ? 1 : 0;
  running_.emplace(id, std::move(generation));
}

bool GeneratorLoop::AnyForeground() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& running) {
    return !running.second.ahead && !running.second.cancelled;
  });
}

void GeneratorLoop::EndAhead() {
  for (auto it = running_.begin(); it != running_.end() && ahead_ > 0;) {
    if (!it->second.ahead) {
      ++it;
      continue;
    }
    generator_->Cancel(it->first);  // Step finds no such response then, and ignores the report
    it->second.context->Finish(AheadResult(it->second, "cancelled"));
    it = running_.erase(it);
    --ahead_;
  }
}

void GeneratorLoop::RunLoad(Command& command) {
  generator_ = nullptr;
  version_ = command.version;
  const auto loaded = command.load();
  absl::Status status = loaded.status();
  if (status.ok()) status = (*loaded)->OnWeightsChanged();
  if (status.ok()) {
    generator_ = *loaded;
    reported_ = generator_->stats().drafts;
    if (drafter_ != nullptr) drafter_->SetActorUpdates(static_cast<int64_t>(version_));
    generator_->SetDrafter(drafter_);
  }
  loaded_ = status;
  command.loaded(std::move(status));
}

void GeneratorLoop::Step() {
  const absl::Time began = BootNow();
  const int64_t drafted = generator_->stats().drafts.rows;
  if (drafter_ != nullptr) drafter_->SetAhead(running_.size() == ahead_);
  auto updates = generator_->Step();
  const double seconds = absl::ToDoubleSeconds(BootNow() - began);
  if (!updates.ok()) {
    for (const auto& [id, generation] : running_) generation.context->Finish(updates.status());
    running_.clear();
    ahead_ = 0;
    return;
  }
  // Reports of what was cancelled cost no rows.
  const auto decoded = std::count_if(updates->begin(), updates->end(), [&](const auto& update) {
    return running_.count(update.id) > 0;
  });
  const auto rows =
      static_cast<double>(decoded) + static_cast<double>(generator_->stats().drafts.rows - drafted);
  for (engine::GenerateUpdate& update : *updates) {
    const auto it = running_.find(update.id);
    if (it == running_.end()) continue;
    Generation& generation = it->second;
    ++generation.steps;
    generation.step_seconds += seconds;
    generation.step_rows += rows;
    generation.tokens.insert(generation.tokens.end(), update.new_tokens.begin(),
                             update.new_tokens.end());
    generation.log_probs.insert(generation.log_probs.end(), update.new_log_probs.begin(),
                                update.new_log_probs.end());
    generation.sampling_log_probs.insert(generation.sampling_log_probs.end(),
                                         update.new_sampling_log_probs.begin(),
                                         update.new_sampling_log_probs.end());
    generation.draft_accepted += update.draft_accepted;
    if (!update.error.ok()) {
      Fail(it, update.error);
    } else if (update.finished) {
      End(it, update.finish_reason);
    } else if (generation.stream) {
      generation.context->SendProgress(
          update.new_tokens, update.new_log_probs,
          generation.truncated ? update.new_sampling_log_probs : std::vector<float>());
    }
  }
}

void GeneratorLoop::End(std::map<uint64_t, Generation>::iterator it, const std::string& reason) {
  Generation generation = std::move(it->second);
  running_.erase(it);
  if (generation.ahead) {
    --ahead_;
    return generation.context->Finish(AheadResult(generation, reason));
  }
  const engine::DraftStats now = generator_->stats().drafts;
  generation.drafts = now - std::exchange(reported_, now);
  generation.context->Finish(finish_(generation, reason));
}

/// Ends one task; the others go on.
void GeneratorLoop::Fail(std::map<uint64_t, Generation>::iterator it, const absl::Status& error) {
  const Generation generation = std::move(it->second);
  running_.erase(it);
  ahead_ -= generation.ahead ? 1 : 0;
  generation.context->Finish(error);
}

/// Ends what runs, and holds no generator any more.
void GeneratorLoop::StopRunning(const absl::Status& why) {
  for (const auto& [id, generation] : running_) {
    generator_->Cancel(id);
    generation.context->Finish(why);
  }
  running_.clear();
  ahead_ = 0;
  // Only reports of requests that ended are left; an error drops those too.
  while (!idle()) generator_->Step().IgnoreError();
  if (generator_ != nullptr) generator_->SetDrafter(nullptr);
  generator_ = nullptr;
  loaded_ = absl::OkStatus();
}

}  // namespace baton::rollout
