#include "controller/runtime/job/job_runtime.h"

#include <exception>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/quarantined_core.h"
#include "controller/runtime/rows/job_rows.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

JobRuntime::JobRuntime(const RuntimeContext* context, JobCore core, int64_t next_log_sequence,
                       bool stored, std::shared_ptr<const v1::Job> quarantined)
    : held_at_start_(core.HeldWorkers()),
      priority_(core.effective_spec().priority()),
      role_needs_(RoleNeedsOf(core.effective_spec(), core.submitted()->dataflow(),
                              core.Brief().model_features())),
      scope_(context, std::move(core), std::move(quarantined),
             [this](const Event& event) { Run(event); }),
      threads_(
          &scope_, [this] { return shared_from_this(); },
          [this](const std::string& thrown) { Quarantine(thrown); }),
      turns_(&scope_, &threads_, stored, [this](const Effect& effect) { effects_.Run(effect); }),
      disk_(&scope_, &threads_),
      feeds_(&scope_, &threads_, &turns_, next_log_sequence),
      data_(&scope_, &threads_),
      payloads_(&scope_, &disk_),
      history_(context, scope_.name, scope_.uid, scope_.submitted),
      saves_(&scope_, &threads_, &disk_),
      batches_(&scope_, &threads_, &disk_, &payloads_, &data_),
      sender_(&scope_, {&threads_, &disk_, &payloads_, &data_, &batches_, &history_, &saves_}),
      reports_(&scope_, &threads_, &turns_, &payloads_, &data_, &saves_),
      effects_(&scope_, {&threads_, &disk_, &feeds_, &data_, &payloads_, &history_, &saves_,
                         &batches_, &sender_, &reports_}),
      explanations_(&scope_, &turns_, &disk_) {
  scope_.restoring = stored && !IsTerminal(scope_.core.state());
  turns_.SetClosed(scope_.quarantined);
}

// ---- The job's life ---------------------------------------------------------------------------

void JobRuntime::Start(std::vector<store::Write> extra, std::function<void()> done) {
  threads_.OnStrand([this, extra = std::move(extra), done = std::move(done)]() mutable {
    Effects effects = scope_.core.Start(scope_.now());
    if (scope_.context->observer != nullptr) {
      scope_.context->observer->OnTurn(scope_.core, effects);
    }
    std::vector<store::Write> writes = turns_.RowsOf(effects);
    EndRestoration(&writes);
    for (store::Write& write : extra) writes.push_back(std::move(write));
    turns_.Finish(std::move(effects), std::move(writes), std::move(done));
  });
}

void JobRuntime::Retire(std::function<void(bool first)> done) {
  threads_.OnStrand([this, done = std::move(done)] {
    const bool first = !retired_ && IsTerminal(scope_.core.state());  // it may have been resumed
    retired_ |= first;
    turns_.SetClosed(retired_ || scope_.quarantined);
    turns_.AfterAll([done, first] { done(first); });
  });
}

void JobRuntime::Unretire() {
  threads_.OnStrand([this] {
    retired_ = false;
    turns_.SetClosed(scope_.quarantined);
  });
}

void JobRuntime::RemoveFiles(std::function<void(const absl::Status&)> done) {
  turns_.Hide();
  threads_.OnDisk([this, done = std::move(done)] { done(disk_.RemoveAll()); });
}

void JobRuntime::Abandon() {
  turns_.Abandon();
  explanations_.Abandon();
  history_.Abandon();
}

void JobRuntime::Tick() {
  threads_.OnStrand([this] {
    if (!explanations_.WriteHealth().ok()) {
      if (held_since_ == absl::InfinitePast()) held_since_ = scope_.now();
      return explanations_.AnswerHeld();
    }
    const absl::Time since = std::exchange(held_since_, absl::InfinitePast());
    if (since != absl::InfinitePast()) Run(TimeLost{scope_.now() - since});
    payloads_.CheckBudget();  // another job may have made room
    Run(baton::controller::Tick{});
  });
}

// ---- Turns ------------------------------------------------------------------------------------

void JobRuntime::Post(Event event) {
  threads_.OnStrand([this, event = std::move(event)] { Run(event); });
}

void JobRuntime::PostAndDescribe(Event event, std::function<absl::Status(const JobCore&)> check,
                                 ExtraRow extra, Callback<v1::Job> done) {
  threads_.OnStrand([this, event = std::move(event), check = std::move(check),
                     extra = std::move(extra), done = std::move(done)] {
    if (retired_) {
      return turns_.AfterAll([done, name = scope_.name] {
        done(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                       absl::StrCat("job '", name, "' is being deleted"), {{"job", name}}));
      });
    }
    // A job that is quarantined cannot go on.
    if (scope_.quarantined && std::holds_alternative<ResumeRequested>(event)) {
      return done(FromProto(scope_.core.Brief().error()));
    }
    if (check) {
      const absl::Status status = check(scope_.core);
      // The reason may be in a turn that is not committed yet.
      if (!status.ok()) return turns_.AfterAll([done, status] { done(status); });
    }
    // The call is answered also if its turn throws.
    const auto answer = std::make_shared<Callback<v1::Job>>(done);
    const auto after = [this, answer] {
      if (const auto call = std::exchange(*answer, nullptr)) call(Snapshot());
    };
    try {
      Run(event, after, extra);
    } catch (const std::exception& thrown) {
      Quarantine(thrown.what());
      after();
    }
  });
}

Effects JobRuntime::Handle(const Event& event) {
  TurnObserver* const observer = scope_.context->observer;
  if (observer != nullptr) observer->OnEvent(scope_.core, event);
  Effects effects = scope_.core.Handle(event, scope_.now());
  if (observer != nullptr) observer->OnTurn(scope_.core, effects);
  return effects;
}

void JobRuntime::Run(const Event& event, std::function<void()> after, const ExtraRow& extra) {
  Effects effects = Handle(event);
  std::vector<store::Write> writes = turns_.RowsOf(effects);
  if (const absl::Status fit = scope_.context->store->CheckRows(writes); !fit.ok()) {
    FailForRows(fit, &effects, &writes);
  }
  if (extra) writes.push_back(extra(scope_.core.Brief()));
  EndRestoration(&writes);
  // A restarted controller does not know where versions come from.
  const auto* const back = std::get_if<WorkerReconnected>(&event);
  if (back != nullptr && back->worker == scope_.core.publisher()) {
    scope_.context->queue->Publishes(scope_.name, back->worker);
  }
  turns_.Finish(std::move(effects), std::move(writes), std::move(after));
  reports_.TakeEarly();
}

// A row that can never be written would be tried for ever, and all jobs wait for the store. The job
// fails in the same turn, so no restart finds the row missing in a job that goes on.
void JobRuntime::FailForRows(const absl::Status& refused, Effects* effects,
                             std::vector<store::Write>* rows) {
  store::Store& store = *scope_.context->store;
  LeaveOutRefused(store, effects, rows);
  Effects failing = Handle(RowsRefused{refused});
  std::vector<store::Write> last = turns_.RowsOf(failing);
  if (!store.CheckRows(last).ok()) LeaveOutRefused(store, &failing, &last);
  std::move(failing.begin(), failing.end(), std::back_inserter(*effects));
  std::move(last.begin(), last.end(), std::back_inserter(*rows));
}

void JobRuntime::EndRestoration(std::vector<store::Write>* writes) {
  const JobCore& core = scope_.core;
  scope_.restoring &= IsActive(core.state()) && !core.knows_trajectories();
  if (!deaths_at_.has_value()) return;
  if (core.step() <= *deaths_at_ && !IsTerminal(core.state())) return;
  deaths_at_.reset();
  writes->push_back({kRestoreTable, scope_.name, std::nullopt});
}

// ---- A job whose work throws ------------------------------------------------------------------

// Nothing of the core is shown, written or sent any more. The rows stay as the last good turn left
// them, and the next start quarantines the job too.
void JobRuntime::Quarantine(const std::string& reason) {
  if (scope_.quarantined || retired_) return;
  const std::string why = absl::StrCat("a turn of the job failed: ", reason);
  baton::Log(LogLevel::kError, "a job is quarantined; the others go on",
             {{"job", scope_.name}, {"reason", why}});
  JobCore& core = scope_.core;
  store::v1::JobRow known;
  *known.mutable_job() = Brief();
  known.mutable_checkpoints()->Assign(core.checkpoints().begin(), core.checkpoints().end());
  scope_.quarantined = true;
  turns_.SetClosed(true);
  JobCore quarantined_core =
      QuarantinedCore(scope_.name, known, QuarantineError(scope_.name, why), *scope_.context);
  std::destroy_at(&core);
  std::construct_at(&core, std::move(quarantined_core));
  const auto answers = turns_.TakeAll();
  reports_.ForgetEarly();
  saves_.Clear();
  effects_.DropWork();
  scope_.context->queue->Quarantine(scope_.name);
  // Calls that waited for these turns are answered now, from the stand-in.
  for (const auto& answer : answers) threads_.TakeTurn(answer);
  store::v1::RestoreRow row;
  row.set_quarantine(why);
  scope_.context->store->Commit({{kRestoreTable, scope_.name, row.SerializeAsString()}},
                                [self = shared_from_this()](const absl::Status& status) {
                                  if (!status.ok()) return;
                                  self->threads_.OnStrand([self = self.get()] {
                                    self->feeds_.EndWith(QuarantineEvent(self->scope_.core));
                                  });
                                });
}

// ---- Reports of workers -----------------------------------------------------------------------

void JobRuntime::OnResult(const std::string& worker, const TaskRef& ref, v1::TaskResult result) {
  threads_.OnStrand([this, worker, ref, result = std::move(result)]() mutable {
    reports_.TakeResult(worker, ref, std::move(result));
  });
}

void JobRuntime::OnProgress(const std::string& worker, const TaskRef& ref, v1::Progress progress) {
  threads_.OnStrand([this, worker, ref, progress = std::move(progress)] {
    reports_.TakeProgress(worker, ref, progress);
  });
}

void JobRuntime::OnWorkerLog(const std::string& worker, const v1::WorkerLog& line) {
  threads_.OnStrand([this, worker, line] { feeds_.AddWorkerLine(worker, line); });
}

// ---- Calls ------------------------------------------------------------------------------------

void JobRuntime::Describe(Callback<v1::Job> done) {
  threads_.OnStrand(
      [this, done = std::move(done)] { turns_.AfterAll([this, done] { done(Snapshot()); }); });
}

void JobRuntime::Explain(Callback<v1::ExplainJobResponse> done) {
  threads_.OnStrand([this, done = std::move(done)] { explanations_.Ask(done); });
}

void JobRuntime::Checkpoints(Callback<std::vector<v1::Checkpoint>> done) {
  threads_.OnStrand([this, done = std::move(done)] {
    // `done` runs after these checkpoints are committed.
    turns_.AfterAll([done, all = scope_.core.checkpoints()] { done(all); });
  });
}

std::unique_ptr<Subscription> JobRuntime::Watch(int64_t after_revision,
                                                std::shared_ptr<EventSink> sink) {
  return feeds_.Watch(after_revision, std::move(sink));
}

std::unique_ptr<Subscription> JobRuntime::ReadLogs(int64_t after, bool follow,
                                                   std::shared_ptr<LogSink> sink) {
  return feeds_.ReadLogs(after, follow, std::move(sink));
}

void JobRuntime::FetchBatch(const v1::FetchBatchRequest& request, Callback<BatchPart> done) {
  threads_.OnStrand([this, request, done = std::move(done)] { batches_.Fetch(request, done); });
}

FoundJob JobRuntime::AsFound() {
  BatchSource log;
  log.read = [self = shared_from_this()](const LoggedPayload& payload) {
    return self->disk_.ReadWhole(payload);
  };
  log.post = [self = shared_from_this()](std::function<void()> work) {
    self->threads_.OnDisk(std::move(work));
  };
  return {scope_.uid, scope_.submitted, std::move(log)};
}

void JobRuntime::FetchHistory(const v1::FetchHistoryRequest& request, JobHistory::Done done) {
  threads_.OnStrand([this, request, done = std::move(done)] {
    JobHistory::Job job;
    job.log = AsFound().log;
    job.on_strand = [self = shared_from_this()](std::function<void()> work) {
      self->threads_.OnStrand(std::move(work));
    };
    const JobCore& core = scope_.core;
    history_.Fetch(request, IsTerminal(core.state()), core.history(), std::move(job), done);
  });
}

void JobRuntime::ReadPayloadAsync(const PayloadLocation& location,
                                  std::function<void(absl::StatusOr<std::string>)> done) {
  threads_.OnDisk([this, location, done = std::move(done)] { done(disk_.Read(location)); });
}

std::vector<uint64_t> JobRuntime::HeldPayloads() const {
  return turns_.empty() ? payloads_.Held() : std::vector<uint64_t>();
}

}  // namespace baton::controller
