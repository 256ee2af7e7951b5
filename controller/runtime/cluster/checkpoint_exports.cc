#include "controller/runtime/cluster/checkpoint_exports.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/cluster/need_queue.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

void CheckpointExports::Expire(absl::Time now) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    PendingExport& pending = it->second;
    if (core_->workers().SessionOf(pending.worker) != 0) pending.seen = now;
    const bool lost = now - pending.seen > lease_;
    if (pending.deadline > now && !lost) {
      ++it;
      continue;
    }
    auto done = std::move(pending.done);
    const absl::Status why =
        lost ? MakeError(absl::StatusCode::kUnavailable, "NO_WORKER",
                         absl::StrCat("worker ", pending.worker, " is gone; try again"))
             : MakeError(absl::StatusCode::kDeadlineExceeded, "EXPORT_DEADLINE",
                         "no worker finished the export in time; try again");
    it = pending_.erase(it);
    done(why);
  }
}

void CheckpointExports::Begin(const std::string& job, const std::string& checkpoint,
                              PendingExport pending, absl::Time now) {
  const std::string worker = core_->workers().FindMethod(roles::kActor, "export", ProjectId(job));
  if (worker.empty()) {
    return pending.done(MakeError(absl::StatusCode::kUnavailable, "NO_WORKER",
                                  "no attached worker can export (role actor); start one"));
  }
  TaskRef ref;
  ref.kind = TaskKind::kExport;
  ref.subject = next_++;
  ref.incarnation = epoch_;
  v1::ControllerMessage message;
  v1::Task* task = message.mutable_task();
  task->set_task_token(EncodeToken({job, ref}));
  task->set_epoch(epoch_);
  task->set_job(job);
  task->set_role(roles::kActor);
  task->set_method("export");
  task->mutable_export_()->set_checkpoint(checkpoint);
  task->mutable_export_()->set_directory(pending.directory);
  task->mutable_export_()->set_dtype(pending.dtype);
  task->mutable_export_()->set_base_model(pending.base_model);
  pending.worker = worker;
  pending.seen = now;
  pending.deadline = pending.seen + absl::Minutes(10);
  pending_[ref.subject] = std::move(pending);
  directory_->Send(worker, std::move(message));
}

void CheckpointExports::OnResult(const std::string& worker, const TaskRef& ref,
                                 const v1::TaskResult& result) {
  auto it = pending_.find(ref.subject);
  if (it == pending_.end() || ref.incarnation != epoch_) return;
  if (it->second.worker != worker) return;  // another worker was asked
  PendingExport pending = std::move(it->second);
  pending_.erase(it);
  const absl::Status status = FromProto(result.status());
  if (!status.ok()) return pending.done(status);
  v1::ExportCheckpointResponse answer;
  answer.set_directory(pending.directory);
  answer.set_step(pending.step);
  answer.set_dtype(pending.dtype);
  const auto count = [&result](const char* name) -> std::optional<int64_t> {
    const auto metric = result.metrics().find(name);
    // A worker may report any number; only a valid number of weights counts.
    if (metric == result.metrics().end() || !(metric->second >= 0 && metric->second < 1e15)) {
      return std::nullopt;
    }
    return static_cast<int64_t>(metric->second);
  };
  const auto changed = count("changed_weights"), kept = count("kept_weights");
  if (changed.has_value() && kept.has_value()) {
    answer.set_changed_weights(*changed);
    answer.set_kept_weights(*kept);
  }
  pending.done(std::move(answer));
}

}  // namespace baton::controller
