#include "controller/runtime/job/job_runtime.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/stand_in.h"
#include "controller/runtime/rows/job_rows.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/base/cut_text.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/text_bounds.h"
#include "sdk/messages/times.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

// Rows of a history that one reader has in memory at once.
constexpr size_t kHistoryAtOnce = 500;

// A subscriber's handle. The subscription lives until its owner drops it.
class LiveSubscription : public Subscription {
 public:
  explicit LiveSubscription(std::shared_ptr<std::atomic<bool>> alive) : alive_(std::move(alive)) {}
  ~LiveSubscription() override { *alive_ = false; }

 private:
  std::shared_ptr<std::atomic<bool>> alive_;
};

v1::Wait WaitForStore(const absl::Status& health) {
  v1::Wait wait;
  wait.set_kind("store");
  wait.set_subject("every effect of the job");
  wait.set_cause(
      absl::StrCat("access to the files of the data root, which fails: ", health.message()));
  wait.set_action("the access is tried again until it succeeds; nothing is lost");
  return wait;
}

// The next entries after `after`, at most kHistoryAtOnce.
template <typename Entry>
absl::StatusOr<std::vector<Entry>> ReadHistory(store::Store& store, const char* table,
                                               const std::string& job, int64_t after) {
  store::ScanOptions scan = NumberRange(job, after < 0 ? 0 : static_cast<uint64_t>(after) + 1);
  scan.limit = kHistoryAtOnce;
  auto rows = store.Scan(table, scan);
  if (!rows.ok()) return rows.status();
  std::vector<Entry> out;
  for (const store::Row& row : *rows) {
    Entry entry;
    if (!entry.ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("row ", row.key, " of ", table, " is damaged"));
    }
    out.push_back(std::move(entry));
  }
  return out;
}

// What the writes of a turn must survive.
store::Durability DurabilityOfTurn(const Effects& effects,
                                   const std::vector<store::Write>& writes) {
  if (Mutant("unsynced-turn")) return store::Durability::kProcess;
  const auto saves = [](const Effect& effect) {
    return std::holds_alternative<PutCheckpoint>(effect);
  };
  if (Mutant("unsynced-checkpoint") && std::any_of(effects.begin(), effects.end(), saves)) {
    return store::Durability::kProcess;
  }
  return DurabilityOf(writes);
}

}  // namespace

JobRuntime::JobRuntime(const RuntimeContext* context, JobCore core, int64_t next_log_sequence,
                       bool stored, std::shared_ptr<const v1::Job> set_aside)
    : context_(context),
      name_(core.name()),
      uid_(core.Brief().uid()),
      token_name_(absl::StrCat(name_, "#", uid_)),
      files_(context->files->FilesOf(name_)),
      held_at_start_(core.HeldWorkers()),
      priority_(core.effective_spec().priority()),
      role_needs_(RoleNeedsOf(core.effective_spec(), core.submitted()->dataflow(),
                              core.Brief().model_features())),
      submitted_(set_aside != nullptr ? set_aside : core.submitted()),
      strand_(context->executors->NewStrand()),
      disk_(context->executors->NewDiskStrand()),
      set_aside_(set_aside != nullptr),
      core_(std::move(core)),
      restoring_(stored && !IsTerminal(core_.state())),
      payloads_(context->payloads, context->job_payload_bytes),
      history_(context, name_, uid_, submitted_),
      next_log_sequence_(next_log_sequence),
      logs_ended_(IsTerminal(core_.state())),
      stored_(stored),
      spec_written_(stored),
      visible_(stored),
      durable_(std::make_shared<const v1::Job>(core_.Durable())),
      progress_(core_.Progress()) {}

void JobRuntime::OnDisk(std::function<void()> work) {
  disk_->Post([self = shared_from_this(), work = std::move(work)] { self->Guard(work); });
}

void JobRuntime::InSlices(std::function<bool()> slice) {
  OnDisk([this, slice = std::move(slice)] {
    const auto mark = files_->MarkWork();
    if (!slice()) InSlices(slice);
  });
}

void JobRuntime::OnReaders(std::function<void()> work) {
  context_->executors->PostRead(
      [self = shared_from_this(), work = std::move(work)] { self->Guard(work); });
}

void JobRuntime::OnStrand(std::function<void()> work) {
  strand_->Post([self = shared_from_this(), work = std::move(work)] { self->TakeTurn(work); });
}

void JobRuntime::Start(std::vector<store::Write> extra, std::function<void()> done) {
  OnStrand([this, extra = std::move(extra), done = std::move(done)]() mutable {
    Effects effects = core_.Start(context_->clock->Now());
    if (context_->observer != nullptr) context_->observer->OnTurn(core_, effects);
    std::vector<store::Write> writes = RowsOf(effects);
    EndRestoration(&writes);
    for (store::Write& write : extra) writes.push_back(std::move(write));
    Finish(std::move(effects), std::move(writes), std::move(done));
  });
}

void JobRuntime::Retire(std::function<void(bool first)> done) {
  OnStrand([this, done = std::move(done)] {
    const bool first = !retired_ && IsTerminal(core_.state());  // it may have been resumed
    retired_ |= first;
    Finish({}, {}, [done, first] { done(first); });
  });
}

void JobRuntime::Unretire() {
  OnStrand([this] { retired_ = false; });
}

void JobRuntime::RemoveFiles(std::function<void(const absl::Status&)> done) {
  OnDisk([this, done = std::move(done)] {
    log_ = nullptr;
    files_removed_ = true;
    done(files_->RemoveAll());
  });
}

void JobRuntime::Abandon() {
  turns_.clear();
  explains_.clear();
  history_.Abandon();
}

void JobRuntime::Post(Event event) {
  OnStrand([this, event = std::move(event)] { Run(event); });
}

void JobRuntime::Tick() {
  OnStrand([this] {
    const absl::Time now = context_->clock->Now();
    if (!context_->store->health().ok() || !disk_health().ok()) {
      if (held_since_ == absl::InfinitePast()) held_since_ = now;
      return AnswerHeldExplains();
    }
    const absl::Time since = std::exchange(held_since_, absl::InfinitePast());
    if (since != absl::InfinitePast()) Run(TimeLost{now - since});
    CheckPayloadBudget();  // another job may have made room
    Run(baton::controller::Tick{});
  });
}

absl::Status JobRuntime::disk_health() const {
  absl::MutexLock lock(&mu_);
  return disk_health_;
}

void JobRuntime::PostAndDescribe(Event event, std::function<absl::Status(const JobCore&)> check,
                                 ExtraRow extra, Callback<v1::Job> done) {
  OnStrand([this, event = std::move(event), check = std::move(check), extra = std::move(extra),
            done = std::move(done)] {
    if (retired_) {
      return Finish({}, {}, [done, name = name_] {
        done(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                       absl::StrCat("job '", name, "' is being deleted"), {{"job", name}}));
      });
    }
    if (set_aside_ && std::holds_alternative<ResumeRequested>(event)) {  // it could not go on
      return done(FromProto(core_.Brief().error()));
    }
    if (check) {
      const absl::Status status = check(core_);
      // The reason may be in a turn that is not committed yet.
      if (!status.ok()) return Finish({}, {}, [done, status] { done(status); });
    }
    // The call is answered also if its turn throws.
    const auto answer = std::make_shared<Callback<v1::Job>>(done);
    const auto after = [this, answer] {
      if (const auto call = std::exchange(*answer, nullptr)) call(Snapshot());
    };
    try {
      Run(event, after, extra);
    } catch (const std::exception& thrown) {
      SetAside(thrown.what());
      after();
    }
  });
}

void JobRuntime::EndRestoration(std::vector<store::Write>* writes) {
  restoring_ &= IsActive(core_.state()) && !core_.knows_trajectories();
  if (!deaths_at_.has_value()) return;
  if (core_.step() <= *deaths_at_ && !IsTerminal(core_.state())) return;
  deaths_at_.reset();
  writes->push_back({kRestoreTable, name_, std::nullopt});
}

void JobRuntime::Run(const Event& event, std::function<void()> after, const ExtraRow& extra) {
  if (context_->observer != nullptr) context_->observer->OnEvent(core_, event);
  Effects effects = core_.Handle(event, context_->clock->Now());
  if (context_->observer != nullptr) context_->observer->OnTurn(core_, effects);
  std::vector<store::Write> writes = RowsOf(effects);
  if (const absl::Status fit = context_->store->CheckRows(writes); !fit.ok()) {
    FailForRows(fit, &effects, &writes);
  }
  if (extra) writes.push_back(extra(core_.Brief()));
  EndRestoration(&writes);
  Finish(std::move(effects), std::move(writes), std::move(after));
  TakeHeldResults();
}

// A row that can never be written would be tried for ever, and all jobs wait for the store. The job
// fails in the same turn, so no restart finds the row missing in a job that goes on.
void JobRuntime::FailForRows(const absl::Status& refused, Effects* effects,
                             std::vector<store::Write>* rows) {
  LeaveOutRefused(*context_->store, effects, rows);
  const Event event = RowsRefused{refused};
  if (context_->observer != nullptr) context_->observer->OnEvent(core_, event);
  Effects failing = core_.Handle(event, context_->clock->Now());
  if (context_->observer != nullptr) context_->observer->OnTurn(core_, failing);
  std::vector<store::Write> last = RowsOf(failing);
  if (!context_->store->CheckRows(last).ok()) LeaveOutRefused(*context_->store, &failing, &last);
  std::move(failing.begin(), failing.end(), std::back_inserter(*effects));
  std::move(last.begin(), last.end(), std::back_inserter(*rows));
}

// A payload has the prompt and the answer, so it is made when both are known. What a worker has
// made of a response it sends once after it came back: without it, all that follows would be a gap,
// and the response would seem to stand still.
void JobRuntime::TakeHeldResults() {
  if (early_.empty() || !core_.knows_trajectories()) return;
  for (auto& [task, partial] : early_.TakePieces()) {
    const auto& [worker, ref] = task;
    if (!core_.Wants(worker, ref) || Mutant("early-progress-dropped")) continue;
    const auto tokens = static_cast<uint32_t>(partial.tokens.size());
    partials_[ref.subject] = std::move(partial);
    Run(TaskProgressed{worker, ref, tokens});
  }
  for (EarlyResponses::Result& held : early_.TakeResults()) {
    OnResult(held.worker, held.ref, std::move(held.result));
  }
}

std::vector<store::Write> JobRuntime::RowsOf(const Effects& effects) {
  TurnRows rows = RowsOfTurn(core_, effects, context_->kept);
  if (!rows.job) return std::move(rows.writes);
  changed_ = std::make_shared<const v1::Job>(core_.Durable());
  if (!std::exchange(spec_written_, true)) {
    rows.writes.push_back({kSpecTable, name_, submitted_->SerializeAsString()});
  }
  return std::move(rows.writes);
}

void JobRuntime::Finish(Effects effects, std::vector<store::Write> writes,
                        std::function<void()> after) {
  if (retired_ || set_aside_) {
    effects.clear();
    writes.clear();
    changed_ = nullptr;
  }
  const store::Durability durability = DurabilityOfTurn(effects, writes);
  Turn turn;
  turn.effects = std::move(effects);
  turn.durable = std::exchange(changed_, nullptr);
  turn.progress = core_.Progress();
  turn.after = std::move(after);
  turn.committed = writes.empty() || Mutant("effect-before-commit");
  if (Mutant("ack-before-commit")) {
    for (const Effect& effect : turn.effects) {
      if (const auto* ack = std::get_if<AckResult>(&effect)) Do(*ack);
    }
  }
  turns_.push_back(std::move(turn));
  if (!writes.empty()) {
    auto done = [self = shared_from_this()](absl::Status status) {
      // The controller stops: no effect may leave any more.
      if (!status.ok() && !Mutant("failed-commit-forgotten")) return;
      self->OnStrand([self] { self->Committed(); });
    };
    context_->store->Commit(std::move(writes), durability, std::move(done));
  }
  Flush();
}

// Commits are answered in order.
void JobRuntime::Committed() {
  const auto oldest =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return !turn.committed; });
  if (oldest != turns_.end()) oldest->committed = true;
  Flush();
}

void JobRuntime::Flush() {
  if (flushing_) return;  // a turn that is leaving began another one, which must come after it
  flushing_ = true;
  for (auto next = NextToLeave(); next != turns_.end(); next = NextToLeave()) {
    Turn turn = std::move(*next);
    turns_.erase(next);
    Leave(turn);
  }
  flushing_ = false;
}

// Lets the oldest turn leave once it is committed; turns leave in order.
std::deque<JobRuntime::Turn>::iterator JobRuntime::NextToLeave() {
  const auto committed =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return turn.committed; });
  const bool oldest = committed == turns_.begin() || Mutant("turns-reordered");
  return oldest ? committed : turns_.end();
}

void JobRuntime::Leave(Turn& turn) {
  {
    absl::MutexLock lock(&mu_);
    if (turn.durable != nullptr) durable_ = std::move(turn.durable);
    progress_ = std::move(turn.progress);
  }
  // Before the effects, because their answers must find the job.
  if (!std::exchange(stored_, true)) visible_ = true;
  for (const Effect& effect : turn.effects) {
    if (context_->observer != nullptr) context_->observer->OnEffect(core_, effect);
    std::visit([this](const auto& e) { Do(e); }, effect);
  }
  if (turn.after) turn.after();
}

v1::Job JobRuntime::Snapshot() const {
  v1::Job job = Brief();
  job.MergeFrom(*submitted_);
  return job;
}

v1::Job JobRuntime::Brief() const {
  std::shared_ptr<const v1::Job> durable;
  v1::Job progress;
  {
    absl::MutexLock lock(&mu_);
    durable = durable_;
    progress = progress_;
  }
  v1::Job job = *durable;  // copied without the lock
  job.MergeFrom(progress);
  return job;
}

v1::Job::State JobRuntime::state() const {
  absl::MutexLock lock(&mu_);
  return durable_->state();
}

void JobRuntime::Describe(Callback<v1::Job> done) {
  OnStrand([this, done = std::move(done)] { Finish({}, {}, [this, done] { done(Snapshot()); }); });
}

absl::Status JobRuntime::WriteHealth() const {
  const absl::Status health = context_->store->health();
  return health.ok() ? disk_health() : health;
}

void JobRuntime::Explain(Callback<v1::ExplainJobResponse> done) {
  OnStrand([this, done = std::move(done)] {
    const auto call = std::make_shared<Callback<v1::ExplainJobResponse>>(done);
    explains_.push_back(call);
    Finish({}, {}, [this, call, answer = core_.Explain(context_->clock->Now())] {
      if (*call == nullptr) return;  // this call did not wait for the commit
      const absl::Status health = WriteHealth();
      v1::ExplainJobResponse all = answer;
      if (set_aside_) {  // the error names how to take the job back, which differs from other jobs
        all.set_summary(absl::StrCat("job ", name_, " is ", StateName(state()), ": ",
                                     core_.Brief().error().message()));
      }
      if (!health.ok()) {  // the root cause comes first
        all.clear_waits();
        *all.add_waits() = WaitForStore(health);
        all.mutable_waits()->MergeFrom(answer.waits());
      }
      explains_.erase(std::find(explains_.begin(), explains_.end(), call));
      (*call)(std::move(all));
    });
    AnswerHeldExplains();
  });
}

// While the store cannot write, answers wait; they may only say that the store cannot write.
void JobRuntime::AnswerHeldExplains() {
  const absl::Status health = WriteHealth();
  if (health.ok()) return;
  for (const auto& call : std::exchange(explains_, {})) {
    v1::ExplainJobResponse answer;
    answer.set_summary(absl::StrCat("job ", name_, " is ", StateName(state())));
    *answer.add_waits() = WaitForStore(health);
    const auto done = std::exchange(*call, nullptr);
    done(std::move(answer));
  }
}

void JobRuntime::Checkpoints(Callback<std::vector<v1::Checkpoint>> done) {
  OnStrand([this, done = std::move(done)] {
    // `done` runs after these checkpoints are committed.
    Finish({}, {}, [done, all = core_.checkpoints()] { done(all); });
  });
}

std::unique_ptr<Subscription> JobRuntime::Watch(int64_t after_revision,
                                                std::shared_ptr<EventSink> sink) {
  auto alive = std::make_shared<std::atomic<bool>>(true);
  auto subscriber = std::make_shared<Feed<v1::JobEvent>::Subscriber>();
  subscriber->number = [](const v1::JobEvent& event) { return event.revision(); };
  subscriber->deliver = [sink](const v1::JobEvent& event) { return sink->OnEvent(event); };
  subscriber->end = [sink](absl::Status status) { sink->OnEnd(std::move(status)); };
  subscriber->alive = [alive] { return alive->load(); };
  subscriber->last = after_revision;
  OnStrand([this, subscriber, after_revision] {
    events_.Add(subscriber);
    CatchUpEvents(subscriber, after_revision);
  });
  return std::make_unique<LiveSubscription>(std::move(alive));
}

void JobRuntime::CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after) {
  OnReaders([this, subscriber, after] {
    auto history = ReadHistory<v1::JobEvent>(*context_->store, kEventTable, name_, after);
    OnStrand([this, subscriber, after, history = std::move(history)]() mutable {
      if (!history.ok()) return events_.Failed(subscriber, history.status());
      if (after > 0 && !history->empty() && history->front().revision() > after + 1) {
        return events_.Failed(subscriber,
                              MakeError(absl::StatusCode::kOutOfRange, "REVISION_COMPACTED",
                                        absl::StrCat("the events after revision ", after,
                                                     " are no longer kept; the oldest is ",
                                                     history->front().revision(),
                                                     " (0 asks for all that are kept)")));
      }
      if (history->size() == kHistoryAtOnce) {
        const int64_t last = history->back().revision();
        if (events_.CatchUp(subscriber, *history)) CatchUpEvents(subscriber, last);
        return;
      }
      if (set_aside_) history->push_back(SetAsideEvent(core_));
      events_.CaughtUp(subscriber, *history, IsTerminal(state()));
    });
  });
}

std::unique_ptr<Subscription> JobRuntime::ReadLogs(int64_t after, bool follow,
                                                   std::shared_ptr<LogSink> sink) {
  auto alive = std::make_shared<std::atomic<bool>>(true);
  auto subscriber = std::make_shared<Feed<v1::LogEntry>::Subscriber>();
  subscriber->number = [](const v1::LogEntry& entry) { return entry.sequence(); };
  subscriber->deliver = [sink](const v1::LogEntry& entry) { return sink->OnEntry(entry); };
  subscriber->end = [sink](absl::Status status) { sink->OnEnd(std::move(status)); };
  subscriber->alive = [alive] { return alive->load(); };
  subscriber->last = after;
  subscriber->follow = follow;
  OnStrand([this, subscriber, after] {
    logs_.Add(subscriber);
    CatchUpLogs(subscriber, after);
  });
  return std::make_unique<LiveSubscription>(std::move(alive));
}

void JobRuntime::CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after) {
  OnReaders([this, subscriber, after] {
    auto history = ReadHistory<v1::LogEntry>(*context_->store, kLogTable, name_, after);
    OnStrand([this, subscriber, history = std::move(history)] {
      if (!history.ok()) return logs_.Failed(subscriber, history.status());
      if (history->size() < kHistoryAtOnce) {
        return logs_.CaughtUp(subscriber, *history, logs_ended_);
      }
      const int64_t last = history->back().sequence();
      if (logs_.CatchUp(subscriber, *history)) CatchUpLogs(subscriber, last);
    });
  });
}

void JobRuntime::AppendLog(const std::string& source, const std::string& level,
                           const std::string& message, std::function<void()> after) {
  v1::LogEntry entry;
  entry.set_message(CutText(message, kLogLineBytes));
  next_log_sequence_ += LogUnits(entry.message());
  entry.set_sequence(next_log_sequence_ - 1);
  *entry.mutable_time() = ToProto(context_->clock->Now());
  entry.set_source(source);
  entry.set_level(level);
  std::vector<store::Write> writes = RowsOfLog(name_, entry, context_->kept);
  Finish({}, std::move(writes), [this, entry, after = std::move(after)] {
    logs_.Publish(entry);
    if (after) after();
  });
}

void JobRuntime::OnWorkerLog(const std::string& worker, const v1::WorkerLog& line) {
  OnStrand([this, worker, line] {
    const bool full = worker_lines_ >= kWaitingLogLines || worker_line_bytes_ >= kWaitingLogBytes;
    if (full && !Mutant("worker-lines-without-bound")) {
      ++dropped_worker_lines_;
      return;
    }
    const auto append = [this, &worker](const std::string& level, const std::string& message) {
      ++worker_lines_;
      worker_line_bytes_ += message.size();
      AppendLog(worker, level, message, [this, bytes = message.size()] {
        --worker_lines_;
        worker_line_bytes_ -= bytes;
      });
    };
    if (const size_t dropped = std::exchange(dropped_worker_lines_, 0); dropped > 0) {
      append("WARN", absl::StrCat(dropped, " lines were dropped: the store was too slow for them"));
    }
    append(line.level(), line.message());
  });
}

void JobRuntime::OnProgress(const std::string& worker, const TaskRef& ref, v1::Progress progress) {
  OnStrand([this, worker, ref, progress = std::move(progress)] {
    if (ref.kind != TaskKind::kGenerate || !core_.Wants(worker, ref)) return;
    const bool early = !core_.knows_trajectories();
    if (!early && core_.Find(ref.subject) == nullptr) return;
    const auto more = static_cast<size_t>(progress.tokens_size());
    PartialResponse* const known =
        early ? early_.RoomFor({worker, ref}, more) : &partials_[ref.subject];
    if (known == nullptr) return;
    PartialResponse& partial = *known;
    const bool repeated = progress.offset() != partial.tokens.size();
    if ((repeated && !Mutant("repeated-progress-kept")) ||
        progress.tokens_size() != progress.log_probs_size() ||
        (progress.sampling_log_probs_size() > 0 &&
         progress.tokens_size() != progress.sampling_log_probs_size())) {
      return;  // a repeat, or a gap; the result has the whole response
    }
    const int64_t tokens = int64_t{progress.offset()} + progress.tokens_size();
    if (tokens > MaxResponseTokens() && !Mutant("progress-without-bound")) return;
    partial.Append(progress);
    if (early) return;
    Run(TaskProgressed{worker, ref, static_cast<uint32_t>(partial.tokens.size())});
  });
}

// A stale result changes nothing. But it may repeat a result that was accepted; then its ack may
// not leave before that result is committed.
void JobRuntime::Refuse(const std::string& worker, const TaskRef& ref) {
  Finish({AckResult{worker, ref}}, {}, nullptr);
}

}  // namespace baton::controller
