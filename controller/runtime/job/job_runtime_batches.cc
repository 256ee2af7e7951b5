// JobRuntime: batches, and the rows that some of them have in the store.
//
// How much a batch has, its job says. So it is made in slices on the disk strand, whose threads all
// jobs share, and never on the job's own strand, whose threads answer for all jobs.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job/make_payload.h"
#include "controller/runtime/job/recorded_batch.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

// Entries that are made at once: some milliseconds of work.
constexpr size_t kBatchSlice = 1024;

}  // namespace

// A batch on its way. Used by the disk strand; its entries are the job's once they are taken.
struct JobRuntime::Building {
  /// Add a slice. False: there is more to do.
  bool AddPayloads();
  bool AddExamples();
  void AddTexts(absl::StatusOr<BuiltBatch> made);

  JobRuntime* job = nullptr;
  BuildBatch ask;
  Row recorded;  // what the batch is compared with; null: nothing
  uint64_t number = 0;
  std::shared_ptr<const DataSet> train, val, texts;
  Payloads examples;                                       // of kinds sft and reward_model
  std::vector<std::weak_ptr<const PackedPayload>> cached;  // of kind rl
  std::optional<absl::StatusOr<BatchBuilder>> builder;
  PayloadLost lost;
  size_t next = 0;  // of ask.trajectories, then of the held-out examples
  std::optional<absl::StatusOr<BuiltBatch>> built;
  std::optional<Pretraining> pretraining;
};

// If the batch must have a row, the row is read first, and the batch is compared with it.
void JobRuntime::Do(const BuildBatch& asked) {
  if (asked.recorded == Recorded::kNot) return Build(asked, nullptr);
  OnDisk([this, asked] {
    auto row = ReadBatchRow(*context_->store, name_, asked.step);
    OnStrand([this, effect = asked, row = std::move(row)]() mutable {
      if (IsTerminal(core_.state())) return;
      const bool replays = effect.recorded == Recorded::kReplay;
      absl::Status status = row.status();
      if (status.ok() && !row->has_value()) {
        status = absl::DataLossError(absl::StrCat("step ", effect.step, " cannot be ",
                                                  replays ? "replayed" : "gone on with",
                                                  ": the row of its batch is gone"));
      }
      if (!status.ok()) return Run(BatchBuilt{status, effect.step, effect.incarnation});
      if (replays) AskFor(**row, &effect);
      Build(effect, std::make_shared<const store::v1::BatchRow>(**std::move(row)));
    });
  });
}

// Of payloads that memory has no room for, one at a time is read. `recorded`: what the batch is
// compared with.
void JobRuntime::Build(const BuildBatch& effect, const Row& recorded) {
  const auto building = std::make_shared<Building>();
  building->job = this;
  building->ask = effect;
  building->recorded = recorded;
  building->number = ++builds_;
  building->train = train_;
  building->val = val_;
  building->texts = pretrain_;
  const bool plain = core_.effective_spec().kind() != v1::JOB_KIND_RL;
  if (!plain) {
    building->cached.reserve(effect.trajectories.size());
    for (const TrajectoryInfo& info : effect.trajectories) {
      building->cached.push_back(payloads_.Find(info.id));
    }
    building->builder.emplace(BatchBuilder::Create(submitted_->dataflow(), building->ask));
  }
  InSlices([this, building, plain] {
    if (!building->built.has_value()) {
      return plain ? building->AddExamples() : building->AddPayloads();
    }
    if (building->pretraining.has_value() &&
        !building->pretraining->AddSome(kBatchSlice, &(*building->built)->entries)) {
      return false;
    }
    TakeBatch(building->ask, *std::move(building->built));
    return true;
  });
}

bool JobRuntime::Building::AddPayloads() {
  absl::StatusOr<BatchBuilder>& batch = *builder;
  const size_t end = std::min(cached.size(), next + kBatchSlice);
  for (; next < end && batch.ok(); ++next) {
    const TrajectoryInfo& info = ask.trajectories[next];
    const PayloadCache::Payload packed = cached[next].lock();
    absl::StatusOr<v1::Trajectory> payload;
    if (packed != nullptr) {
      payload = packed->Unpack();
    } else {
      auto read = job->ReadWhole(LoggedPayload(info));
      if (absl::IsUnavailable(read.status())) {
        job->BuildLater(*this, read.status());
        return true;
      }
      if (!read.ok()) {
        lost.trajectories[info.id] = info.serial;
        lost.reason = std::string(read.status().message());
        continue;
      }
      payload = std::move(read);
    }
    if (lost.trajectories.empty()) batch->Add(*payload, cached[next]);
  }
  if (batch.ok() && next < cached.size()) return false;
  if (!lost.trajectories.empty()) {
    job->OnStrand([job = job, lost = lost] {
      if (!IsTerminal(job->core_.state())) job->Run(lost);
    });
    return true;
  }
  absl::StatusOr<BuiltBatch> made = batch.ok() ? batch->Finish() : batch.status();
  if (made.ok() && recorded != nullptr) {
    const absl::Status same = CompareWithRow(*recorded, ask, &*made);
    if (!same.ok()) made = same;
  }
  AddTexts(std::move(made));
  return false;
}

bool JobRuntime::Building::AddExamples() {
  const std::vector<TrajectoryInfo>& asked = ask.trajectories;
  const size_t all = asked.size() + ask.held_out;
  const size_t end = std::min<size_t>(all, next + kBatchSlice);
  for (; next < end; ++next) {
    TrajectoryInfo held_out;
    const bool trains = next < asked.size();
    if (!trains) {
      const uint64_t i = next - asked.size();
      held_out.id = TrajectoryId(v1::PURPOSE_EVAL, i, 0, 1);
      held_out.purpose = v1::PURPOSE_EVAL;
      held_out.draw = held_out.prompt_id = i;
    }
    const TrajectoryInfo& info = trains ? asked[next] : held_out;
    examples.push_back(std::make_shared<const v1::Trajectory>(
        MakeExample(info, FindExample(info, train.get(), val.get()))));
  }
  if (next < all) return false;
  AddTexts(MakePlainBatch(ask, std::move(examples)));
  return false;
}

// The texts that are imitated as well come last.
void JobRuntime::Building::AddTexts(absl::StatusOr<BuiltBatch> made) {
  if (made.ok() && !made->entries.empty() && texts != nullptr) {
    pretraining.emplace(job->submitted_->effective_spec().data(), texts, ask.step);
  }
  built.emplace(std::move(made));
}

// A payload cannot be read for the moment.
void JobRuntime::BuildLater(const Building& failed, const absl::Status& status) {
  OnStrand([this, ask = failed.ask, recorded = failed.recorded, number = failed.number, status] {
    ReadAgain(status, [this, ask, recorded, number] {
      // A batch that the job asked for since stands in place of this one.
      const bool asked = number == builds_ && ask.incarnation == core_.incarnation();
      if (asked) Build(ask, recorded);
    });
  });
}

void JobRuntime::TakeBatch(const BuildBatch& effect, absl::StatusOr<BuiltBatch> built) {
  OnStrand([this, step = effect.step, incarnation = effect.incarnation,
            built = std::move(built)]() mutable {
    if (IsTerminal(core_.state())) return;
    if (!built.ok()) return Run(BatchBuilt{built.status(), step, incarnation});
    batch_.id = BatchId(step, incarnation);
    batch_.capability = Capability(batch_.id);
    // With the texts.
    built->event.size = static_cast<uint32_t>(built->entries.size());
    uint64_t bytes = 0;
    for (const BatchEntry& entry : built->entries) bytes += entry.OwnBytes();
    payloads_.SetBatch(bytes);
    batch_.entries = std::make_shared<const BatchEntries>(std::move(built->entries));
    Run(built->event);
  });
}

}  // namespace baton::controller
