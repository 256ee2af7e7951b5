#include "controller/runtime/job/checkpoint_saves.h"

#include <iterator>
#include <memory>
#include <utility>

#include "sdk/common/base/log.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kLookAgain = absl::Seconds(1);  // at a checkpoint that a job copies

}  // namespace

// Rank 0 writes into a folder that is created once per try. No rank begins before the folder
// exists, because ranks that have begun would wait for one that cannot begin.
void CheckpointSaves::Send(const StartTask& effect, v1::Task task) {
  const int64_t step = effect.ref.step;
  v1::SaveCheckpoint* save = task.mutable_save_checkpoint();
  save->set_step(step);
  save->set_policy_version(effect.args.policy_version);
  save->set_directory(scope_->files->TemporaryCheckpointPath(step, effect.ref.incarnation));
  ForgetEarlier(effect.ref);
  Try& current = tries_[effect.ref];
  if (current.ready) return SendNow(effect.worker, std::move(task));
  current.waiting[effect.worker] = std::move(task);
  if (current.preparing) return;
  current.preparing = effect.args.rank == 0;
  Prepare(effect);
}

void CheckpointSaves::ForgetEarlier(const TaskRef& ref) {
  for (auto it = tries_.begin(); it != tries_.end();) {
    const bool old = it->first.target == ref.target && !(it->first == ref);
    it = old ? tries_.erase(it) : std::next(it);
  }
}

void CheckpointSaves::Prepare(const StartTask& effect) {
  threads_->OnDisk([this, effect] {
    const int64_t step = effect.ref.step;
    const uint64_t incarnation = effect.ref.incarnation;
    const bool first = effect.args.rank == 0;
    // After a restart rank 0 may already be writing.
    if (!first && !scope_->files->IsPrepared(step, incarnation)) return;
    const absl::Status prepared =
        first ? scope_->files->PrepareCheckpoint(step, incarnation, effect.args.role)
              : absl::OkStatus();
    threads_->OnStrand([this, effect, prepared] { Begin(effect, prepared); });
  });
}

void CheckpointSaves::Begin(const StartTask& effect, const absl::Status& prepared) {
  const auto current = tries_.find(effect.ref);
  if (current == tries_.end()) return;  // a newer try has replaced it
  if (!prepared.ok()) {
    tries_.erase(current);
    return scope_->run(TaskDone{effect.worker, effect.ref, prepared, {}});
  }
  current->second.ready = true;
  for (auto& [worker, task] : std::exchange(current->second.waiting, {})) {
    SendNow(worker, std::move(task));
  }
}

void CheckpointSaves::SendNow(const std::string& worker, v1::Task task) const {
  v1::ControllerMessage message;
  *message.mutable_task() = std::move(task);
  scope_->context->workers->Send(worker, std::move(message));
}

void CheckpointSaves::NoteFiles(const std::string& role, const v1::TaskResult& result) {
  written_[role] = {result.files().begin(), result.files().end()};
}

void CheckpointSaves::Commit(const CommitCheckpoint& effect) {
  auto committed = std::make_shared<CheckpointCommitted>();
  committed->incarnation = effect.incarnation;
  std::vector<v1::FileHash> files;
  for (const auto& [role, saved] : std::exchange(written_, {})) {
    files.insert(files.end(), saved.begin(), saved.end());
  }
  const auto write = [this, effect, committed, files] {
    auto checkpoint =
        scope_->files->CommitCheckpoint(effect.step, effect.incarnation, effect.row, files);
    if (checkpoint.ok()) committed->checkpoint = *checkpoint;
    // A full disk is waited for; anything else ends the job.
    if (checkpoint.ok() || absl::IsResourceExhausted(checkpoint.status())) {
      return checkpoint.status();
    }
    committed->status = checkpoint.status();
    return absl::OkStatus();
  };
  const auto done = [this, committed](const absl::Status& status) {
    if (status.ok()) scope_->run(*committed);
  };
  // The job may go back to an earlier step while the disk is full. Its next checkpoint clears the
  // folder that this one would complete.
  const auto wanted = [this, incarnation = effect.incarnation] {
    return scope_->core.WantsCheckpoint(incarnation);
  };
  disk_->WriteUntilDone(write, done, wanted);
}

void CheckpointSaves::Delete(const DeleteCheckpoint& effect) {
  threads_->OnDisk([this, effect] { scope_->files->DeleteCheckpoint(effect.checkpoint); });
}

struct CheckpointSaves::Drop {
  std::vector<v1::Checkpoint> checkpoints;
  size_t next = 0;
  std::vector<v1::Checkpoint> held;  // another job copies them
  int64_t freed_bytes = 0;
  absl::Status failed;  // the last error
};

void CheckpointSaves::DropOptimizers(std::vector<v1::Checkpoint> checkpoints) {
  auto drop = std::make_shared<Drop>();
  drop->checkpoints = std::move(checkpoints);
  threads_->InSlices([this, drop] {
    if (!DropNext(drop.get())) return false;
    threads_->OnStrand([this, drop] { EndDrop(*drop); });
    return true;
  });
}

bool CheckpointSaves::DropNext(Drop* drop) {
  if (drop->next == drop->checkpoints.size()) return true;
  const v1::Checkpoint& checkpoint = drop->checkpoints[drop->next++];
  const absl::StatusOr<int64_t> freed = disk_->DropOptimizer(checkpoint);
  if (freed.ok()) {
    drop->freed_bytes += *freed;
  } else if (absl::IsAborted(freed.status())) {
    drop->held.push_back(checkpoint);
  } else {
    drop->failed = freed.status();
  }
  return false;
}

void CheckpointSaves::EndDrop(const Drop& drop) {
  if (drop.freed_bytes > 0) {
    baton::Log(LogLevel::kInfo, "the optimizer's state of older checkpoints is removed",
               {{"job", scope_->name}, {"freed_bytes", drop.freed_bytes}});
  }
  if (!drop.failed.ok()) {
    return baton::Log(LogLevel::kWarn,
                      "the optimizer's state of an older checkpoint stays until the next start",
                      {{"job", scope_->name}, {"error", std::string(drop.failed.message())}});
  }
  if (drop.held.empty()) return scope_->run(OptimizersDropped{});
  threads_->OnStrandAfter(kLookAgain, [this, held = drop.held] { DropOptimizers(held); });
}

void CheckpointSaves::Clear() {
  tries_.clear();
  written_.clear();
}

}  // namespace baton::controller
