// watch and logs.
#include <unistd.h>

#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/cli/options.h"
#include "sdk/cli/table.h"

namespace baton::cli {
namespace {

// Draws one job: on a terminal a line that is redrawn, elsewhere a line per event.
class Progress {
 public:
  explicit Progress(const v1::Job& job)
      : total_(job.total_steps()), live_(::isatty(STDOUT_FILENO) == 1) {}

  void On(const v1::JobEvent& event) {
    if (event.type() == "progress") {
      phase_ = event.phase_total() > 0
                   ? absl::StrCat(event.phase(), " ", event.phase_done(), "/", event.phase_total())
                   : event.phase();
      return Draw();
    }
    if (event.type() == "step") {
      step_ = event.step();
      for (const auto& [name, value] : event.metrics()) metrics_[name] = value;
      phase_.clear();
      OnStepTime(event);
      if (live_) return Draw();
      std::printf("%s\n", StepLine().c_str());
    } else if (event.type() == "evaluation") {
      auto it = event.metrics().find("val/accuracy");
      Say(absl::StrFormat("step %d  evaluation: accuracy %.4f on the validation set", event.step(),
                          it == event.metrics().end() ? 0.0 : it->second));
    } else if (event.type() == "checkpoint") {
      Say(absl::StrCat("step ", event.step(), "  checkpoint ", event.message()));
    } else if (event.type() == "warning") {
      Say(absl::StrCat("step ", event.step(), "  warning: ", event.message()));
    } else if (event.type() == "state") {
      last_state_ = event.state();
      error_ = event.message();
      Say(absl::StrCat("state ", v1::Job::State_Name(event.state()).substr(6)));
    }
    std::fflush(stdout);
  }

  int Finish() {
    Clear();
    if (last_state_ == v1::Job::STATE_SUCCEEDED) return kOk;
    if (!error_.empty()) std::fprintf(stderr, "baton: the job failed: %s\n", error_.c_str());
    return kFailed;
  }

 private:
  void OnStepTime(const v1::JobEvent& event) {
    const double time = static_cast<double>(event.time().seconds()) +
                        static_cast<double>(event.time().nanos()) * 1e-9;
    if (first_time_ == 0) {
      first_time_ = time;
      first_step_ = event.step();
    }
    if (event.step() > first_step_) {
      per_step_ = (time - first_time_) / static_cast<double>(event.step() - first_step_);
    }
  }

  std::string Metric(const char* label, const char* name) const {
    auto it = metrics_.find(name);
    return it == metrics_.end() ? "" : absl::StrCat("  ", label, " ", ShortNumber(it->second));
  }

  std::string StepLine() const {
    std::string line =
        absl::StrCat("step ", step_, "/", total_, Metric("reward", "critic/score/mean"),
                     Metric("accuracy", "reward/accuracy/mean"), Metric("loss", "train/loss"),
                     Metric("length", "response_length/mean"), Metric("tok/s", "perf/throughput"));
    if (per_step_ > 0 && total_ > step_) {
      absl::StrAppend(&line, "  left ",
                      ShortDuration(per_step_ * static_cast<double>(total_ - step_)));
    }
    return line;
  }

  void Draw() {
    if (!live_) return;
    constexpr int kWidth = 24;
    const int filled = total_ > 0 ? static_cast<int>(kWidth * step_ / total_) : 0;
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    std::printf("\r\033[K%s %s%s", bar.c_str(), StepLine().c_str(),
                phase_.empty() ? "" : ("  " + phase_).c_str());
    std::fflush(stdout);
    drawn_ = true;
  }

  void Clear() {
    if (drawn_) std::printf("\r\033[K");
    drawn_ = false;
    std::fflush(stdout);
  }

  void Say(const std::string& line) {
    Clear();
    std::printf("%s\n", line.c_str());
    Draw();
  }

  const int64_t total_;
  const bool live_;
  int64_t step_ = 0;
  int64_t first_step_ = 0;
  double first_time_ = 0;
  double per_step_ = 0;
  std::map<std::string, double> metrics_;
  std::string phase_;
  std::string error_;
  v1::Job::State last_state_ = v1::Job::STATE_UNSPECIFIED;
  bool drawn_ = false;
};

int Logs(const GlobalOptions& options, const std::string& name, bool follow) {
  auto client = MakeClient(options);
  const absl::Status status = client->ReadLogs(name, 0, follow, [&](const v1::LogEntry& entry) {
    if (options.json()) {
      std::printf("%s\n", ToJson(entry, false).c_str());
    } else {
      std::printf("%s %-5s %-12s %s\n",
                  absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(entry.time().seconds()),
                                   absl::LocalTimeZone())
                      .c_str(),
                  entry.level().c_str(), entry.source().c_str(), entry.message().c_str());
    }
    std::fflush(stdout);
    return true;
  });
  return status.ok() ? kOk : Fail(options, status);
}

}  // namespace

int WatchToEnd(const GlobalOptions& options, Client& client, const std::string& name,
               int64_t after_revision) {
  auto job = client.GetJob(name);
  if (!job.ok()) return Fail(options, job.status());
  Progress progress(*job);
  v1::Job::State last = job->state();
  const absl::Status status = client.WatchJob(name, after_revision, [&](const v1::JobEvent& event) {
    if (event.type() == "state") last = event.state();
    if (options.json()) {
      std::printf("%s\n", ToJson(event, false).c_str());
      std::fflush(stdout);
    } else {
      progress.On(event);
    }
    return true;
  });
  if (!status.ok()) return Fail(options, status);
  if (options.json()) return last == v1::Job::STATE_SUCCEEDED ? kOk : kFailed;
  return progress.Finish();
}

void AddWatchCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* watch = app.add_subcommand("watch", "Follow a job to its end");
  AddOutput(watch, options);
  auto name = std::make_shared<std::string>();
  auto after = std::make_shared<int64_t>(0);
  watch->add_option("job", *name, "The job's name")->required();
  watch->add_option("--after", *after, "Only events after this revision");
  watch->callback([=] {
    auto client = MakeClient(*options);
    *code = WatchToEnd(*options, *client, *name, *after);
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
