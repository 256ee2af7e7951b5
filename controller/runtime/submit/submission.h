// A CreateJob call, until its job exists.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_H_

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/spec/job_spec/spec.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace baton::controller {

/// The contents of the data lists, one entry per list that has files.
using DataSummaries = google::protobuf::RepeatedPtrField<v1::DataFilesSummary>;

/// The checkpoint that a job goes on from.
struct Origin {
  std::filesystem::path checkpoint;
  /// The checkpoint is in the folder of this job, which the store does not know; or empty.
  std::string lost_job;
};

/// Threads that serve nothing else read and copy its files. Before and after that, it is on the
/// controller's admission strand. Used by one thread at a time.
struct Submission {
  v1::CreateJobRequest request;  ///< Its project is a valid id.
  Callback<v1::Job> done;
  CallerGone gone;
  /// A place among its project's submissions that wait for their answers.
  std::shared_ptr<void> place;
  /// A place among its project's unfinished jobs (Projects::EnterNewJob), until its job exists.
  std::shared_ptr<void> job_place;
  std::string uid;    ///< The new job's uid.
  absl::Status read;  ///< The problem with the files that it names.
  /// A place among its project's submissions with files in `staged`.
  std::shared_ptr<void> copies_place;
  std::shared_ptr<void> room;  ///< Reserved bytes of the project's jobs, for copies …
  int64_t room_bytes = 0;      ///< … and their number.
  std::unique_ptr<StagedFolder> staged;
  /// A model in `staged`.
  struct Copy {
    std::string name;    ///< In the job's folder.
    std::string source;  ///< The folder from which it was copied.
  };
  std::map<std::string, Copy> copies;  ///< By folder in `staged`.
  // With a spec.
  CheckedSpec checked;
  std::vector<v1::FieldViolation> violations;  ///< All problems of the spec.
  // With either.
  DataSummaries data_files;
  std::set<std::string> model_features;  ///< Job.model_features.
  // With a checkpoint.
  Origin origin;
  std::filesystem::path from;  ///< The checkpoint in `staged`, or its place if it is adopted.
  v1::Checkpoint measured;     ///< The sizes of the copy (MeasureCheckpoint).
  bool adopt = false;  ///< The job goes on under the name and in the folder of the lost job.
  /// The row in its job.json; once it is read, its paths are open to the project.
  store::v1::JobRow saved;

  bool from_checkpoint() const { return !request.checkpoint().empty(); }
  /// The spec that the job would follow: the new spec, or that of the saved job.
  v1::JobSpec* effective() {
    return from_checkpoint() ? saved.mutable_job()->mutable_effective_spec() : &checked.effective;
  }
  const v1::Dataflow& dataflow() const {
    return from_checkpoint() ? saved.job().dataflow() : checked.dataflow;
  }
  /// Copies the model of the folder `files` into `staged`, and answers the folder of the copy.
  /// `source`: the path that the user knows. NOT_FOUND: the files were removed; other errors as
  /// LinkFolder.
  absl::StatusOr<std::string> StageModel(const std::filesystem::path& files,
                                         const std::string& source);
  /// Replaces paths of copies by the folders that the user knows, for messages.
  void NameSources(std::vector<v1::FieldViolation>* violations) const;
  void NameSources(v1::JobSpec* spec) const;
  /// Replaces paths of copies by their future paths in the job's folder.
  void PlaceCopies(const std::filesystem::path& folder, v1::JobSpec* spec) const;
  /// Removes everything from the disk, and frees its places, before the caller gets its answer.
  void Refuse(const absl::Status& status) {
    staged.reset();
    LeavePlaces();
    done(status);
  }
  /// Frees its places, except the one among submissions that wait for their answers.
  void LeavePlaces() {
    copies_place.reset();
    room.reset();
    job_place.reset();
  }
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_H_
