#include "workers/rollout/generator_loop.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "sdk/rpc/error.h"

namespace baton::rollout {

/// A generation to start, or weights to load (then `load` is set).
struct GeneratorLoop::Command {
  Generation generation;
  std::function<absl::Status()> load;
  uint64_t version = 0;
  absl::Status status;
  absl::Notification done;

  void Finish(absl::Status result) {
    status = std::move(result);
    done.Notify();
  }
};

struct GeneratorLoop::Inbox {
  absl::Mutex mu;
  std::deque<std::shared_ptr<Command>> commands ABSL_GUARDED_BY(mu);
  std::vector<std::string> cancelled ABSL_GUARDED_BY(mu);  ///< Task tokens.
  bool busy ABSL_GUARDED_BY(mu) = false;                   ///< The generator has work.
  bool stopping ABSL_GUARDED_BY(mu) = false;
  engine::GeneratorStats stats ABSL_GUARDED_BY(mu);

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return stopping || busy || !cancelled.empty() || !commands.empty();
  }
};

GeneratorLoop::GeneratorLoop(engine::Generator* generator, Finish finish)
    : generator_(generator),
      finish_(std::move(finish)),
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
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->commands.push_back(std::move(command));
  }
  context->OnCancel([inbox = inbox_, token = context->task().task_token()] {
    absl::MutexLock lock(&inbox->mu);
    inbox->cancelled.push_back(token);
  });
}

absl::Status GeneratorLoop::LoadWeights(uint64_t version, std::function<absl::Status()> load) {
  const auto command = std::make_shared<Command>();
  command->load = std::move(load);
  command->version = version;
  {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->commands.push_back(command);
  }
  command->done.WaitForNotification();
  return command->status;
}

engine::GeneratorStats GeneratorLoop::stats() const {
  absl::MutexLock lock(&inbox_->mu);
  return inbox_->stats;
}

void GeneratorLoop::Work() {
  while (true) {
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasWork));
      if (inbox_->stopping) break;
    }
    TakeCommands();
    if (!generator_->idle()) Step();
    absl::MutexLock lock(&inbox_->mu);
    inbox_->busy = !generator_->idle();
    inbox_->stats = generator_->stats();
  }
  const absl::Status why = absl::CancelledError("the rollout role was released");
  FailRunning(why);
  FailWaiting(why);
}

void GeneratorLoop::TakeCommands() {
  while (true) {
    std::vector<std::string> cancelled;
    std::shared_ptr<Command> command;
    {
      absl::MutexLock lock(&inbox_->mu);
      cancelled.swap(inbox_->cancelled);
      if (!inbox_->commands.empty() &&
          (inbox_->commands.front()->load == nullptr || generator_->idle())) {
        command = std::move(inbox_->commands.front());
        inbox_->commands.pop_front();
      }
    }
    for (const std::string& token : cancelled) {
      for (const auto& [id, generation] : running_) {
        if (generation.context->task().task_token() == token) generator_->Cancel(id);
      }
    }
    if (command == nullptr) return;
    if (command->load != nullptr) {
      Load(*command);
    } else {
      Start(std::move(command->generation));
    }
  }
}

void GeneratorLoop::Start(Generation generation) {
  TaskContext& context = *generation.context;
  if (context.cancelled()) {
    context.Finish(finish_(generation, "cancelled"));
    return;
  }
  if (!loaded_ || version_ != generation.policy_version) {
    const std::string held = loaded_ ? absl::StrCat("version ", version_) : "no version yet";
    context.Finish(MakeError(absl::StatusCode::kFailedPrecondition, "WRONG_VERSION",
                             absl::StrCat("asked to sample from policy version ",
                                          generation.policy_version, ", but holds ", held)));
    return;
  }
  const uint64_t id = next_id_++;
  generation.request.id = id;
  const absl::Status added = generator_->Add(generation.request);
  if (!added.ok()) {
    context.Finish(added);
    return;
  }
  running_.emplace(id, std::move(generation));
}

void GeneratorLoop::Load(Command& command) {
  loaded_ = false;
  absl::Status status = command.load();
  if (status.ok()) status = generator_->OnWeightsChanged();
  loaded_ = status.ok();
  version_ = command.version;
  command.Finish(std::move(status));
}

void GeneratorLoop::Step() {
  auto updates = generator_->Step();
  if (!updates.ok()) {
    FailRunning(updates.status());
    return;
  }
  for (engine::GenerateUpdate& update : *updates) {
    const auto it = running_.find(update.id);
    if (it == running_.end()) continue;
    Generation& generation = it->second;
    generation.tokens.insert(generation.tokens.end(), update.new_tokens.begin(),
                             update.new_tokens.end());
    generation.log_probs.insert(generation.log_probs.end(), update.new_log_probs.begin(),
                                update.new_log_probs.end());
    if (update.finished) {
      End(it, update.finish_reason);
    } else if (generation.stream) {
      generation.context->SendProgress(update.new_tokens, update.new_log_probs);
    }
  }
}

void GeneratorLoop::End(std::map<uint64_t, Generation>::iterator it, const std::string& reason) {
  const Generation generation = std::move(it->second);
  running_.erase(it);
  generation.context->Finish(finish_(generation, reason));
}

void GeneratorLoop::FailRunning(const absl::Status& why) {
  for (const auto& [id, generation] : running_) generation.context->Finish(why);
  running_.clear();
}

void GeneratorLoop::FailWaiting(const absl::Status& why) {
  std::deque<std::shared_ptr<Command>> waiting;
  {
    absl::MutexLock lock(&inbox_->mu);
    waiting.swap(inbox_->commands);
  }
  for (const auto& command : waiting) {
    if (command->load != nullptr) {
      command->Finish(why);
    } else {
      command->generation.context->Finish(why);
    }
  }
}

}  // namespace baton::rollout
