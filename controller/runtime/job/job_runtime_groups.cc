// JobRuntime: tasks of ranks that share a role's model.
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/spec/role_names.h"
#include "controller/spec/roles.h"

namespace baton::controller {

void JobRuntime::SendAssign(const StartTask& effect, v1::Task task) {
  const TaskArgs& args = effect.args;
  v1::AssignRole* assign = task.mutable_assign_role();
  *assign->mutable_spec() = core_.effective_spec();
  assign->set_world_size(1);
  assign->set_policy_version(args.policy_version);
  if (args.checkpoint_step >= 0) {
    assign->set_checkpoint(files_->CheckpointPath(args.checkpoint_step));
    assign->set_step(args.checkpoint_step);
  }
  const bool guesses = core_.effective_spec().rollout().speculation().mode() == "auto";
  if (args.role == roles::kRollout && guesses) {
    assign->set_history_capability(history_.Capability());
  }
  if (args.hybrid) {
    assign->set_generation_tp(GenerationTp(core_.effective_spec()));
  }
  // The generation of the group goes to the worker with the role, so that a worker that comes back
  // reports it.
  task.mutable_order()->set_pool(args.role);
  task.mutable_order()->set_generation(args.group_epoch);
  const bool grouped = !args.first_worker.empty();
  if (const int ranks = grouped ? RanksOf(core_.effective_spec(), args.role) : 1; ranks > 1) {
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
                     absl::UnavailableError(absl::StrCat(
                         "worker ", effect.args.first_worker,
                         " serves no store where ranks can meet; run a baton-worker there that was "
                         "built with Gloo")),
                     {}});
      });
    }
  }
  Send(effect.worker, std::move(task));
}

// Rank 0 writes into a folder that is created once per try. No rank begins before the folder
// exists, because ranks that have begun would wait for one that cannot begin.
void JobRuntime::SendSave(const StartTask& effect, v1::Task task) {
  const int64_t step = effect.ref.step;
  v1::SaveCheckpoint* save = task.mutable_save_checkpoint();
  save->set_step(step);
  save->set_policy_version(effect.args.policy_version);
  save->set_directory(files_->TemporaryCheckpointPath(step, effect.ref.incarnation));
  for (auto it = saves_.begin(); it != saves_.end();) {  // earlier tries of this role
    const bool old = it->first.target == effect.ref.target && !(it->first == effect.ref);
    it = old ? saves_.erase(it) : std::next(it);
  }
  PreparedSave& prepared = saves_[effect.ref];
  if (prepared.ready) return Send(effect.worker, std::move(task));
  prepared.waiting[effect.worker] = std::move(task);
  if (prepared.preparing) return;
  const bool first = effect.args.rank == 0;
  prepared.preparing = first;
  OnDisk([this, effect, step, first] {
    const uint64_t incarnation = effect.ref.incarnation;
    // After a restart rank 0 may already be writing.
    if (!first && !files_->IsPrepared(step, incarnation)) return;
    const absl::Status prepared =
        first ? files_->PrepareCheckpoint(step, incarnation, effect.args.role) : absl::OkStatus();
    OnStrand([this, effect, prepared] { BeginSave(effect, prepared); });
  });
}

void JobRuntime::BeginSave(const StartTask& effect, const absl::Status& prepared) {
  const auto save = saves_.find(effect.ref);
  if (save == saves_.end()) return;  // a newer try has replaced it
  if (!prepared.ok()) {
    saves_.erase(save);
    return Run(TaskDone{effect.worker, effect.ref, prepared, {}});
  }
  save->second.ready = true;
  for (auto& [worker, task] : std::exchange(save->second.waiting, {})) {
    Send(worker, std::move(task));
  }
}

}  // namespace baton::controller
