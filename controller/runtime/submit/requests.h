// Calls with a request id: each takes effect once, even if it is repeated.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_REQUESTS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_REQUESTS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/store/store.h"
#include "google/protobuf/message.h"

namespace baton::controller {

/// The fields of a call that a repeat must have too.
struct Request {
  std::string id;       ///< Empty: the call has none, and each takes effect.
  std::string project;  ///< The ids of a project are its own.
  /// `method` and `job` of the call (empty: the call does not name one), `checkpoint` and
  /// `changes`.
  store::v1::RequestRow asked;
  /// Requests::FingerprintOf the whole call. Repeats of a call under way have the same. Empty:
  /// `asked` is the whole call.
  std::string fingerprint;
};

/// Table of the calls of all methods: calls under way in memory, and calls that took effect in
/// rows. A row is written in the same commit as the effect. A refused call changed nothing, so a
/// repeat is judged again. On the admission strand, unless a method says otherwise.
class Requests {
 public:
  using Done = Callback<v1::Job>;

  explicit Requests(ControllerScope* scope) : scope_(scope) {}

  /// INVALID_ARGUMENT (REQUEST_ID): the id is too long. Any thread.
  static absl::Status CheckId(const std::string& id);
  /// INVALID_ARGUMENT (REQUEST_ID_REUSED): an earlier call with the id asked for something else.
  /// `what`: how it differs, such as "from a spec". Any thread.
  static absl::Status ReusedError(const std::string& id, const std::string& method,
                                  const std::string& job, const std::string& what);

  /// Runs `act` if the call is new, with a `done` that `act` calls once. A repeat of a call under
  /// way gets that call's answer. A repeat of a call that took effect gets `of_effect` with the
  /// row. Any thread; the rest happens on the admission strand.
  void Once(Request request, std::function<void(Done)> act,
            std::function<void(const store::v1::RequestRow&, Done)> of_effect, Done done);
  /// The row which records that the call took effect on `job`, now. Any thread.
  store::Write RowOf(const Request& request, const std::string& job, const v1::Job* outcome) const;
  /// 32 bytes; equal messages have equal ones. Any thread.
  static std::string FingerprintOf(const google::protobuf::Message& call);
  /// The key of the call's row. Any thread.
  static std::string KeyOf(const Request& request);
  /// Forgets rows that are older than a day, now and then; rows of CreateJob go with the job. On
  /// the cluster's strand.
  void ForgetOld();

 private:
  struct UnderWay {
    Request request;
    std::vector<Done> waiting;  // for the answer, the first call among them
  };

  void Judge(const Request& request, const std::function<void(Done)>& act,
             const std::function<void(const store::v1::RequestRow&, Done)>& of_effect, Done done);
  /// OK, or how a call that asks for `request` differs from one under way …
  static absl::Status CompareUnderWay(const Request& request, const Request& first);
  /// … or from an earlier one.
  static absl::Status Compare(const Request& request, const store::v1::RequestRow& earlier);
  /// The row of a call that took effect, if the job that it made still exists. Blocks.
  absl::StatusOr<std::optional<store::v1::RequestRow>> Find(const std::string& key) const;
  void End(const std::string& key, const absl::StatusOr<v1::Job>& outcome);
  void DeleteOldRows(absl::Time now);

  ControllerScope* const scope_;
  std::map<std::string, UnderWay> under_way_;    // by key
  absl::Time looked_at_ = absl::InfinitePast();  // for old rows; on the cluster's strand
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_REQUESTS_H_
