// Controller: workers that an operator drains. A drain is a row, so that it survives the end of the
// lease, of the worker's process and of this controller, until the operator undoes it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/tables.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

absl::Status Controller::ReadDrains() {
  BATON_ASSIGN_OR_RETURN(const auto rows, store_->Scan(kWorkerTable, {}));
  for (const store::Row& stored : rows) {
    store::v1::WorkerRow row;
    if (!row.ParseFromString(stored.value)) {
      return absl::DataLossError(absl::StrCat("row ", stored.key, " of workers is damaged"));
    }
    if (!row.drain_reason().empty()) cluster_->KeepDrained(stored.key, row.drain_reason());
  }
  return absl::OkStatus();
}

v1::Worker Controller::WorkerNamed(const std::string& worker) const {
  for (v1::Worker& known : cluster_->workers().List(clock_.Now())) {
    if (known.worker_id() == worker) return std::move(known);
  }
  v1::Worker gone;
  gone.set_worker_id(worker);
  return gone;
}

// `reason` empty: undoes the drain. A restart finds the row that was stored last. Commits answer in
// order, so the last call wins here too.
void Controller::SetDrained(const std::string& worker, const std::string& reason,
                            const Callback<v1::Worker>& done) {
  if (!cluster_->workers().Knows(worker)) {
    return done(MakeError(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND",
                          absl::StrCat("no worker '", worker,
                                       "' is attached or drained; `baton workers` lists them")));
  }
  store::Write write = {kWorkerTable, worker, std::nullopt};
  if (!reason.empty()) {
    store::v1::WorkerRow row;
    row.set_drain_reason(reason);
    write.value = row.SerializeAsString();
  }
  store_->Commit({std::move(write)}, [this, worker, reason, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    OnCluster([this, worker, reason, done] {
      auto effects =
          reason.empty() ? cluster_->OnUndrain(worker) : cluster_->OnDrain(worker, clock_.Now());
      if (effects.ok()) {
        Apply(*effects);
        // the worker left meanwhile, and will be drained when it is back
      } else if (!reason.empty()) {
        cluster_->KeepDrained(worker, reason);
      }
      done(WorkerNamed(worker));
    });
  });
}

void Controller::DrainWorker(v1::DrainWorkerRequest request, Callback<v1::Worker> done) {
  OnCluster([this, request = std::move(request), done = std::move(done)] {
    SetDrained(request.worker_id(), "a user asked for it", done);
  });
}

void Controller::UndrainWorker(v1::UndrainWorkerRequest request, Callback<v1::Worker> done) {
  OnCluster([this, request = std::move(request), done = std::move(done)] {
    SetDrained(request.worker_id(), "", done);
  });
}

}  // namespace baton::controller
