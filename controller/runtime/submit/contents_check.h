// Check at submit for problems of a spec's models and data that workers would find later.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_CONTENTS_CHECK_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_CONTENTS_CHECK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/submit/checker_pool.h"
#include "controller/runtime/submit/submission.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "sdk/common/data_set/answer_use.h"

namespace baton::controller {

/// Asks the checking program (checker_pool.h) about specs, and makes uploads of the data files that
/// the program filtered. Thread-safe.
class ContentsCheck {
 public:
  struct Options {
    std::string data_root;
    uint64_t max_data_bytes = 0;         ///< Limit for one list of files of a spec.
    uint64_t max_data_memory_bytes = 0;  ///< The same in memory.
    CheckerPool::Options checkers;
  };
  /// Objects that are passed by address outlive this.
  ContentsCheck(Options options, Uploads* uploads, DataReaders* readers);

  struct Asked {
    v1::JobSpec* effective = nullptr;  ///< Its data files may be replaced (see `keeps`).
    DataSummaries* data_files = nullptr;
    std::vector<AnswerUse> answer_uses;  ///< DataSetOptions, of lists that rewards judge.
    std::string project;
    /// Data files that the program filtered become uploads of the project, and `effective` then
    /// names them.
    bool keeps = false;
    CallerGone gone;
  };
  using Done = std::function<void(absl::StatusOr<std::vector<v1::FieldViolation>>)>;
  /// Calls `done` once, at once or from a thread that reads data, with all problems. Errors:
  /// RESOURCE_EXHAUSTED (CHECKS_WAITING) and CANCELLED as CheckerPool::Post; UNAVAILABLE: no folder
  /// for filtered files can be made in the data root. What `asked` points at must live, and must
  /// not be touched by others, until `done` is called or destroyed.
  ///
  /// Without the program, or when it cannot begin, there are no problems, except that a spec which
  /// asks to leave out overlong prompts is refused. A check that is not done in time is a problem.
  void Check(Asked asked, Done done);
  /// Ends running checks; afterwards no `done` is called. Call it after the gate is closed.
  void Stop() { checkers_.Stop(); }

 private:
  using FileNames = google::protobuf::RepeatedPtrField<std::string>;
  class Scratch;
  struct Call;
  void OnAnswer(const std::shared_ptr<Call>& call, absl::StatusOr<v1::ValidateJobResponse> answer);
  absl::StatusOr<std::vector<v1::FieldViolation>> Judge(
      Call* call, absl::StatusOr<v1::ValidateJobResponse>* answer);
  std::vector<v1::FieldViolation> TakeFiltered(Call* call, v1::ValidateJobResponse* answer);
  void KeepFiles(const Call& call, const std::string& list, const FileNames& left,
                 const FileNames& given, FileNames* own, std::vector<v1::FieldViolation>* out);

  const Options options_;
  Uploads* const uploads_;
  DataReaders* const readers_;
  CheckerPool checkers_;
};

/// Bytes that are read to take over a check's answer: of the lists that `answer` marks as filtered,
/// and of the files that the program wrote below `folder`.
uint64_t BytesToTakeOver(v1::ValidateJobResponse answer, const std::string& folder);

/// Removes what checks left in a data root when a controller was killed.
void RemoveCheckFolders(const std::string& data_root);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_CONTENTS_CHECK_H_
