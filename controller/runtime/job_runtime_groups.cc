// JobRuntime: tasks of ranks that train a role together.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/roles.h"
#include "controller/runtime/job_runtime.h"

namespace baton::controller {

void JobRuntime::SendAssign(const StartTask& effect, v1::Task task) {
  const TaskArgs& args = effect.args;
  v1::AssignRole* assign = task.mutable_assign_role();
  *assign->mutable_spec() = core_.effective_spec();
  assign->set_world_size(1);
  assign->set_policy_version(args.policy_version);
  if (args.checkpoint_step >= 0) {
    assign->set_checkpoint(checkpoint_files_.PathOf(args.checkpoint_step));
    assign->set_step(args.checkpoint_step);
  }
  // The group's generation travels with the role, so that a worker that comes back tells it.
  task.mutable_order()->set_pool(args.role);
  task.mutable_order()->set_generation(args.generation);
  const bool trained = !args.first_worker.empty();
  if (const int ranks = trained ? RanksOf(core_.effective_spec(), args.role) : 1; ranks > 1) {
    assign->set_rank(static_cast<int>(args.rank));
    assign->set_world_size(ranks);
    v1::Rendezvous* meet = assign->mutable_rendezvous();
    const GroupShape shape = ShapeOf(core_.effective_spec(), args.role);
    meet->set_tp(shape.tp);
    meet->set_dp(shape.dp);
    meet->set_store(context_->workers->GroupStoreOf(args.first_worker));
    meet->set_name(absl::StrCat(token_name_, "/", args.role));
    if (meet->store().empty()) {
      return OnStrand([this, effect] {
        Run(TaskDone{effect.worker,
                     effect.ref,
                     absl::FailedPreconditionError(absl::StrCat(
                         "worker ", effect.args.first_worker,
                         " serves no store where ranks could meet; it has to run a baton-worker "
                         "that was built with Gloo")),
                     {}});
      });
    }
  }
  Send(effect.worker, std::move(task));
}

// Rank 0 writes, into a folder that is prepared once; nobody begins before it stands, for ranks
// that began would wait for one that cannot.
void JobRuntime::SendSave(const StartTask& effect, v1::Task task) {
  const int64_t step = effect.ref.step;
  v1::SaveCheckpoint* save = task.mutable_save_checkpoint();
  save->set_step(step);
  save->set_policy_version(effect.args.policy_version);
  save->set_directory(checkpoint_files_.TemporaryOf(step, effect.ref.incarnation));
  if (effect.args.rank > 0) {
    const auto waiting = waiting_saves_.find(effect.args.role);
    if (waiting == waiting_saves_.end()) return Send(effect.worker, std::move(task));
    waiting->second.emplace_back(effect.worker, std::move(task));
    return;
  }
  waiting_saves_[effect.args.role] = {{effect.worker, std::move(task)}};
  OnDisk([this, effect, step] {
    auto directory = checkpoint_files_.Prepare(step, effect.ref.incarnation, effect.args.role);
    OnStrand([this, effect, directory] {
      auto ready = waiting_saves_.extract(effect.args.role);
      if (!directory.ok()) {
        return Run(TaskDone{effect.worker, effect.ref, directory.status(), {}});
      }
      if (ready.empty()) return;
      for (auto& [worker, task] : ready.mapped()) Send(worker, std::move(task));
    });
  });
}

}  // namespace baton::controller
