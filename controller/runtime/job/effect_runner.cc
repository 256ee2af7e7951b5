#include "controller/runtime/job/effect_runner.h"

#include <variant>

namespace baton::controller {

void EffectRunner::Run(const Effect& effect) {
  std::visit([this](const auto& e) { Do(e); }, effect);
}

void EffectRunner::Do(const DropLogFiles& effect) {
  parts_.threads->OnDisk([this, effect] { parts_.disk->DropFiles(effect); });
}

void EffectRunner::Do(const DropPayloads& effect) {
  for (uint64_t id : effect.trajectories) parts_.payloads->Drop(id);
}

void EffectRunner::Do(const EmitEvent& effect) {
  const v1::JobEvent& event = effect.event;
  parts_.feeds->Emit(event);
  if (event.type() == "state" && IsTerminal(event.state())) DropWork();
}

void EffectRunner::Do(const NeedWorkers& effect) {
  scope_->context->queue->Need(scope_->name, effect);
}

void EffectRunner::Do(const ReturnWorker& effect) {
  scope_->context->queue->Return(scope_->name, effect);
}

void EffectRunner::Do(const LeaveQueue& /*effect*/) {
  scope_->context->queue->Leave(scope_->name);
  parts_.data->StopReading();
  parts_.reports->RefuseEarly();
}

void EffectRunner::DropWork() {
  parts_.batches->Drop();
  parts_.payloads->DropAll();
  parts_.history->Forget();
  parts_.data->Drop();
  parts_.threads->OnDisk([this] { parts_.disk->CloseLog(); });  // readers open it again
}

}  // namespace baton::controller
