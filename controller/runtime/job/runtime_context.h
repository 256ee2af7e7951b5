#ifndef BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_CONTEXT_H_
#define BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/core/job/job_core_options.h"
#include "controller/ports/executor.h"
#include "controller/ports/job_files.h"
#include "controller/ports/turn_observer.h"
#include "controller/ports/worker_outbox.h"
#include "controller/ports/worker_queue.h"
#include "controller/runtime/payloads/batch_part.h"
#include "controller/runtime/payloads/payload_cache.h"
#include "controller/runtime/rows/job_rows.h"
#include "controller/store/store.h"
#include "sdk/common/base/clock.h"

namespace baton::controller {

/// A job as seen by another job that begins with its responses. Holds the job.
struct FoundJob {
  std::string uid;
  std::shared_ptr<const v1::Job> submitted;  ///< spec, effective_spec and dataflow.
  BatchSource log;                           ///< Nothing can be read once the job is deleted.
};

/// The ports and options that all jobs share. Outlives every JobRuntime.
struct RuntimeContext {
  Executors* executors = nullptr;
  const Clock* clock = nullptr;
  store::Store* store = nullptr;
  Files* files = nullptr;
  WorkerOutbox* workers = nullptr;
  WorkerQueue* queue = nullptr;
  TurnObserver* observer = nullptr;  ///< Null: no observer.

  KeptRows kept;
  /// Payloads in memory: of all jobs, and the bytes of one (payload_cache.h).
  std::shared_ptr<PayloadBudget> payloads = std::make_shared<PayloadBudget>(kPayloadBytes);
  uint64_t job_payload_bytes = kJobPayloadBytes;
  bool sync_payloads = false;  ///< Sync payloads before the rows that name them are committed.
  std::string secret;          ///< The key of capabilities that open batches.
  std::string relay_key;       ///< The key of capabilities that relays require; empty: none.
  uint64_t epoch = 0;
  JobCoreOptions core;
  /// Finds the job of that full name; nothing: there is none. Never blocks; may answer on any
  /// thread. Thread-safe. Null: jobs do not see each other.
  using FoundIt = std::function<void(std::optional<FoundJob> found)>;
  std::function<void(const std::string& name, FoundIt found)> find_job;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_CONTEXT_H_
