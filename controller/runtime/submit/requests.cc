#include "controller/runtime/submit/requests.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/message_differencer.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kRequestsKept = absl::Hours(24);
constexpr absl::Duration kLookForOldRequests = absl::Minutes(30);
constexpr size_t kLongestRequestId = 256;
constexpr size_t kRequestsAtOnce = 1000;

bool MakesJob(const store::v1::RequestRow& row) {
  return row.method().empty() || row.method() == kCreateReplay;
}

}  // namespace

absl::Status Requests::CheckId(const std::string& id) {
  if (id.size() <= kLongestRequestId) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                   absl::StrCat("request_id is longer than ", kLongestRequestId, " bytes"));
}

absl::Status Requests::ReusedError(const std::string& id, const std::string& method,
                                   const std::string& job, const std::string& what) {
  const std::string of_job = job.empty() ? "" : absl::StrCat(" of job '", job, "'");
  return MakeError(
      absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
      absl::StrCat("request_id '", id, "' was used for ", method.empty() ? "CreateJob" : method,
                   of_job, what.empty() ? "" : " ", what, "; give each call an id of its own"),
      {{"job", job}});
}

std::string Requests::FingerprintOf(const google::protobuf::Message& call) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream text(&bytes);
    google::protobuf::io::CodedOutputStream out(&text);
    out.SetSerializationDeterministic(true);  // the entries of a map have one order
    call.SerializeToCodedStream(&out);
  }
  return Sha256(bytes);
}

std::string Requests::KeyOf(const Request& request) {
  return absl::StrCat(request.project, "/", request.id);
}

void Requests::Once(Request request, std::function<void(Done)> act,
                    std::function<void(const store::v1::RequestRow&, Done)> of_effect, Done done) {
  if (absl::Status status = CheckId(request.id); !status.ok()) return done(std::move(status));
  scope_->OnAdmission([this, request = std::move(request), act = std::move(act),
                       of_effect = std::move(of_effect), done = std::move(done)] {
    if (request.id.empty()) return act(done);
    Judge(request, act, of_effect, done);
  });
}

// Two calls with one request id meet here.
void Requests::Judge(const Request& request, const std::function<void(Done)>& act,
                     const std::function<void(const store::v1::RequestRow&, Done)>& of_effect,
                     Done done) {
  const std::string key = KeyOf(request);
  if (const auto it = under_way_.find(key); it != under_way_.end()) {
    absl::Status same = CompareUnderWay(request, it->second.request);
    if (!same.ok()) return done(std::move(same));
    return it->second.waiting.push_back(std::move(done));
  }
  const auto earlier = Find(key);
  if (!earlier.ok()) return done(earlier.status());
  if (earlier->has_value()) {
    absl::Status same = Compare(request, **earlier);
    if (!same.ok()) return done(std::move(same));
    return of_effect(**earlier, std::move(done));
  }
  under_way_[key] = {request, {std::move(done)}};
  act([this, key](absl::StatusOr<v1::Job> outcome) {
    scope_->OnAdmission([this, key, outcome = std::move(outcome)] { End(key, outcome); });
  });
}

absl::StatusOr<std::optional<store::v1::RequestRow>> Requests::Find(const std::string& key) const {
  auto stored = scope_->store->Get(kRequestTable, key);
  if (!stored.ok()) return stored.status();
  store::v1::RequestRow row;
  if (!stored->has_value() || !row.ParseFromString(**stored)) return std::nullopt;
  if (MakesJob(row) && !scope_->ended->Exists(row.job())) return std::nullopt;  // it was deleted
  return row;
}

absl::Status Requests::CompareUnderWay(const Request& request, const Request& first) {
  if (absl::Status same = Compare(request, first.asked); !same.ok()) return same;
  if (request.fingerprint == first.fingerprint) {
    return absl::OkStatus();
  }
  return ReusedError(request.id, first.asked.method(), first.asked.job(), "with other content");
}

absl::Status Requests::Compare(const Request& request, const store::v1::RequestRow& earlier) {
  const store::v1::RequestRow& asked = request.asked;
  std::string what;
  const bool same_job =
      asked.job().empty() || earlier.job().empty() || asked.job() == earlier.job();
  bool same = same_job && asked.method() == earlier.method();
  if (same && asked.checkpoint() != earlier.checkpoint()) {
    same = false;
    what = earlier.checkpoint().empty() ? "from a spec"
                                        : absl::StrCat("from checkpoint ", earlier.checkpoint());
  }
  if (same && earlier.has_changes() &&
      !google::protobuf::util::MessageDifferencer::Equals(earlier.changes(), asked.changes())) {
    same = false;
    what = "with other changes";
  }
  if (same) return absl::OkStatus();
  return ReusedError(request.id, earlier.method(), earlier.job(), what);
}

void Requests::End(const std::string& key, const absl::StatusOr<v1::Job>& outcome) {
  auto ended = under_way_.extract(key);
  for (const Done& done : ended.mapped().waiting) done(outcome);
}

store::Write Requests::RowOf(const Request& request, const std::string& job,
                             const v1::Job* outcome) const {
  store::v1::RequestRow row = request.asked;
  row.set_job(job);
  if (!row.method().empty()) row.set_time(absl::ToUnixSeconds(scope_->clock.Now()));
  if (outcome != nullptr) *row.mutable_outcome() = *outcome;
  return {kRequestTable, KeyOf(request), row.SerializeAsString()};
}

void Requests::ForgetOld() {
  const absl::Time now = scope_->clock.Now();
  if (now - looked_at_ < kLookForOldRequests) return;
  looked_at_ = now;
  scope_->OnRemover([this, now] { DeleteOldRows(now); });
}

// Rows of CreateJob are deleted with their jobs.
void Requests::DeleteOldRows(absl::Time now) {
  store::ScanOptions scan;
  scan.limit = kRequestsAtOnce;
  while (!scope_->gate.closed()) {
    const auto rows = scope_->store->Scan(kRequestTable, scan);
    if (!rows.ok()) return;
    std::vector<store::Write> old;
    for (const store::Row& stored : *rows) {
      store::v1::RequestRow row;
      if (!row.ParseFromString(stored.value) || row.method().empty()) continue;
      if (absl::FromUnixSeconds(row.time()) + kRequestsKept > now) continue;
      old.push_back({kRequestTable, stored.key, std::nullopt});
    }
    if (!old.empty()) scope_->store->Commit(std::move(old), [](const absl::Status&) {});
    if (rows->size() < scan.limit) return;
    scan.begin = rows->back().key + std::string(1, '\0');
  }
}

}  // namespace baton::controller
