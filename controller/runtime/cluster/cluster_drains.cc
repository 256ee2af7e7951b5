// ClusterRuntime: workers that an operator drains.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/cluster/cluster_runtime.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

absl::Status ClusterRuntime::ReadDrains(store::Store& store) {
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kWorkerTable, {}));
  for (const store::Row& stored : rows) {
    store::v1::WorkerRow row;
    if (!row.ParseFromString(stored.value)) {
      return absl::DataLossError(absl::StrCat("row ", stored.key, " of workers is damaged"));
    }
    if (!row.drain_reason().empty()) core_.KeepDrained(stored.key, row.drain_reason());
  }
  return absl::OkStatus();
}

v1::Worker ClusterRuntime::WorkerNamed(const std::string& worker) const {
  for (v1::Worker& known : core_.workers().List(now_)) {
    if (known.worker_id() == worker) return std::move(known);
  }
  v1::Worker gone;
  gone.set_worker_id(worker);
  return gone;
}

// `reason` empty: undoes the drain. A restart finds the row that was stored last. Commits answer in
// order, so the last call wins here too.
void ClusterRuntime::SetDrained(const std::string& worker, const std::string& reason,
                                Callback<v1::Worker> done) {
  if (!core_.workers().Knows(worker)) {
    return done(MakeError(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND",
                          core_.workers().Unknown(worker).message()));
  }
  store::Write write = {kWorkerTable, worker, std::nullopt};
  if (!reason.empty()) {
    store::v1::WorkerRow row;
    row.set_drain_reason(reason);
    write.value = row.SerializeAsString();
  }
  context_->store->Commit({std::move(write)}, [this, worker, reason,
                                               done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) return done(status);
    Post([this, worker, reason, done] {
      const auto effects = reason.empty() ? core_.OnUndrain(worker) : core_.OnDrain(worker, now_);
      if (effects.ok()) {
        Apply(*effects);
        // the worker left meanwhile, and will be drained when it is back
      } else if (!reason.empty()) {
        core_.KeepDrained(worker, reason);
      }
      done(WorkerNamed(worker));
    });
  });
}

void ClusterRuntime::Drain(const std::string& worker, Callback<v1::Worker> done) {
  Post([this, worker, done = std::move(done)] { SetDrained(worker, "a user asked for it", done); });
}

void ClusterRuntime::Undrain(const std::string& worker, Callback<v1::Worker> done) {
  Post([this, worker, done = std::move(done)] { SetDrained(worker, "", done); });
}

}  // namespace baton::controller
