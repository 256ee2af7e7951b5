// watch and logs.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sdk/cli/shared/controller_seen.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/watch/commands.h"
#include "sdk/cli/watch/interrupt_notice.h"
#include "sdk/cli/watch/learning_summary.h"
#include "sdk/cli/watch/watch_view.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/messages/times.h"

namespace baton::cli {
namespace {

constexpr int64_t kStepsShown = 10;
constexpr int64_t kEventsOfThem = 100;  // enough for the events between ten steps
constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kAskEvery = absl::Seconds(2);

void PrintNow(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

WatchViewOptions ViewOptions() {
  WatchViewOptions options;
  options.terminal = ::isatty(STDOUT_FILENO) == 1;
  struct winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 2)
    options.width = size.ws_col;
  options.print = PrintNow;
  return options;
}

// One job that is watched: its events come from the stream's thread, the clock and the reasons why
// it waits from a thread of its own.
class Watch {
 public:
  Watch(const GlobalOptions& options, Client& client, const v1::Job& job, bool last_steps)
      : json_(options.json()),
        client_(client),
        name_(job.name()),
        now_at_(job.revision()),
        at_first_(job.state()),
        view_(job, ViewOptions()),
        last_state_(job.state()),
        outage_(options.Address()) {
    absl::MutexLock lock(&mu_);
    if (last_steps && !json_) view_.Header(job);
    only_last_ = last_steps;
    clock_ = std::thread([this] { Clock(); });
  }
  ~Watch() { Stop(); }

  void On(const v1::JobEvent& event) {
    absl::MutexLock lock(&mu_);
    if (event.type() == "state") last_state_ = event.state();
    const bool past = event.revision() != 0 && event.revision() <= now_at_;
    if (past && only_last_) {
      past_.push_back(event);
      if (event.revision() < now_at_) return;
    }
    ShowPast();
    if (!past || !only_last_) Show(event, past);
  }

  void OnOutage(const Outage& outage) {
    absl::MutexLock lock(&mu_);
    const std::string text = outage_.TextOf(outage);
    if (json_) return SayOutage(text);
    if (!text.empty()) view_.Notice(text);
  }

  /// The exit code. `whole`: the events came to the job's end.
  int End(bool whole) {
    Stop();
    const std::string learned = whole && !json_ ? absl::StrCat(Saved(), Learned()) : "";
    absl::MutexLock lock(&mu_);
    ShowPast();
    const bool succeeded = last_state_ == v1::Job::STATE_SUCCEEDED;
    if (json_) return succeeded ? kOk : kFailed;
    view_.Finish();
    PrintNow(learned);
    if (succeeded) return kOk;
    if (!view_.error().empty()) {
      std::fprintf(stderr, "baton: the job failed: %s\n", ForTerminal(view_.error()).c_str());
    }
    return kFailed;
  }

 private:
  void Stop() {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
    }
    if (clock_.joinable()) clock_.join();
  }

  // The job's beginning compared with its end; "" where nothing is to compare.
  std::string Learned() {
    v1::ListMetricsRequest request;
    request.set_name(name_);
    for (const char* prefix : {"critic/score/mean", "train/loss", "val/"}) {
      request.add_prefixes(prefix);
    }
    const auto metrics = client_.ListMetrics(request);
    const auto job = client_.GetJob(name_);
    return metrics.ok() && job.ok() ? LearningSummary(*metrics, job->step()) : "";
  }

  // What the job left on the disk; "" if it has no checkpoint.
  std::string Saved() {
    const auto list = client_.ListCheckpoints(name_);
    if (!list.ok() || list->checkpoints().empty()) return "";
    double bytes = 0;
    for (const v1::Checkpoint& checkpoint : list->checkpoints()) {
      bytes += static_cast<double>(checkpoint.size_bytes());
    }
    const int count = list->checkpoints_size();
    const std::string job = ShortJobName(name_);
    return absl::StrCat(count, count == 1 ? " checkpoint takes " : " checkpoints take ",
                        ShortNumber(bytes), "B: `baton checkpoints ", job, "` lists ",
                        count == 1 ? "it" : "them", "; `baton delete ", job,
                        "` deletes the job with its files\n");
  }

  void Show(const v1::JobEvent& event, bool past) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (json_) {
      PrintNow(absl::StrCat(ToJson(event, false), "\n"));
    } else if (past) {
      view_.OnPast(event);
    } else {
      view_.OnEvent(event);
    }
  }

  // Shows the collected events from the tenth-last step on.
  void ShowPast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::deque<v1::JobEvent> past = std::exchange(past_, {});
    size_t first = past.size();
    for (int64_t steps = 0; first > 0 && steps < kStepsShown; --first) {
      steps += past[first - 1].type() == "step";
    }
    for (size_t i = first; i < past.size(); ++i) {
      const bool in_header =
          past[i].type() == "state" && past[i].state() == at_first_ && goes_on_at_first_ && !json_;
      if (!in_header) Show(past[i], /*past=*/true);
    }
  }

  void Clock() {
    absl::Time asked = absl::InfinitePast();
    while (true) {
      bool ask = false;
      {
        absl::MutexLock lock(&mu_);
        if (mu_.AwaitWithTimeout(absl::Condition(&stopped_), kTick)) return;
        if (past_.size() == quiet_) ShowPast();  // the stream has no more of it
        quiet_ = past_.size();
        if (json_) continue;
        view_.OnTick();
        ask = view_.WantsReason() && BootNow() - asked >= kAskEvery;
      }
      if (!ask) continue;
      asked = BootNow();
      const auto answer = client_.ExplainJob(name_);
      absl::MutexLock lock(&mu_);
      if (answer.ok() && !stopped_) view_.OnExplained(*answer);
    }
  }

  const bool json_;
  Client& client_;
  const std::string name_;
  const int64_t now_at_;  // revision when the watch began: later events are new
  const v1::Job::State at_first_;
  // False for a job that had ended: the past that is shown then ends with the job's end, too.
  const bool goes_on_at_first_ = at_first_ != v1::Job::STATE_SUCCEEDED &&
                                 at_first_ != v1::Job::STATE_FAILED &&
                                 at_first_ != v1::Job::STATE_CANCELLED;

  absl::Mutex mu_;
  bool only_last_ ABSL_GUARDED_BY(mu_) = false;  // of the past, the last steps
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  WatchView view_ ABSL_GUARDED_BY(mu_);
  v1::Job::State last_state_ ABSL_GUARDED_BY(mu_);
  OutageNotice outage_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::JobEvent> past_ ABSL_GUARDED_BY(mu_);  // collected, not shown yet
  size_t quiet_ ABSL_GUARDED_BY(mu_) = 0;               // how many there were at the last tick
  std::thread clock_;
};

std::string ComeBack(const GlobalOptions& options, const std::string& name) {
  const std::string job = ShortJobName(name);
  const std::string where =
      options.controller.empty() ? "" : absl::StrCat(" --controller ", options.controller);
  return absl::StrCat("\nbaton: the job goes on; `baton watch ", job, where,
                      "` follows it again, `baton cancel ", job, where, "` stops it\n");
}

int Logs(const GlobalOptions& options, const std::string& name, bool follow) {
  auto client = MakeClient(options);
  const auto on_entry = [&](const v1::LogEntry& entry) {
    if (options.json()) {
      std::printf("%s\n", ToJson(entry, false).c_str());
    } else {
      std::printf(
          "%s %-5s %-12s %s\n",
          absl::FormatTime("%H:%M:%S", FromProto(entry.time()), absl::LocalTimeZone()).c_str(),
          OneLine(entry.level()).c_str(), OneLine(entry.source()).c_str(),
          OneLine(entry.message()).c_str());
    }
    std::fflush(stdout);
    return true;
  };
  OutageNotice notice(options.Address());
  const auto on_outage = [&notice](const Outage& outage) { SayOutage(notice.TextOf(outage)); };
  const absl::Status status = client->ReadLogs(name, 0, follow, on_entry, on_outage);
  return status.ok() ? kOk : Fail(options, status);
}

}  // namespace

int WatchToEnd(const GlobalOptions& options, Client& client, const std::string& name,
               int64_t after_revision) {
  auto job = client.GetJob(name);
  if (!job.ok()) return Fail(options, job.status());
  const InterruptNotice notice(ComeBack(options, job->name()));
  const bool last_steps = after_revision == kLastSteps;
  Watch watch(options, client, *job, last_steps);
  const auto on_event = [&watch](const v1::JobEvent& event) {
    watch.On(event);
    return true;
  };
  const auto on_outage = [&watch](const Outage& outage) { watch.OnOutage(outage); };
  const int64_t after =
      last_steps ? std::max<int64_t>(0, job->revision() - kEventsOfThem) : after_revision;
  absl::Status status = client.WatchJob(name, after, on_event, on_outage);
  // A job that came from elsewhere, or is very old, has fewer events than its revision says.
  if (last_steps && absl::IsOutOfRange(status)) {
    status = client.WatchJob(name, job->revision(), on_event, on_outage);
  }
  const int code = watch.End(status.ok());
  return status.ok() ? code : Fail(options, status);
}

void AddWatchCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* watch = app.add_subcommand(
      "watch", "Show a job's state and last ten steps, then follow it to its end");
  AddOutput(watch, options);
  auto name = std::make_shared<std::string>();
  auto after = std::make_shared<int64_t>(kLastSteps);
  auto from_start = std::make_shared<bool>(false);
  watch->add_option("job", *name, "The job's name")->required();
  auto* revision = watch->add_option("--after", *after, "Every event after this revision")
                       ->check(CLI::NonNegativeNumber);
  watch->add_flag("--from-start", *from_start, "Every event from the first that is kept")
      ->excludes(revision);
  watch->callback([=] {
    auto client = MakeClient(*options);
    *code = WatchToEnd(*options, *client, *name, *from_start ? 0 : *after);
  });

  auto* logs = app.add_subcommand("logs", "Print a job's log");
  AddOutput(logs, options);
  auto follow = std::make_shared<bool>(false);
  auto log_name = std::make_shared<std::string>();
  logs->add_option("job", *log_name, "The job's name")->required();
  logs->add_flag("-f,--follow", *follow, "Wait for more until the job ends");
  logs->callback([=] { *code = Logs(*options, *log_name, *follow); });
}

}  // namespace baton::cli
