// The server under load: `./dev bench load [--json FILE]`. A real controller process, and on it at
// once: attached workers, watchers of a running job (some do not read), large specs, uploads. After
// it, the queue of a project that may hold one worker, while workers are idle.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "baton/v1/access_service.grpc.pb.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/load.h"
#include "bench/support/child_process.h"
#include "bench/support/report.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"

namespace baton::bench {
namespace {

struct Flags {
  std::string json;
  bool quick = false;
  bool keep = false;
  LoadSize size;
  std::string controller, folder, job;  // of the child processes
  int count = 0, slow = 0, rollouts = 2;
};

constexpr int kCallerChannels = 8;
constexpr char kJob[] = "watched";
constexpr double kLevel = 1.25;  // of memory: as much as it had when just started
constexpr absl::Duration kPatience = absl::Seconds(40);  // with a child that should answer

// Errors, by kind. Main thread.
class Errors {
 public:
  void Add(const std::string& what, int count = 1) { errors_[what] += count; }
  void AddCalls(const CallsResult& calls) {
    for (const std::string& error : calls.errors) Add(error);
  }
  void AddReport(const nlohmann::json& report) {
    for (const auto& [what, count] : report["errors"].items()) Add(what, count);
  }
  int Print() const {
    int sum = 0;
    for (const auto& [what, count] : errors_) {
      std::fprintf(stderr, "load_bench: %d x %s\n", count, what.c_str());
      sum += count;
    }
    return sum;
  }

 private:
  std::map<std::string, int> errors_;
};

// A field of /proc/PID/status, from kB to MB; 0: there is none.
double MemoryMb(pid_t pid, const std::string& field) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(field + ":", 0) != 0) continue;
    return std::strtod(line.c_str() + field.size() + 1, nullptr) / 1024;
  }
  return 0;
}

class LoadBench {
 public:
  LoadBench(const Flags& flags, std::string folder)
      : flags_(flags), size_(flags.size), folder_(std::move(folder)) {}

  int Run() {
    if (!StartServer()) return 1;
    if (!Round()) return 1;
    report_.Add("rss_idle_mb", idle_mb_, "MB", "just started");
    AwaitMemory("rss_after_mb");
    report_.Add("rss_mb", MemoryMb(server_->pid(), "VmHWM"), "MB", "peak");
    // Memory that stays is no leak if another load does not add to it.
    round_ = 2;
    if (!Round()) return 1;
    AwaitMemory("rss_after_second_mb");
    CappedQueue();
    return Finish();
  }

 private:
  // Everything of the load, from its first worker to its last job's end.
  bool Round() {
    workers_ = Child("workers", {"--count", absl::StrCat(size_.workers)});
    if (workers_->WaitForLog("ready=", kPatience).empty())
      errors_.Add("the workers did not attach");
    if (!StartJob()) return false;
    watchers_ = Child("watchers", {"--job", kJob, "--count", absl::StrCat(size_.watchers), "--slow",
                                   absl::StrCat(size_.slow_watchers)});
    if (watchers_->WaitForLog("ready=", kPatience).empty())
      errors_.Add("the watchers did not begin");
    Row("rss_before_mb", Rss(), "MB", "workers and watchers attached, one job runs");
    PutLoad();
    EndWatchers();
    CleanUp();
    return true;
  }

  // Reports a figure of the first round; the second round shows in memory and errors alone.
  template <typename Value>
  void Row(const std::string& name, const Value& value, const std::string& unit,
           const std::string& note = "") {
    if (round_ == 1) report_.Add(name, value, unit, note);
  }

  std::unique_ptr<ChildProcess> Child(const std::string& kind, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"load_bench", kind,       "--controller",
                                          controller_,  "--folder", folder_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(arguments,
                                          absl::StrCat(folder_, "/", kind, "-", round_, ".log"));
  }

  double Rss() const { return MemoryMb(server_->pid(), "VmRSS"); }

  bool StartServer() {
    server_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"baton-controller", "--listen", "127.0.0.1:0", "--checker", "none",
                                 "--http", "127.0.0.1:0", "--data-root", folder_ + "/data"},
        folder_ + "/controller.log");
    const std::string port = server_->WaitForLog("grpc_port=", kPatience);
    if (port.empty()) {
      std::fprintf(stderr, "load_bench: the controller did not start: %s\n",
                   server_->Log().c_str());
      return false;
    }
    controller_ = "127.0.0.1:" + port;
    stub_ = v1::JobService::NewStub(NewChannel(controller_));
    for (int i = 0; i < kCallerChannels; ++i) {
      callers_.push_back(v1::JobService::NewStub(NewChannel(controller_)));
    }
    idle_mb_ = Rss();
    return true;
  }

  // A job without an end.
  bool StartJob() {
    std::ofstream out(folder_ + "/prompts.jsonl");
    for (int i = 0; i < 50; ++i) out << "{\"prompt\": \"" << i << "+1=\", \"answer\": \"2\"}\n";
    out.close();
    v1::CreateJobRequest request;
    request.set_job_id(kJob);
    v1::JobSpec* spec = request.mutable_spec();
    spec->set_kind(v1::JOB_KIND_RL);
    spec->mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec->mutable_model()->mutable_init()->set_max_position_embeddings(4096);
    spec->mutable_data()->add_train_files(folder_ + "/prompts.jsonl");
    spec->mutable_data()->set_train_batch_size(4);
    spec->mutable_data()->set_max_response_length(64);
    spec->mutable_rollout()->set_n(4);
    spec->mutable_reward()->add_rules()->set_type("exact_match");
    spec->mutable_trainer()->set_total_training_steps(1'000'000);
    spec->mutable_trainer()->set_save_freq(0);
    spec->mutable_trainer()->set_val_before_train(false);
    spec->mutable_resources()->set_rollout_workers(2);
    grpc::ClientContext context;
    v1::Job job;
    const grpc::Status status = stub_->CreateJob(&context, request, &job);
    if (!status.ok()) std::fprintf(stderr, "load_bench: %s\n", status.error_message().c_str());
    return status.ok();
  }

  // All at once; a first half a second in which only what is attached is there is left out.
  void PutLoad() {
    // The callers stand for other machines: they take no time from the server and the clocks.
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(thread.path().filename())), 10);
    }
    load_begin_ = absl::Now();
    CallsResult uploads;
    std::thread uploader(
        [&] { uploads = UploadFiles(callers_, size_.uploads, size_.upload_bytes); });
    CallsResult creates =
        CreateJobs(callers_, folder_ + "/prompts.jsonl", size_.creates, size_.spec_bytes, round_);
    creates_end_ = absl::Now();
    uploader.join();
    calls_end_ = absl::Now();
    errors_.AddCalls(creates);
    errors_.AddCalls(uploads);
    absl::Notification never;
    const double seconds = round_ == 1 ? size_.seconds : std::min(size_.seconds, 10.0);
    never.WaitForNotificationWithTimeout(load_begin_ + absl::Seconds(seconds) - absl::Now());
    load_end_ = absl::Now();
    Row("creates", static_cast<double>(creates.ms.size()), "jobs",
        absl::StrCat("of ", size_.spec_bytes / 1000, " KB, all at once"));
    AddPercentile("create_p50_ms", creates.ms, 0.5);
    AddPercentile("create_p99_ms", creates.ms, 0.99);
    Row("create_retries", creates.retries, "calls", "made again, as the busy server asked");
    Row("creates_s", absl::ToDoubleSeconds(creates.wall), "s", "until the last answer");
    Row("uploads", static_cast<double>(uploads.ms.size()), "files",
        absl::StrCat("of ", size_.upload_bytes / 1000, " KB, at the same time"));
    AddPercentile("upload_p99_ms", uploads.ms, 0.99);
  }

  void AddPercentile(const std::string& name, const std::vector<double>& ms, double fraction,
                     const std::string& note = "") {
    if (!ms.empty()) Row(name, Percentile(ms, fraction), "ms", note);
  }

  // Wakes the slow ones, then ends their job.
  void EndWatchers() {
    Row("rss_loaded_mb", Rss(), "MB", "all jobs are queued, slow readers still asleep");
    watchers_->Signal(SIGUSR1);
    if (watchers_->WaitForLog("resumed=", kPatience).empty())
      errors_.Add("slow watchers did not resume");
    // First those that wait: none of them gets the workers of the watched one.
    errors_.AddCalls(CancelJobs(callers_, size_.creates));
    errors_.AddCalls(DeleteJobs(callers_, size_.creates));
    v1::CancelJobRequest request;
    request.set_name(kJob);
    grpc::ClientContext context;
    v1::Job job;
    if (!stub_->CancelJob(&context, request, &job).ok()) errors_.Add("cancel of the watched job");
    if (watchers_->Wait(kPatience) != 0) errors_.Add("the watchers' process");
    const nlohmann::json watched = ReadReport(kWatchersReport);
    if (watched.empty()) return;
    Row("watchers", size_.watchers, "streams");
    Row("watch_events", watched["events"], "events",
        absl::StrCat(watched["revisions"].get<int64_t>(), " revisions, ",
                     watched["bytes"].get<int64_t>() / watched["events"].get<int64_t>(),
                     " bytes each"));
    Row("slow_watchers", size_.slow_watchers, "streams", "did not read during the load");
    Row("slow_cut_off", watched["cut_off"], "streams", "by the server; resumed");
    Row("slow_left", watched["left"], "streams", "by themselves; resumed after the last they got");
    const auto lags =
        ReadSamples(absl::StrCat(folder_, "/", kWatchersSamples), load_begin_, load_end_);
    AddPercentile("watch_lag_p50_ms", lags, 0.5);
    AddPercentile("watch_lag_p99_ms", lags, 0.99);
    const auto busy =
        ReadSamples(absl::StrCat(folder_, "/", kWatchersSamples), load_begin_, calls_end_);
    AddPercentile("watch_lag_calls_p99_ms", busy, 0.99, "while calls are under way");
  }

  // A thousand jobs that may not have the workers that are free.
  void CappedQueue() {
    v1::SetProjectRequest set;
    set.mutable_project()->set_project("capped");
    set.mutable_project()->set_max_workers(1);
    v1::Project project;
    grpc::ClientContext context;
    const auto channel = NewChannel(controller_);
    if (!v1::AccessService::NewStub(channel)->SetProject(&context, set, &project).ok()) {
      return errors_.Add("the project is not set");
    }
    round_ = 3;
    workers_ = Child("workers", {"--count", absl::StrCat(size_.workers), "--rollouts", "1"});
    if (workers_->WaitForLog("ready=", kPatience).empty())
      errors_.Add("the workers did not attach");
    const absl::Time calls_begin = absl::Now();
    errors_.AddCalls(CreateJobs(callers_, folder_ + "/prompts.jsonl", size_.capped_jobs,
                                /*spec_bytes=*/100, round_, "capped"));
    const absl::Time begin = absl::Now();
    std::vector<double> lists;
    const auto cluster = v1::ClusterService::NewStub(channel);
    while (absl::Now() - begin < absl::Seconds(size_.capped_seconds)) {
      grpc::ClientContext call;
      v1::ListWorkersResponse workers;
      const absl::Time start = absl::Now();
      call.set_deadline(absl::ToChronoTime(start + kPatience));
      if (!cluster->ListWorkers(&call, {}, &workers).ok()) errors_.Add("ListWorkers");
      lists.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
      absl::Notification never;
      never.WaitForNotificationWithTimeout(absl::Milliseconds(100));
    }
    const absl::Time end = absl::Now();
    errors_.AddCalls(CancelJobs(callers_, size_.capped_jobs, "capped"));
    const absl::Time calls_end = absl::Now();
    errors_.AddCalls(DeleteJobs(callers_, size_.capped_jobs, "capped"));
    workers_->Signal(SIGTERM);
    if (workers_->Wait(kPatience) != 0) errors_.Add("the workers' process");
    if (ReadReport(kWorkersReport).empty()) return;
    const std::string path = absl::StrCat(folder_, "/", kWorkersSamples);
    report_.Add("capped_queue_jobs", size_.capped_jobs, "jobs",
                "queued in a project of one worker, three workers idle");
    const auto add = [&](const char* name, const std::vector<double>& ms, const char* note) {
      if (!ms.empty()) report_.Add(name, Percentile(ms, 0.99), "ms", note);
    };
    add("capped_queue_heartbeat_p99_ms", ReadSamples(path, begin, end), "aim <= 50");
    add("capped_queue_list_workers_p99_ms", lists, "at the same time");
    add("capped_queue_calls_heartbeat_p99_ms", ReadSamples(path, calls_begin, calls_end),
        "from the first create to the last cancel");
  }

  nlohmann::json ReadReport(const char* name) {
    std::ifstream in(absl::StrCat(folder_, "/", name));
    auto report = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (report.is_discarded()) {
      errors_.Add(absl::StrCat("no report ", name));
      return nlohmann::json::object();
    }
    errors_.AddReport(report);
    return report;
  }

  void CleanUp() {
    v1::DeleteJobRequest request;
    request.set_name(kJob);
    grpc::ClientContext context;
    v1::DeleteJobResponse response;
    const grpc::Status deleted = stub_->DeleteJob(&context, request, &response);
    if (!deleted.ok()) errors_.Add("delete of the watched job: " + deleted.error_message());
    const absl::Time end = absl::Now();
    workers_->Signal(SIGTERM);
    if (workers_->Wait(kPatience) != 0) errors_.Add("the workers' process");
    const nlohmann::json beats = ReadReport(kWorkersReport);
    if (beats.empty()) return;
    const std::string path = absl::StrCat(folder_, "/", kWorkersSamples);
    const auto all = ReadSamples(path, load_begin_, load_end_);
    const auto busy = ReadSamples(path, load_begin_, calls_end_);
    Row("workers", size_.workers, "streams");
    Row("heartbeats", static_cast<double>(all.size()), "beats");
    AddPercentile("heartbeat_p50_ms", all, 0.5);
    AddPercentile("heartbeat_p99_ms", all, 0.99, "aim <= 50");
    AddPercentile("heartbeat_calls_p50_ms", busy, 0.5, "while calls are under way");
    AddPercentile("heartbeat_calls_p99_ms", busy, 0.99,
                  absl::StrCat("while calls are under way, ", busy.size(), " beats"));
    AddPercentile("heartbeat_max_ms", all, 1);
    AddPercentile("heartbeat_cleanup_p99_ms", ReadSamples(path, load_end_, end), 0.99,
                  "while all jobs are cancelled and deleted");
  }

  // Waits at most ten seconds for the server to give memory back, and reports the rest.
  void AwaitMemory(const std::string& name) {
    const absl::Time limit = absl::Now() + absl::Seconds(flags_.quick ? 2 : 10);
    const absl::Time begin = absl::Now();
    absl::Notification never;
    while (absl::Now() < limit && Rss() > kLevel * idle_mb_) {
      never.WaitForNotificationWithTimeout(absl::Milliseconds(50));
    }
    report_.Add(
        name, Rss(), "MB",
        absl::StrCat("everything ended, ", absl::FormatDuration(absl::Now() - begin), " later; ",
                     absl::Dec(static_cast<int>(idle_mb_)), " MB when just started"));
  }

  int Finish() {
    server_->Signal(SIGTERM);
    if (server_->Wait(kPatience) != 0) errors_.Add("the controller's end");
    const int errors = errors_.Print();
    report_.Add("errors", errors, "errors", "aim 0");
    report_.Print();
    if (!flags_.json.empty() && !report_.WriteJson(flags_.json)) return 1;
    return errors == 0 ? 0 : 1;
  }

  const Flags& flags_;
  const LoadSize size_;
  const std::string folder_;
  std::string controller_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  Stubs callers_;
  std::unique_ptr<ChildProcess> server_, workers_, watchers_;
  absl::Time load_begin_, creates_end_, calls_end_, load_end_;
  double idle_mb_ = 0;
  int round_ = 1;
  Errors errors_;
  Report report_{"load"};
};

int RunBench(Flags flags) {
  if (flags.quick) flags.size = {16, 40, 4, 16, 100'000, 8, 300'000, 1, 200, 1};
  auto folder = std::make_unique<TestFolder>();
  const int result = LoadBench(flags, folder->path()).Run();
  if (flags.keep) {
    std::printf("files: %s\n", folder->path().c_str());
    folder.release();  // Without its destructor, which removes them.
  }
  return result;
}

}  // namespace

double UnixSeconds(absl::Time time) { return static_cast<double>(absl::ToUnixMicros(time)) / 1e6; }

bool WriteSamples(const std::string& path, const std::vector<Sample>& samples) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(samples.data()),
            static_cast<std::streamsize>(samples.size() * sizeof(Sample)));
  return out.good();
}

std::vector<double> ReadSamples(const std::string& path, absl::Time begin, absl::Time end) {
  std::ifstream in(path, std::ios::binary);
  std::vector<double> out;
  for (Sample sample; in.read(reinterpret_cast<char*>(&sample), sizeof(sample));) {
    if (sample.unix_s >= UnixSeconds(begin) && sample.unix_s < UnixSeconds(end)) {
      out.push_back(sample.ms);
    }
  }
  return out;
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& controller, bool small_window) {
  static std::atomic<int> number{0};
  grpc::ChannelArguments arguments;
  arguments.SetInt("bench", ++number);  // no two share a connection
  arguments.SetMaxReceiveMessageSize(64 << 20);
  if (small_window) {
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4096);
  }
  return grpc::CreateCustomChannel(controller, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace baton::bench

int main(int argc, char** argv) {
  using namespace baton::bench;  // NOLINT: wiring
  Flags flags;
  CLI::App app("Puts workers, watchers, large specs and uploads on a server, all at once.");
  app.add_option("--json", flags.json, "Write the rows here");
  app.add_flag("--quick", flags.quick, "Seconds, with small numbers");
  app.add_flag("--keep", flags.keep, "Leave the files, among them the server's log");
  app.add_option("--watchers", flags.size.watchers);
  app.add_option("--slow-watchers", flags.size.slow_watchers);
  app.add_option("--creates", flags.size.creates);
  app.add_option("--uploads", flags.size.uploads);
  app.add_option("--workers", flags.size.workers);
  app.add_option("--capped-jobs", flags.size.capped_jobs);
  app.add_option("--seconds", flags.size.seconds, "The load lasts at least so long");
  CLI::App* workers = app.add_subcommand("workers", "A child process; not for people");
  CLI::App* watchers = app.add_subcommand("watchers", "A child process; not for people");
  for (CLI::App* child : {workers, watchers}) {
    child->add_option("--controller", flags.controller)->required();
    child->add_option("--folder", flags.folder)->required();
    child->add_option("--count", flags.count)->required();
  }
  workers->add_option("--rollouts", flags.rollouts);
  watchers->add_option("--job", flags.job)->required();
  watchers->add_option("--slow", flags.slow)->required();
  CLI11_PARSE(app, argc, argv);
  baton::InitLog({baton::LogLevel::kWarn, "", "load_bench"});
  std::signal(SIGPIPE, SIG_IGN);
  if (workers->parsed())
    return RunLoadWorkers(flags.controller, flags.folder, flags.count, flags.rollouts);
  if (watchers->parsed()) {
    return RunLoadWatchers(flags.controller, flags.folder, flags.job, flags.count, flags.slow);
  }
  return RunBench(flags);
}
