// The training batches of one job: built, and served to the ranks of its update.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_BATCHES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_BATCHES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/loaded_data.h"
#include "controller/runtime/job/payloads.h"
#include "controller/runtime/payloads/batch_builder.h"
#include "controller/runtime/payloads/batch_part.h"

namespace baton::controller {

/// A batch may be large. So it is made in slices on the disk strand, whose threads all jobs share,
/// and never on the job's own strand, whose threads answer for all jobs. Methods are called on the
/// job's strand, unless they say otherwise.
class Batches {
 public:
  Batches(const JobScope* scope, JobThreads* threads, JobDisk* disk, Payloads* payloads,
          const LoadedData* data)
      : scope_(scope), threads_(threads), disk_(disk), payloads_(payloads), data_(data) {}

  /// Builds the batch, then tells the core BatchBuilt, or PayloadLost. If the batch must have a row
  /// in the store, the row is read first, and the batch is compared with it.
  void Build(const BuildBatch& asked);
  /// The part of the batch that the request asks for. PERMISSION_DENIED (CAPABILITY). NOT_FOUND
  /// (BATCH_NOT_FOUND). UNAVAILABLE (BATCH_NOT_READY). OUT_OF_RANGE (BATCH_RANGE).
  void Fetch(const v1::FetchBatchRequest& request, const Callback<BatchPart>& done);
  /// Names the batch that an update trains on.
  void NameIn(v1::Update* update) const;
  void Drop() { current_ = Batch(); }

 private:
  struct Batch {
    std::string id, capability;
    std::shared_ptr<const BatchEntries> entries;
  };
  using Row = std::shared_ptr<const store::v1::BatchRow>;  // that a batch has; null: none
  struct Building;

  void Begin(const BuildBatch& ask, const Row& recorded);
  void BeginWithRow(BuildBatch ask, absl::StatusOr<std::optional<store::v1::BatchRow>> row);
  bool AddSlice(Building& building);
  void BeginLater(const Building& failed, const absl::Status& status);
  void Take(const BuildBatch& ask, absl::StatusOr<BuiltBatch> built);
  std::string CapabilityOf(const std::string& batch_id) const;
  absl::Status NotHere(const std::string& batch_id) const;
  /// On the disk strand: reads a payload of a batch that is being fetched; tells the core if it is
  /// lost.
  absl::StatusOr<v1::Trajectory> ReadForFetch(const LoggedPayload& payload);

  const JobScope* const scope_;
  JobThreads* const threads_;
  JobDisk* const disk_;
  Payloads* const payloads_;
  const LoadedData* const data_;
  Batch current_;
  uint64_t begun_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_BATCHES_H_
