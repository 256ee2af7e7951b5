// The growth of a long job's store and folder: `./dev bench store_growth [--json FILE]`. A job of a
// million steps goes through the real core, the real rows and a real store, with workers that
// answer at once; after 10^4, 10^5 and 10^6 of them a controller process starts on a copy of the
// store. All of it is to be bounded by what is kept, not by what was: where it is not, the bench
// fails. Then the same for jobs that have ended: a controller starts on the rows of 1,000 and of
// 100,000 of them, and takes the same memory but for the store's caches.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/support/child_process.h"
#include "bench/support/report.h"
#include "controller/core/loop/job_core.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/job_rows.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/store/sqlite_store.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"

namespace baton::bench {
namespace {

using namespace baton::controller;  // NOLINT: events and effects by the dozen
namespace fs = std::filesystem;

constexpr char kJob[] = "projects/default/jobs/long";
constexpr int kUpdateMetrics = 30;  // what a trainer reports
constexpr int kSamples = 2, kHeldOut = 4;
constexpr int kTestFreq = 10, kSaveFreq = 100;
constexpr size_t kWaitingCommits = 2000;
constexpr int kMaxGrowthMb = 8;  // full caches of the store; an object of each job takes far more

// All checkpoints are kept: nothing that a turn writes may grow with them.
v1::Job MakeJob(const std::string& folder, int64_t steps) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec.mutable_data()->add_train_files(folder + "/prompts.jsonl");
  spec.mutable_data()->add_val_files(folder + "/prompts.jsonl");
  spec.mutable_data()->set_train_batch_size(1);
  spec.mutable_data()->set_max_response_length(64);
  spec.mutable_rollout()->set_n(kSamples);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(steps);
  spec.mutable_trainer()->set_test_freq(kTestFreq);
  spec.mutable_trainer()->set_save_freq(kSaveFreq);
  spec.mutable_trainer()->set_keep_best("");  // as many checkpoints as kSaveFreq says
  spec.mutable_trainer()->set_max_checkpoints(0);
  const CheckedSpec checked = CheckSpec(spec);
  for (const v1::FieldViolation& violation : checked.violations) {
    std::fprintf(stderr, "%s: %s\n", violation.field().c_str(), violation.description().c_str());
  }
  v1::Job job;
  job.set_name(kJob);
  job.set_uid("bench");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

// The job, its workers and its rows. Single-threaded but for the store.
class LongJob {
 public:
  LongJob(const std::string& folder, int64_t steps, const KeptRows& kept, store::Store* store)
      : store_(store), core_(MakeJob(folder, steps), 1, JobCoreOptions()), kept_(kept) {
    Commit({{kSpecTable, kJob, core_.submitted()->SerializeAsString()}});
    Carry(core_.Start(now_));
  }
  ~LongJob() { AwaitCommits(0); }

  // False: nothing is under way any more.
  bool RunTo(int64_t step) {
    while (core_.step() < step && !events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      now_ += absl::Milliseconds(5);
      Carry(core_.Handle(event, now_));
    }
    AwaitCommits(0);
    return core_.step() >= step;
  }

 private:
  void Commit(std::vector<store::Write> writes) {
    if (writes.empty()) return;
    AwaitCommits(kWaitingCommits);
    {
      absl::MutexLock lock(&mu_);
      ++waiting_;
    }
    const store::Durability durability = DurabilityOf(writes);
    store_->Commit(std::move(writes), durability, [this](const absl::Status&) {
      absl::MutexLock lock(&mu_);
      --waiting_;
    });
  }
  void AwaitCommits(size_t most) {
    absl::MutexLock lock(&mu_);
    const auto few = [this, most]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return waiting_ <= most; };
    mu_.Await(absl::Condition(&few));
  }

  void Carry(const Effects& effects) {
    Commit(RowsOfTurn(core_, effects, kept_).writes);
    for (const Effect& effect : effects) {
      std::visit([this](const auto& e) { Do(e); }, effect);
    }
  }

  template <typename T>
  void Do(const T&) {}
  void Do(const EmitEvent& effect) {
    if (!effect.kept) return;
    v1::LogEntry line;
    line.set_sequence(++lines_);
    line.mutable_time()->set_seconds(absl::ToUnixSeconds(now_));
    line.set_source("controller");
    line.set_level("INFO");
    line.set_message(absl::StrCat(effect.event.type(), " ", effect.event.step(),
                                  " critic/score/mean=0.5 actor/pg_loss=0.0123456 "
                                  "actor/lr=1e-06 timing_s/step=12.3456789"));
    Commit(RowsOfLog(kJob, line, kept_));
  }
  void Do(const NeedWorkers& effect) {
    for (const auto& [role, missing] : effect.missing) {
      for (int i = 0; i < missing; ++i) {
        events_.push_back(
            WorkerGranted{absl::StrCat(role, "-", next_worker_++), role, {{role, 64}}});
      }
    }
  }
  void Do(const LoadData&) {
    events_.push_back(
        DataLoaded{absl::OkStatus(), 20'000, kHeldOut, std::vector<std::string>(kHeldOut)});
  }
  void Do(const BuildBatch& effect) {
    BatchBuilt built;
    built.step = effect.step;
    built.incarnation = effect.incarnation;
    built.size = static_cast<uint32_t>(effect.trajectories.size());
    events_.push_back(built);
  }
  void Do(const CommitCheckpoint& effect) {
    CheckpointCommitted committed;
    committed.incarnation = effect.incarnation;
    committed.checkpoint.set_step(effect.step);
    committed.checkpoint.set_path(absl::StrCat("/data/jobs/default/long/step-", effect.step));
    events_.push_back(committed);
  }
  void Do(const StartTask& effect) {
    TaskDone done;
    done.worker = effect.worker;
    done.ref = effect.ref;
    if (effect.ref.kind == TaskKind::kGenerate) {
      done.output.tokens = 40;
      done.output.prompt_tokens = 20;
      done.output.finish_reason = "stop";
      offset_ += 500;
      done.output.location = {static_cast<uint32_t>(1 + offset_ / (64u << 20)), offset_, 500};
    } else if (effect.ref.kind == TaskKind::kScore) {
      done.output.metrics["reward"] = static_cast<double>(offset_ % 3 % 2);
    } else if (effect.ref.kind == TaskKind::kUpdate) {
      for (int i = 0; i < kUpdateMetrics; ++i) {
        done.output.metrics[absl::StrCat("actor/measured_", i)] = 0.01 * i;
      }
    }
    events_.push_back(std::move(done));
  }

  store::Store* const store_;
  JobCore core_;
  const KeptRows kept_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::deque<Event> events_;
  int64_t lines_ = 0;
  int next_worker_ = 0;
  uint64_t offset_ = 0;
  absl::Mutex mu_;
  size_t waiting_ ABSL_GUARDED_BY(mu_) = 0;
};

// The store's files as they are.
double SizeMb(const fs::path& folder) {
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("baton.db", 0) == 0) {
      bytes += static_cast<double>(entry.file_size());
    }
  }
  return bytes / 1e6;
}

// "VmHWM": the most that a process ever had; "VmRSS": what it has now.
double MemoryMb(const std::string& process, const std::string& what) {
  std::ifstream in(absl::StrCat("/proc/", process, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(what + ":", 0) == 0) {
      return std::strtod(line.c_str() + what.size() + 1, nullptr) * 1024 / 1e6;
    }
  }
  return 0;
}

// "1e4" for 10,000; "500" for 500.
std::string Short(int64_t steps) {
  int zeros = 0;
  int64_t digits = steps;
  for (; digits >= 10 && digits % 10 == 0; digits /= 10) ++zeros;
  return digits == 1 ? absl::StrCat("1e", zeros) : absl::StrCat(steps);
}

// The most rows that each table may have after so many steps, by docs/formats/store.md.
std::map<std::string, int64_t> MostRows(int64_t steps, const KeptRows& kept) {
  const auto newest = [](int64_t most) { return most + std::max<int64_t>(most / 100, 1); };
  const auto thinned = [&](int64_t numbers) {
    const double levels =
        std::log2(std::max(1.0, static_cast<double>(numbers) / static_cast<double>(kept.metrics)));
    return static_cast<int64_t>(static_cast<double>(kept.metrics) * (1 + (levels + 1) / 2) +
                                levels + 2);
  };
  const auto steps_kept = static_cast<int64_t>(JobCoreOptions().kept_steps) + 1;
  return {{kJobTable, 1},
          {kSpecTable, 1},
          {kEventTable, newest(kept.events)},
          {kLogTable, newest(kept.logs)},
          {kMetricTable, thinned(steps) + thinned(steps / kTestFreq + 1)},
          {kCheckpointTable, steps / kSaveFreq},
          {kBatchTable, steps_kept},
          {kTrajectoryTable, steps_kept * (kSamples + kHeldOut)}};
}

struct Measured {
  double db_mb = 0, rss_mb = 0, restart_seconds = 0, live_mb = 0;
  int64_t job_row_bytes = 0;
};

// Writes the rows of jobs that were cancelled in the queue.
absl::Status WriteEndedJobs(const std::string& folder, int64_t jobs, store::Store* store) {
  JobCore core(MakeJob(folder, 1000), 1, JobCoreOptions());
  std::vector<store::Write> of_one = RowsOfTurn(core, core.Start(absl::Now()), {}).writes;
  for (store::Write& row : RowsOfTurn(core, core.Handle(CancelRequested{}, absl::Now()), {}).writes)
    of_one.push_back(std::move(row));
  store::v1::JobRow ended = core.BriefRow();
  const std::string spec = core.submitted()->SerializeAsString();
  constexpr int64_t kInOneCommit = 500;
  std::vector<store::Write> writes;
  for (int64_t order = 1; order <= jobs; ++order) {
    const std::string name = absl::StrCat("projects/default/jobs/ended-", order);
    ended.mutable_job()->set_name(name);
    ended.mutable_job()->set_uid(absl::StrCat("uid-", order));
    ended.set_submit_order(order);
    writes.push_back({kJobTable, name, ended.SerializeAsString()});
    writes.push_back({kSpecTable, name, spec});
    for (store::Write& row : RowsOfOrder(name, order, "")) writes.push_back(std::move(row));
    for (const store::Write& row : of_one) {  // its events
      if (row.table == kJobTable || row.table == kSpecTable) continue;
      writes.push_back({row.table, name + row.key.substr(row.key.rfind('#')), row.value});
    }
    if (order % kInOneCommit != 0 && order != jobs) continue;
    const absl::Status written =
        CommitNow(*store, std::exchange(writes, {}), store::Durability::kProcess);
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

// The process's memory once it has given back what it used temporarily.
double SettledMb(const std::string& process) {
  double least = MemoryMb(process, "VmRSS");
  for (int i = 0; i < 40; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    least = std::min(least, MemoryMb(process, "VmRSS"));
  }
  return least;
}

class GrowthBench {
 public:
  GrowthBench(std::string folder, std::vector<int64_t> steps, std::vector<int64_t> ended_jobs,
              const KeptRows& kept)
      : folder_(std::move(folder)),
        steps_(std::move(steps)),
        ended_jobs_(std::move(ended_jobs)),
        kept_(kept) {}

  int Run(const std::string& json) {
    {
      std::ofstream prompts(folder_ + "/prompts.jsonl");
      for (int i = 0; i < kHeldOut; ++i) {
        prompts << "{\"prompt\": \"1+" << i << "=\", \"answer\": \"" << 1 + i << "\"}\n";
      }
    }
    fs::create_directories(folder_ + "/job");
    auto store = store::SqliteStore::Open(folder_ + "/job/baton.db");
    if (!store.ok()) {
      std::fprintf(stderr, "store_growth: %s\n", store.status().ToString().c_str());
      return 1;
    }
    {
      LongJob job(folder_, steps_.back() + 1, kept_, store->get());
      for (const int64_t steps : steps_) {
        const absl::Time begin = absl::Now();
        if (!job.RunTo(steps)) {
          std::fprintf(stderr, "store_growth: the job stands still before step %lld\n",
                       static_cast<long long>(steps));
          return 1;
        }
        const double simulated = absl::ToDoubleSeconds(absl::Now() - begin);
        if (!Measure(store->get(), steps, simulated)) return 1;
      }
    }
    const bool steps_bounded = CompareEnds();
    const bool bounded = MeasureEndedJobs() && steps_bounded;
    report_.Print();
    if (!json.empty() && !report_.WriteJson(json)) return 1;
    return bounded && within_ ? 0 : 1;
  }

 private:
  bool Measure(store::SqliteStore* store, int64_t steps, double simulated_seconds) {
    Measured now;
    now.db_mb = SizeMb(folder_ + "/job");
    now.live_mb = MemoryMb("self", "VmRSS");
    if (!CountRows(store, steps, &now) || !Restart(store, steps, &now)) return false;
    measured_.push_back(now);
    const auto add = [&](const std::string& name, double value, const std::string& unit,
                         const std::string& note = "") {
      report_.Add(absl::StrCat(name, "_", Short(steps)), value, unit, note);
      if (steps == steps_.back()) report_.Add(name, value, unit, absl::StrCat("at ", steps));
    };
    add("restart_seconds", now.restart_seconds, "s", "from its start until it shows the job");
    add("rss_mb", now.rss_mb, "MB", "the most that this controller had until then");
    add("db_mb", now.db_mb, "MB", "baton.db and its journal");
    add("job_row_bytes", static_cast<double>(now.job_row_bytes), "bytes", "written with each turn");
    add("live_rss_mb", now.live_mb, "MB", "the process that ran all these steps");
    report_.Add(absl::StrCat("simulated_seconds_", Short(steps)), simulated_seconds, "s",
                "for the steps since the last of these");
    return true;
  }

  // Counts rows a piece at a time, against what may be kept.
  bool CountRows(store::Store* store, int64_t steps, Measured* now) {
    for (const auto& [table, most] : MostRows(steps, kept_)) {
      int64_t count = 0;
      store::ScanOptions scan;
      scan.limit = 1000;
      for (bool more = true; more;) {
        const auto rows = store->Scan(table, scan);
        if (!rows.ok()) {
          std::fprintf(stderr, "store_growth: %s\n", rows.status().ToString().c_str());
          return false;
        }
        count += static_cast<int64_t>(rows->size());
        more = rows->size() == scan.limit;
        if (more) scan.begin = rows->back().key + std::string(1, '\0');
        if (table == kJobTable && count == 1) {
          now->job_row_bytes = static_cast<int64_t>(rows->front().value.size());
        }
      }
      if (count <= most) continue;
      within_ = false;
      std::fprintf(stderr, "store_growth: after %lld steps table %s has %lld rows, at most %lld\n",
                   static_cast<long long>(steps), table.c_str(), static_cast<long long>(count),
                   static_cast<long long>(most));
    }
    return true;
  }

  // A controller of its own process, on a copy: the job goes on in its store.
  bool Restart(store::SqliteStore* store, int64_t steps, Measured* now) {
    const std::string root = folder_ + "/copy";
    fs::remove_all(root);
    fs::create_directories(root);
    if (const absl::Status copied = store->CopyTo(root + "/baton.db"); !copied.ok()) {
      std::fprintf(stderr, "store_growth: %s\n", copied.ToString().c_str());
      return false;
    }
    const absl::Time begin = absl::Now();
    ChildProcess server({"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                         "--data-root", root},
                        absl::StrCat(folder_, "/controller-", steps, ".log"));
    const std::string port = server.WaitForLog("grpc_port=", absl::Minutes(2));
    if (port.empty()) {
      std::fprintf(stderr, "store_growth: the controller did not start: %s\n",
                   server.Log().c_str());
      return false;
    }
    const auto stub = v1::JobService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials()));
    v1::GetJobRequest request;
    request.set_name(kJob);
    v1::Job job;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
    const grpc::Status answered = stub->GetJob(&context, request, &job);
    now->restart_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    now->rss_mb = MemoryMb(absl::StrCat(server.pid()), "VmHWM");
    if (!answered.ok() || job.step() < steps || !IsActive(job.state())) {
      std::fprintf(stderr, "store_growth: after %lld steps the job did not come back: %s\n%s\n",
                   static_cast<long long>(steps), answered.error_message().c_str(),
                   job.error().ShortDebugString().c_str());
      return false;
    }
    server.Signal(SIGTERM);
    if (server.Wait(absl::Seconds(30)) != 0) {
      std::fprintf(stderr, "store_growth: the controller did not end\n");
      return false;
    }
    return true;
  }

  // A controller on the rows of so many ended jobs; it answers a list, and calls for one of them.
  bool MeasureEndedJobs() {
    std::vector<double> rss_mb;
    for (const int64_t jobs : ended_jobs_) {
      const std::string root = absl::StrCat(folder_, "/ended-", jobs);
      fs::create_directories(root);
      {
        auto store = store::SqliteStore::Open(root + "/baton.db");
        const absl::Status written =
            store.ok() ? WriteEndedJobs(folder_, jobs, store->get()) : store.status();
        if (!written.ok()) {
          std::fprintf(stderr, "store_growth: %s\n", written.ToString().c_str());
          return false;
        }
      }
      const absl::Time begin = absl::Now();
      ChildProcess server({"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                           "--data-root", root, "--max-ended-jobs", "0"},
                          root + "/controller.log");
      const std::string port = server.WaitForLog("grpc_port=", absl::Minutes(2));
      const double start_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
      const auto stub = v1::JobService::NewStub(
          grpc::CreateChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials()));
      const absl::Time asked = absl::Now();
      v1::ListJobsRequest list;
      v1::ListJobsResponse page;
      v1::ExplainJobRequest explain;
      explain.set_name("ended-1");
      v1::ExplainJobResponse why;
      const auto deadline = absl::ToChronoTime(absl::Now() + absl::Minutes(1));
      grpc::ClientContext listing, explaining;
      listing.set_deadline(deadline);
      explaining.set_deadline(deadline);
      if (port.empty() || !stub->ListJobs(&listing, list, &page).ok() || page.jobs_size() != 100 ||
          page.jobs(0).name() != absl::StrCat("projects/default/jobs/ended-", jobs)) {
        std::fprintf(stderr, "store_growth: %lld ended jobs are not listed: %s\n",
                     static_cast<long long>(jobs), server.Log().c_str());
        return false;
      }
      const double list_ms = absl::ToDoubleMilliseconds(absl::Now() - asked);
      if (!stub->ExplainJob(&explaining, explain, &why).ok()) return false;
      rss_mb.push_back(SettledMb(absl::StrCat(server.pid())));
      const std::string prefix = absl::StrCat("ended_jobs/", jobs, "/");
      report_.Add(prefix + "rss_mb", rss_mb.back(), "MB", "of a controller on their rows");
      report_.Add(prefix + "start_seconds", start_seconds, "s", "until it answers");
      report_.Add(prefix + "list_ms", list_ms, "ms", "the newest 100 of them");
      server.Signal(SIGTERM);
      if (server.Wait(absl::Seconds(30)) != 0) return false;
    }
    if (rss_mb.size() < 2) return true;
    const double growth = rss_mb.back() - rss_mb.front();
    report_.Add("ended_jobs/rss_growth", growth, "MB",
                absl::StrCat("of ", ended_jobs_.back(), " over ", ended_jobs_.front(),
                             " jobs, at most ", kMaxGrowthMb));
    if (growth <= kMaxGrowthMb) return true;
    std::fprintf(stderr, "store_growth: ended jobs take %.0f MB of memory\n", growth);
    return false;
  }

  // The last against the one before it. Times are told and fail nothing.
  bool CompareEnds() {
    if (measured_.size() < 2) return true;
    const Measured& last = measured_.back();
    const Measured& before = measured_[measured_.size() - 2];
    const std::string note =
        absl::StrCat("at ", steps_.back(), " over that at ", steps_[steps_.size() - 2], " steps");
    bool bounded = true;
    const auto add = [&](const char* name, double now, double then, std::optional<double> most) {
      const double ratio = now / std::max(then, 1e-9);
      report_.Add(name, ratio, "x",
                  most.has_value() ? absl::StrCat(note, ", at most ", *most) : note);
      if (!most.has_value() || ratio <= *most) return;
      bounded = false;
      std::fprintf(stderr, "store_growth: %s is %.2f\n", name, ratio);
    };
    add("restart_growth", last.restart_seconds, before.restart_seconds, std::nullopt);
    add("rss_growth", last.rss_mb, before.rss_mb, 2);
    add("live_rss_growth", last.live_mb, before.live_mb, 2);
    add("db_growth", last.db_mb, before.db_mb, 2);
    add("job_row_growth", static_cast<double>(last.job_row_bytes),
        static_cast<double>(before.job_row_bytes), 1.1);
    return bounded;
  }

  const std::string folder_;
  const std::vector<int64_t> steps_, ended_jobs_;
  const KeptRows kept_;
  std::vector<Measured> measured_;
  bool within_ = true;  // no table has more rows than it may have
  Report report_{"store_growth"};
};

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  std::string json;
  std::vector<int64_t> steps = {10'000, 100'000, 1'000'000}, ended_jobs = {1000, 100'000};
  bool quick = false;
  CLI::App app("What a job leaves in the store, and what a restart on it costs, by its steps.");
  app.add_option("--json", json, "Write the rows here");
  app.add_option("--steps", steps, "Measure after so many, ascending")->delimiter(',');
  app.add_option("--ended-jobs", ended_jobs, "Measure with so many jobs that have ended")
      ->delimiter(',');
  app.add_flag("--quick", quick, "Seconds, with small numbers, and with less of a job kept");
  CLI11_PARSE(app, argc, argv);
  baton::InitLog({baton::LogLevel::kWarn, "", "store_growth_bench"});
  const baton::controller::ControllerOptions standard;
  baton::controller::KeptRows kept = {standard.kept_events, standard.kept_logs,
                                      standard.kept_metrics};
  if (quick) {
    steps = {1000, 5000};
    ended_jobs = {1000, 5000};
    kept = {200, 200, 50};
  }
  std::sort(steps.begin(), steps.end());
  if (steps.empty()) return 1;
  const baton::TestFolder folder;
  return baton::bench::GrowthBench(folder.path(), steps, ended_jobs, kept).Run(json);
}
