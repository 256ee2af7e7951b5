// The names, the core and the shared resources of one job, as its parts see them.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_JOB_SCOPE_H_
#define BATON_CONTROLLER_RUNTIME_JOB_JOB_SCOPE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/loop/job_core.h"
#include "controller/ports/job_files.h"
#include "controller/runtime/job/runtime_context.h"

namespace baton::controller {

/// JobRuntime owns it and changes it. Each part of the job reads it, and is destroyed before it. A
/// part uses another part only if its constructor is handed that part.
struct JobScope {
  /// `quarantined_specs`: those of a job that is quarantined; null: the job is not. `let_handle`:
  /// see `run`.
  JobScope(const RuntimeContext* shared, JobCore handed,
           std::shared_ptr<const v1::Job> quarantined_specs,
           std::function<void(const Event&)> let_handle)
      : context(shared),
        name(handed.name()),
        uid(handed.Brief().uid()),
        token_name(absl::StrCat(name, "#", uid)),
        submitted(quarantined_specs != nullptr ? quarantined_specs : handed.submitted()),
        files(shared->files->FilesOf(name)),
        run(std::move(let_handle)),
        quarantined(quarantined_specs != nullptr),
        core(std::move(handed)) {}

  absl::Time now() const { return context->clock->Now(); }

  // Constant.
  const RuntimeContext* const context;
  const std::string name, uid;
  /// The job's name in task tokens. It differs from that of a later job with the same name.
  const std::string token_name;
  const std::shared_ptr<const v1::Job> submitted;  ///< spec, effective_spec and dataflow.
  const std::unique_ptr<JobFiles> files;
  /// Lets the core handle an event; its effects leave once their rows are committed. On the job's
  /// strand.
  const std::function<void(const Event&)> run;

  /// `core` is a stand-in: nothing is written, and nothing leaves. Any thread.
  std::atomic<bool> quarantined;

  // On the job's strand.
  JobCore core;
  /// Set from a restart until the trajectories of the job's step are known again.
  bool restoring = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_SCOPE_H_
