#include "controller/runtime/job/job_threads.h"

#include <exception>
#include <utility>

namespace baton::controller {

JobThreads::JobThreads(const JobScope* scope, std::function<std::shared_ptr<void>()> hold,
                       std::function<void(const std::string&)> quarantine)
    : scope_(scope),
      hold_(std::move(hold)),
      quarantine_(std::move(quarantine)),
      strand_(scope->context->executors->NewStrand()),
      disk_(scope->context->executors->NewDiskStrand()) {}

void JobThreads::OnStrand(Work work) {
  strand_->Post([this, held = hold_(), work = std::move(work)] { TakeTurn(work); });
}

void JobThreads::OnStrandAfter(absl::Duration delay, Work work) {
  strand_->PostAfter(delay, [this, held = hold_(), work = std::move(work)] { TakeTurn(work); });
}

void JobThreads::OnDisk(Work work) {
  disk_->Post([this, held = hold_(), work = std::move(work)] { Guard(work); });
}

void JobThreads::InSlices(std::function<bool()> slice) {
  OnDisk([this, slice = std::move(slice)] {
    const auto mark = scope_->files->MarkWork();
    if (!slice()) InSlices(slice);
  });
}

void JobThreads::OnReaders(Work work) {
  scope_->context->executors->PostRead(
      [this, held = hold_(), work = std::move(work)] { Guard(work); });
}

void JobThreads::OnDataReaders(const v1::DataSpec& data, Work work) {
  const auto held = hold_();
  scope_->context->executors->PostDataRead(
      scope_->name, [this, held, data] { return scope_->files->DataBytes(data); },
      [this, held, work = std::move(work)] { Guard(work); });
}

void JobThreads::TakeTurn(const Work& work) {
  const auto mark = scope_->files->MarkWork();
  try {
    work();
  } catch (const std::exception& thrown) {
    quarantine_(thrown.what());
  }
}

// A turn quarantines the job, so work elsewhere posts one.
void JobThreads::Guard(const Work& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    OnStrand([this, what = std::string(thrown.what())] { quarantine_(what); });
  }
}

}  // namespace baton::controller
