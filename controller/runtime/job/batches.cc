#include "controller/runtime/job/batches.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/payloads/make_payload.h"
#include "controller/runtime/payloads/recorded_batch.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// Entries that are made at once: some milliseconds of work.
constexpr size_t kBatchSlice = 1024;

std::string BatchId(int64_t step, uint64_t incarnation) {
  return absl::StrCat("step-", step, "-", incarnation);
}

TrajectoryInfo HeldOutExample(uint64_t i) {
  TrajectoryInfo held_out;
  held_out.id = TrajectoryId(v1::PURPOSE_EVAL, i, 0, 1);
  held_out.purpose = v1::PURPOSE_EVAL;
  held_out.prompt_index = held_out.prompt_id = i;
  return held_out;
}

}  // namespace

// A batch on its way, used by the disk strand.
struct Batches::Building {
  /// The result of a slice: there is more to do, `built` is set, a payload is lost, or one cannot
  /// be read for the moment.
  enum class Next { kMore, kBuilt, kLost, kLater };
  Next AddPayloads(JobDisk& disk);
  Next AddExamples();
  /// Adds pretraining texts, which the actor imitates as well. False: there are more.
  bool AddTexts() {
    return !pretraining.has_value() || pretraining->AddSome(kBatchSlice, &(*built)->entries);
  }

  BuildBatch ask;
  Row recorded;  // what the batch is compared with; null: nothing
  uint64_t number = 0;
  std::shared_ptr<const v1::Job> submitted;
  std::shared_ptr<const DataSet> train, val, texts;
  SharedPayloads examples;                                 // of kinds sft and reward_model
  std::vector<std::weak_ptr<const PackedPayload>> cached;  // of kind rl
  std::optional<absl::StatusOr<BatchBuilder>> builder;     // of kind rl
  PayloadLost lost;
  absl::Status later;
  size_t next = 0;  // of ask.trajectories, then of the held-out examples
  std::optional<absl::StatusOr<BuiltBatch>> built;
  std::optional<Pretraining> pretraining;

 private:
  Next End(absl::StatusOr<BuiltBatch> made);
};

void Batches::Build(const BuildBatch& asked) {
  if (asked.recorded == Recorded::kNot) return Begin(asked, nullptr);
  threads_->OnDisk([this, asked] {
    auto row = ReadBatchRow(*scope_->context->store, scope_->name, asked.step);
    threads_->OnStrand(
        [this, asked, row = std::move(row)]() mutable { BeginWithRow(asked, std::move(row)); });
  });
}

void Batches::BeginWithRow(BuildBatch ask, absl::StatusOr<std::optional<store::v1::BatchRow>> row) {
  if (IsTerminal(scope_->core.state())) return;
  const bool replays = ask.recorded == Recorded::kReplay;
  absl::Status status = row.status();
  if (status.ok() && !row->has_value()) {
    status = absl::DataLossError(absl::StrCat("step ", ask.step, " cannot be ",
                                              replays ? "replayed" : "gone on with",
                                              ": the row of its batch is gone"));
  }
  if (!status.ok()) return scope_->run(BatchBuilt{status, ask.step, ask.incarnation});
  if (replays) AskFor(**row, &ask);
  Begin(ask, std::make_shared<const store::v1::BatchRow>(**std::move(row)));
}

// Payloads that memory has no room for are read one at a time.
void Batches::Begin(const BuildBatch& ask, const Row& recorded) {
  const auto building = std::make_shared<Building>();
  building->ask = ask;
  building->recorded = recorded;
  building->number = ++begun_;
  building->submitted = scope_->submitted;
  building->train = data_->train();
  building->val = data_->val();
  building->texts = data_->pretrain();
  if (scope_->core.effective_spec().kind() == v1::JOB_KIND_RL) {
    building->cached.reserve(ask.trajectories.size());
    for (const TrajectoryInfo& info : ask.trajectories) {
      building->cached.push_back(payloads_->Find(info.id));
    }
    building->builder.emplace(BatchBuilder::Create(scope_->submitted->dataflow(), building->ask));
  }
  threads_->InSlices([this, building] { return AddSlice(*building); });
}

// On the disk strand. True: the batch is made, or given up.
bool Batches::AddSlice(Building& building) {
  if (building.built.has_value()) {
    if (!building.AddTexts()) return false;
    Take(building.ask, *std::move(building.built));
    return true;
  }
  const Building::Next next =
      building.builder.has_value() ? building.AddPayloads(*disk_) : building.AddExamples();
  if (next == Building::Next::kLater) BeginLater(building, building.later);
  if (next == Building::Next::kLost) {
    threads_->OnStrand([this, lost = building.lost] {
      if (!IsTerminal(scope_->core.state())) scope_->run(lost);
    });
  }
  return next == Building::Next::kLater || next == Building::Next::kLost;
}

Batches::Building::Next Batches::Building::AddPayloads(JobDisk& disk) {
  absl::StatusOr<BatchBuilder>& batch = *builder;
  const size_t end = std::min(cached.size(), next + kBatchSlice);
  for (; next < end && batch.ok(); ++next) {
    const TrajectoryInfo& info = ask.trajectories[next];
    const PayloadCache::Payload packed = cached[next].lock();
    absl::StatusOr<v1::Trajectory> payload =
        packed != nullptr ? packed->Unpack() : disk.ReadWhole(LoggedPayload(info));
    if (absl::IsUnavailable(payload.status())) {
      later = payload.status();
      return Next::kLater;
    }
    if (!payload.ok()) {
      lost.trajectories[info.id] = info.serial;
      lost.reason = std::string(payload.status().message());
    } else if (lost.trajectories.empty()) {
      batch->Add(*payload, cached[next]);
    }
  }
  if (batch.ok() && next < cached.size()) return Next::kMore;
  if (!lost.trajectories.empty()) return Next::kLost;
  absl::StatusOr<BuiltBatch> made = batch.ok() ? batch->Finish() : batch.status();
  if (made.ok() && recorded != nullptr) {
    const absl::Status same = CompareWithRow(*recorded, ask, &*made);
    if (!same.ok()) made = same;
  }
  return End(std::move(made));
}

Batches::Building::Next Batches::Building::AddExamples() {
  const std::vector<TrajectoryInfo>& asked = ask.trajectories;
  const size_t all = asked.size() + ask.held_out;
  const size_t end = std::min<size_t>(all, next + kBatchSlice);
  for (; next < end; ++next) {
    const bool trains = next < asked.size();
    const TrajectoryInfo info = trains ? asked[next] : HeldOutExample(next - asked.size());
    examples.push_back(std::make_shared<const v1::Trajectory>(
        MakeExample(info, FindExample(info, train.get(), val.get()))));
  }
  if (next < all) return Next::kMore;
  return End(MakePlainBatch(ask, std::move(examples)));
}

// Pretraining texts come last.
Batches::Building::Next Batches::Building::End(absl::StatusOr<BuiltBatch> made) {
  if (made.ok() && !made->entries.empty() && texts != nullptr) {
    pretraining.emplace(submitted->effective_spec().data(), texts, ask.step);
  }
  built.emplace(std::move(made));
  return Next::kBuilt;
}

// A payload cannot be read for the moment.
void Batches::BeginLater(const Building& failed, const absl::Status& status) {
  threads_->OnStrand(
      [this, ask = failed.ask, recorded = failed.recorded, number = failed.number, status] {
        disk_->ReadAgain(status, [this, ask, recorded, number] {
          // Not if the job has asked for another batch since.
          if (number == begun_ && ask.incarnation == scope_->core.incarnation())
            Begin(ask, recorded);
        });
      });
}

// On the disk strand.
void Batches::Take(const BuildBatch& ask, absl::StatusOr<BuiltBatch> built) {
  threads_->OnStrand(
      [this, step = ask.step, incarnation = ask.incarnation, built = std::move(built)]() mutable {
        if (IsTerminal(scope_->core.state())) return;
        if (!built.ok()) return scope_->run(BatchBuilt{built.status(), step, incarnation});
        current_.id = BatchId(step, incarnation);
        current_.capability = CapabilityOf(current_.id);
        // The size includes the pretraining texts.
        built->event.size = static_cast<uint32_t>(built->entries.size());
        uint64_t bytes = 0;
        for (const BatchEntry& entry : built->entries) bytes += entry.OwnBytes();
        payloads_->SetBatch(bytes);
        current_.entries = std::make_shared<const BatchEntries>(std::move(built->entries));
        scope_->run(built->event);
      });
}

std::string Batches::CapabilityOf(const std::string& batch_id) const {
  return Mac(scope_->context->secret, {"FetchBatch", scope_->token_name, batch_id});
}

void Batches::NameIn(v1::Update* update) const {
  update->set_batch_id(current_.id);
  update->set_capability(current_.capability);
}

void Batches::Fetch(const v1::FetchBatchRequest& request, const Callback<BatchPart>& done) {
  if (!SameSecret(request.capability(), CapabilityOf(request.batch_id()))) {
    return done(MakeError(absl::StatusCode::kPermissionDenied, "CAPABILITY",
                          "this capability is not for this batch"));
  }
  if (current_.id != request.batch_id()) return done(NotHere(request.batch_id()));
  BatchSource reader;
  reader.read = [this, held = threads_->Hold()](const LoggedPayload& payload) {
    return ReadForFetch(payload);
  };
  reader.post = [this, held = threads_->Hold()](std::function<void()> work) {
    threads_->OnDisk(std::move(work));
  };
  // The reader of the part copies trajectories, which must not happen on the strand.
  threads_->OnReaders(
      [done, part = BatchPart::Of(current_.entries, request, std::move(reader))] { done(part); });
}

// After a restart the batch is built again while its update is running.
absl::Status Batches::NotHere(const std::string& batch_id) const {
  const bool coming = IsActive(scope_->core.state()) &&
                      batch_id == BatchId(scope_->core.step() + 1, scope_->core.incarnation());
  if (coming) {
    return MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                     "the batch is being built again; try again");
  }
  return MakeError(absl::StatusCode::kNotFound, "BATCH_NOT_FOUND",
                   absl::StrCat("the step of batch ", batch_id, " is over"));
}

absl::StatusOr<v1::Trajectory> Batches::ReadForFetch(const LoggedPayload& payload) {
  auto read = disk_->ReadWhole(payload);
  if (read.ok()) return read;
  if (absl::IsUnavailable(read.status())) {
    return MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                     absl::StrCat(read.status().message(), "; try again"));
  }
  const std::string reason(read.status().message());
  threads_->OnStrand([this, payload, reason] {
    scope_->run(PayloadLost{{{payload.id, payload.serial}}, reason});
  });
  return MakeError(absl::StatusCode::kUnavailable, "BATCH_NOT_READY",
                   absl::StrCat("the batch has lost a response: ", reason));
}

}  // namespace baton::controller
