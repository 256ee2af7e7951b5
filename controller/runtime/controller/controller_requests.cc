// Controller: a call with a request id takes effect once, even if it is repeated. A row records the
// effect; it is written in the same commit.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kRequestsKept = absl::Hours(24);
constexpr absl::Duration kLookForOldRequests = absl::Minutes(30);
constexpr size_t kLongestRequestId = 256;
constexpr size_t kRequestsAtOnce = 1000;

absl::Status ReusedBy(const std::string& request_id, const std::string& method,
                      const std::string& job) {
  return MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id '", request_id, "' was used for ",
                                method.empty() ? "CreateJob" : method, " of job '", job,
                                "'; give each call an id of its own"),
                   {{"job", job}});
}

}  // namespace

void Controller::Steer(const SteerCall& call, Event event,
                       std::function<absl::Status(const JobCore&)> check, Callback<v1::Job> done) {
  OncePerRequest(
      call,
      [event = std::move(event), check = std::move(check)](const std::shared_ptr<JobRuntime>& job,
                                                           JobRuntime::ExtraRow extra,
                                                           Callback<v1::Job> changed) {
        job->PostAndDescribe(event, check, std::move(extra), std::move(changed));
      },
      std::move(done));
}

void Controller::OncePerRequest(const SteerCall& call, SteerAction act, Callback<v1::Job> done) {
  if (call.request_id.empty()) {
    return WithJob(call.name, done,
                   [act = std::move(act), done](const auto& job) { act(job, nullptr, done); });
  }
  if (call.request_id.size() > kLongestRequestId) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID",
                          absl::StrCat("request_id is longer than ", kLongestRequestId, " bytes")));
  }
  gate_.Post(admission_, [this, call, act = std::move(act), done = std::move(done)]() mutable {
    ActOnce(call, act, std::move(done));
  });
}

// On admission_: two calls with one request id meet here. A refused call changed nothing, so a
// repeat is judged again.
void Controller::ActOnce(const SteerCall& call, const SteerAction& act, Callback<v1::Job> done) {
  const std::string name = FullJobName(call.name);
  const std::string key = absl::StrCat(access::ProjectOf(name), "/", call.request_id);
  if (const auto it = steering_.find(key); it != steering_.end()) {
    if (it->second.method != call.method || it->second.job != name) {
      return done(ReusedBy(call.request_id, it->second.method, it->second.job));
    }
    return it->second.waiting.push_back(std::move(done));
  }
  auto earlier = store_->Get(kRequestTable, key);
  if (!earlier.ok()) return done(earlier.status());
  store::v1::RequestRow row;
  if (earlier->has_value() && row.ParseFromString(**earlier)) {
    if (row.method() != call.method || row.job() != name) {
      return done(ReusedBy(call.request_id, row.method(), row.job()));
    }
    return done(OutcomeOf(row));
  }
  steering_[key] = {call.method, name, {std::move(done)}};
  const int64_t now = absl::ToUnixSeconds(clock_.Now());
  const auto extra = [key, name, now, method = call.method](const v1::Job& after) {
    store::v1::RequestRow done_row;
    done_row.set_job(name);
    done_row.set_method(method);
    done_row.set_time(now);
    *done_row.mutable_outcome() = after;
    return store::Write{kRequestTable, key, done_row.SerializeAsString()};
  };
  const auto end = [this, key](absl::StatusOr<v1::Job> outcome) {
    gate_.Post(admission_, [this, key, outcome = std::move(outcome)] { EndSteer(key, outcome); });
  };
  WithJob(name, end, [act, extra, end](const auto& job) { act(job, extra, end); });
}

void Controller::EndSteer(const std::string& key, const absl::StatusOr<v1::Job>& outcome) {
  auto ended = steering_.extract(key);
  for (const auto& done : ended.mapped().waiting) done(outcome);
}

// The job as it was after the first call.
absl::StatusOr<v1::Job> Controller::OutcomeOf(const store::v1::RequestRow& row) const {
  v1::Job outcome = row.outcome();
  auto job = ended_->Describe(FullJobName(row.job()));
  if (!job.ok() || job->uid() != outcome.uid()) return outcome;  // it was deleted
  v1::Job now = *std::move(job);
  outcome.mutable_spec()->Swap(now.mutable_spec());
  outcome.mutable_effective_spec()->Swap(now.mutable_effective_spec());
  outcome.mutable_dataflow()->Swap(now.mutable_dataflow());
  return outcome;
}

// Rows of CreateJob are deleted with their jobs.
void Controller::ForgetOldRequests() {
  const absl::Time now = clock_.Now();
  if (now - requests_looked_at_ < kLookForOldRequests) return;
  requests_looked_at_ = now;
  gate_.Post(remover_.get_executor(), [this, now] {
    store::ScanOptions scan;
    scan.limit = kRequestsAtOnce;
    while (!gate_.closed()) {
      const auto rows = store_->Scan(kRequestTable, scan);
      if (!rows.ok()) return;
      std::vector<store::Write> old;
      for (const store::Row& stored : *rows) {
        store::v1::RequestRow row;
        if (!row.ParseFromString(stored.value) || row.method().empty()) continue;
        if (absl::FromUnixSeconds(row.time()) + kRequestsKept > now) continue;
        old.push_back({kRequestTable, stored.key, std::nullopt});
      }
      if (!old.empty()) store_->Commit(std::move(old), [](const absl::Status&) {});
      if (rows->size() < scan.limit) return;
      scan.begin = rows->back().key + std::string(1, '\0');
    }
  });
}

}  // namespace baton::controller
