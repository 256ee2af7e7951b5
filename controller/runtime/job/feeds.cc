#include "controller/runtime/job/feeds.h"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/quarantined_core.h"
#include "controller/runtime/rows/job_rows.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/log.h"
#include "sdk/common/contracts/text_bounds.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

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

absl::Status CompactedError(int64_t after, int64_t oldest) {
  return MakeError(
      absl::StatusCode::kOutOfRange, "REVISION_COMPACTED",
      absl::StrCat("the events after revision ", after, " are no longer kept; the oldest is ",
                   oldest, " (0 asks for all that are kept)"));
}

// The line that a job's log has of an event.
std::string TextOf(const v1::JobEvent& event) {
  std::string text = event.type();
  if (event.type() == "state") absl::StrAppend(&text, " ", StateName(event.state()));
  if (event.type() == "evaluation") absl::StrAppend(&text, " of step ", event.step());
  if (event.type() == "step") {
    absl::StrAppend(&text, " ", event.step());
    for (const char* key : {"critic/score/mean", "reward/accuracy/mean", "train/loss",
                            "actor/pg_loss", "actor/lr", "timing_s/step"}) {
      auto it = event.metrics().find(key);
      if (it != event.metrics().end()) absl::StrAppend(&text, " ", key, "=", it->second);
    }
  }
  if (!event.message().empty()) absl::StrAppend(&text, ": ", event.message());
  return text;
}

}  // namespace

Feeds::Feeds(const JobScope* scope, JobThreads* threads, TurnLog* turns, int64_t next_log_sequence)
    : scope_(scope),
      threads_(threads),
      turns_(turns),
      next_log_sequence_(next_log_sequence),
      logs_ended_(IsTerminal(scope->core.state())) {}

std::unique_ptr<Subscription> Feeds::Watch(int64_t after_revision,
                                           std::shared_ptr<EventSink> sink) {
  auto alive = std::make_shared<std::atomic<bool>>(true);
  auto subscriber = std::make_shared<Feed<v1::JobEvent>::Subscriber>();
  subscriber->number = [](const v1::JobEvent& event) { return event.revision(); };
  subscriber->deliver = [sink](const v1::JobEvent& event) { return sink->OnEvent(event); };
  subscriber->end = [sink](absl::Status status) { sink->OnEnd(std::move(status)); };
  subscriber->alive = [alive] { return alive->load(); };
  subscriber->last = after_revision;
  threads_->OnStrand([this, subscriber, after_revision] {
    events_.Add(subscriber);
    CatchUpEvents(subscriber, after_revision);
  });
  return std::make_unique<LiveSubscription>(std::move(alive));
}

void Feeds::CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after) {
  threads_->OnReaders([this, subscriber, after] {
    auto history =
        ReadHistory<v1::JobEvent>(*scope_->context->store, kEventTable, scope_->name, after);
    threads_->OnStrand([this, subscriber, after, history = std::move(history)]() mutable {
      if (!history.ok()) return events_.Failed(subscriber, history.status());
      if (after > 0 && !history->empty() && history->front().revision() > after + 1) {
        return events_.Failed(subscriber, CompactedError(after, history->front().revision()));
      }
      if (history->size() == kHistoryAtOnce) {
        const int64_t last = history->back().revision();
        if (events_.CatchUp(subscriber, *history)) CatchUpEvents(subscriber, last);
        return;
      }
      if (scope_->quarantined) history->push_back(QuarantineEvent(scope_->core));
      events_.CaughtUp(subscriber, *history, IsTerminal(turns_->state()));
    });
  });
}

std::unique_ptr<Subscription> Feeds::ReadLogs(int64_t after, bool follow,
                                              std::shared_ptr<LogSink> sink) {
  auto alive = std::make_shared<std::atomic<bool>>(true);
  auto subscriber = std::make_shared<Feed<v1::LogEntry>::Subscriber>();
  subscriber->number = [](const v1::LogEntry& entry) { return entry.sequence(); };
  subscriber->deliver = [sink](const v1::LogEntry& entry) { return sink->OnEntry(entry); };
  subscriber->end = [sink](absl::Status status) { sink->OnEnd(std::move(status)); };
  subscriber->alive = [alive] { return alive->load(); };
  subscriber->last = after;
  subscriber->follow = follow;
  threads_->OnStrand([this, subscriber, after] {
    logs_.Add(subscriber);
    CatchUpLogs(subscriber, after);
  });
  return std::make_unique<LiveSubscription>(std::move(alive));
}

void Feeds::CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after) {
  threads_->OnReaders([this, subscriber, after] {
    auto history =
        ReadHistory<v1::LogEntry>(*scope_->context->store, kLogTable, scope_->name, after);
    threads_->OnStrand([this, subscriber, history = std::move(history)] {
      if (!history.ok()) return logs_.Failed(subscriber, history.status());
      if (history->size() < kHistoryAtOnce) {
        return logs_.CaughtUp(subscriber, *history, logs_ended_);
      }
      const int64_t last = history->back().sequence();
      if (logs_.CatchUp(subscriber, *history)) CatchUpLogs(subscriber, last);
    });
  });
}

void Feeds::Emit(const v1::JobEvent& event) {
  events_.Publish(event);
  if (event.type() == "progress") return;
  const bool ended = event.type() == "state" && IsTerminal(event.state());
  if (event.type() == "state" && !ended) logs_ended_ = false;  // it may have been resumed
  LogEvent(event);
  if (!ended) return;
  turns_->AfterAll([this] {
    if (!IsTerminal(scope_->core.state())) return;
    logs_ended_ = true;
    logs_.End(absl::OkStatus());
  });
  events_.End(absl::OkStatus());
}

void Feeds::LogEvent(const v1::JobEvent& event) {
  const std::optional<std::string> line =
      event.type() == "step" ? step_log_.TakeStep(event.step(), TextOf(event), scope_->now())
                             : step_log_.TakeOther(TextOf(event));
  if (!line.has_value()) return;
  const bool warning = event.type() == "warning";
  baton::Log(warning ? LogLevel::kWarn : LogLevel::kInfo, *line, {{"job", scope_->name}});
  AddLine("controller", warning ? "WARN" : "INFO", *line, nullptr);
}

void Feeds::AddLine(const std::string& source, const std::string& level, const std::string& message,
                    std::function<void()> after) {
  v1::LogEntry entry;
  entry.set_message(CutText(message, kLogLineBytes));
  next_log_sequence_ += LogUnits(entry.message());
  entry.set_sequence(next_log_sequence_ - 1);
  *entry.mutable_time() = ToProto(scope_->now());
  entry.set_source(source);
  entry.set_level(level);
  std::vector<store::Write> writes = RowsOfLog(scope_->name, entry, scope_->context->kept);
  turns_->Finish({}, std::move(writes), [this, entry, after = std::move(after)] {
    logs_.Publish(entry);
    if (after) after();
  });
}

void Feeds::AddWorkerLine(const std::string& worker, const v1::WorkerLog& line) {
  const bool full = worker_lines_ >= kWaitingLogLines || worker_line_bytes_ >= kWaitingLogBytes;
  if (full) {
    ++dropped_worker_lines_;
    return;
  }
  const auto add = [this, &worker](const std::string& level, const std::string& message) {
    ++worker_lines_;
    worker_line_bytes_ += message.size();
    AddLine(worker, level, message, [this, bytes = message.size()] {
      --worker_lines_;
      worker_line_bytes_ -= bytes;
    });
  };
  if (const size_t dropped = std::exchange(dropped_worker_lines_, 0); dropped > 0) {
    add("WARN", absl::StrCat(dropped, " lines were dropped: the store was too slow for them"));
  }
  add(line.level(), line.message());
}

void Feeds::EndWith(const v1::JobEvent& last) {
  events_.Publish(last);
  events_.End(absl::OkStatus());
  logs_ended_ = true;
  logs_.End(absl::OkStatus());
}

}  // namespace baton::controller
