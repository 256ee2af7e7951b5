// baton-controller: wiring only.
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/access/audit_log.h"
#include "controller/access/token_table.h"
#include "controller/api/api_server.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/controller/delete_job.h"
#include "controller/status/status_server.h"
#include "controller/store/sqlite_store.h"
#include "sdk/common/base/log.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/process/file_limit.h"
#include "sdk/common/process/program.h"
#include "sdk/common/process/version.h"

#ifdef BATON_JEMALLOC
// Free memory goes back to the machine within seconds, on a thread of jemalloc's own, so after a
// load the controller is as small as before, and no other thread waits for that.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:2000,muzzy_decay_ms:0";
}
#endif

namespace {

struct Flags {
  std::string listen = "127.0.0.1:7077";
  std::string http = "127.0.0.1:7078";
  std::string worker_listen;
  std::string data_root;
  std::vector<std::string> allowed_paths;
  baton::TlsFiles tls;
  std::string token_file;
  std::string relay_key_file;
  std::string checker = "auto";
  baton::LogOptions log;
  double lease_seconds = 10;
  double drain_slow_after = 30;
  bool survive_power_cut = false;
  baton::controller::StepLimits step_limits;
  uint64_t max_data_bytes = baton::controller::ControllerOptions().max_data_bytes;
  uint64_t max_data_memory_bytes = baton::controller::ControllerOptions().max_data_memory_bytes;
  int64_t max_upload_bytes = baton::controller::ControllerOptions().max_upload_bytes;
  int64_t max_ended_jobs = baton::controller::ControllerOptions().max_ended_jobs;
  uint64_t max_waiting_spec_bytes = baton::controller::ControllerOptions().max_waiting_spec_bytes;
  uint64_t max_waiting_bytes = baton::controller::ControllerOptions().max_waiting_bytes_of_all;
  int64_t max_job_bytes = baton::controller::ControllerOptions().max_job_bytes;
  uint64_t payload_bytes = baton::controller::kPayloadBytes;
  uint64_t job_payload_bytes = baton::controller::kJobPayloadBytes;
  std::vector<std::string> quarantine, unquarantine, delete_jobs;
  std::string up_workers;
  bool insecure = false;
  int max_connections = 0;
};

std::vector<baton::controller::GaugeSample> ConnectionGauges(
    const baton::ConnectionTable::Counts& counts) {
  const auto sample = [](const char* state, auto value) {
    return baton::controller::GaugeSample{
        "baton_connections", {{"state", state}}, static_cast<double>(value)};
  };
  return {sample("open", counts.open), sample("refused", counts.refused),
          sample("strangers_closed", counts.strangers_closed)};
}

// Divides the file descriptors of this process: half for connections of gRPC, an eighth each for
// HTTP and for uploads. The rest is for the store, the files of running jobs and checkers.
void DivideFiles(int files, const Flags& flags, baton::api::ApiOptions* api,
                 baton::status::HttpLimits* http) {
  const int addresses = flags.worker_listen.empty() ? 1 : 2;
  api->connections.connections =
      flags.max_connections > 0 ? std::min(flags.max_connections, files / 2 / addresses)
                                : std::min(api->connections.connections, files / 2 / addresses);
  http->connections = std::min(http->connections, files / 8);
  api->uploads.open = std::min(api->uploads.open, files / 8);
  api->uploads.open_of_project = std::min(api->uploads.open_of_project, api->uploads.open / 4);
}

int Fail(const absl::Status& status) { return baton::Fail("baton-controller", status); }

// Parses "trainers=1,rollouts=2".
std::map<std::string, int> UpWorkersOf(absl::string_view text) {
  std::map<std::string, int> counts;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> option =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int count = 0;
    if (absl::SimpleAtoi(option.second, &count)) counts[option.first] = count;
  }
  return counts;
}

#ifdef BATON_JEMALLOC
void KeepFreeMemory() {}

int WaitForSignal(const sigset_t& signals) {
  int signal = 0;
  ::sigwait(&signals, &signal);
  return signal;
}
#else
// glibc returns large blocks with every free, and takes them again page by page; meanwhile all
// threads wait, also those that read heartbeats. So make it keep them; memory goes back every few
// seconds instead (WaitForSignal).
void KeepFreeMemory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 16 << 20);
}

int WaitForSignal(const sigset_t& signals) {
  constexpr timespec kTrimEvery = {5, 0};
  while (true) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kTrimEvery);
    if (signal > 0) return signal;
    ::malloc_trim(0);
  }
}
#endif

// The program that checks models and data before a job is accepted; empty: none.
std::string Checker(const std::string& flag) {
  if (flag != "auto") return flag == "none" ? "" : flag;
  std::error_code code;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
  const std::filesystem::path worker = self.parent_path() / "baton-worker";
  if (std::filesystem::exists(worker, code)) return worker.string();
  baton::Log(baton::LogLevel::kWarn, "models and data are not checked at submit",
             {{"error", "there is no " + worker.string() + "; name one with --checker"}});
  return "";
}

// Instead of a controller: deletes jobs of a data root that no controller uses.
int DeleteJobs(const Flags& flags) {
  auto store = baton::store::SqliteStore::Open(flags.data_root + "/baton.db");
  if (!store.ok()) return Fail(store.status());
  const std::string root = std::filesystem::absolute(flags.data_root).string();
  for (const std::string& job : flags.delete_jobs) {
    const absl::Status deleted = baton::controller::DeleteStoredJob(**store, root, job);
    if (!deleted.ok()) return Fail(deleted);
    std::printf("%s is deleted\n", job.c_str());
  }
  return 0;
}

int Run(const Flags& flags) {
  using namespace baton;  // NOLINT: wiring of everything
  // Signals are blocked before any thread starts, so that only sigwait below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (ReopensOnHangup()) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk

  KeepFreeMemory();
  const int files = RaiseFileLimit();
  std::set<std::string> admin_tokens;
  if (!flags.token_file.empty()) {
    auto read = access::TokenTable::ReadFile(flags.token_file);
    if (!read.ok()) return Fail(read.status());
    admin_tokens = *std::move(read);
  }
  std::error_code code;
  std::filesystem::create_directories(flags.data_root, code);
  store::SqliteOptions sqlite;
  if (flags.survive_power_cut) sqlite.sync = store::SqliteOptions::Sync::kAll;
  auto store = store::SqliteStore::Open(flags.data_root + "/baton.db", sqlite);
  if (!store.ok()) return Fail(store.status());
  const auto tokens = std::make_shared<access::TokenTable>(admin_tokens);
  if (const absl::Status loaded = tokens->Load(store->get()); !loaded.ok()) return Fail(loaded);
  auto audit =
      access::AuditLog::Open({flags.data_root + "/audit.log", flags.data_root + "/refusals.log"});
  if (!audit.ok()) return Fail(audit.status());
  const std::shared_ptr<access::AuditLog> audit_log = *std::move(audit);
  const api::Access access(tokens, audit_log);
  controller::ControllerOptions options;
  options.data_root = std::filesystem::absolute(flags.data_root).string();
  options.store = *std::move(store);
  options.survive_power_cut = flags.survive_power_cut;
  options.confine_paths = !tokens->open();
  options.allowed_paths = flags.allowed_paths;
  options.step_limits = flags.step_limits;
  options.max_data_bytes = flags.max_data_bytes;
  options.max_data_memory_bytes = flags.max_data_memory_bytes;
  options.max_upload_bytes = flags.max_upload_bytes;
  options.max_ended_jobs = flags.max_ended_jobs;
  options.max_waiting_spec_bytes = flags.max_waiting_spec_bytes;
  options.max_waiting_bytes_of_all = flags.max_waiting_bytes;
  options.max_job_bytes = flags.max_job_bytes;
  options.payload_bytes = flags.payload_bytes;
  options.job_payload_bytes = flags.job_payload_bytes;
  options.checker = Checker(flags.checker);
  options.quarantine = flags.quarantine;
  options.unquarantine = flags.unquarantine;
  if (!flags.relay_key_file.empty()) {
    auto key = ReadKeyFile("--relay-capability-key-file", flags.relay_key_file);
    if (!key.ok()) return Fail(key.status());
    options.relay_key = *std::move(key);
  }
  options.cluster.up_workers = UpWorkersOf(flags.up_workers);
  options.cluster.lease = absl::Seconds(flags.lease_seconds);
  options.cluster.heartbeat_interval = absl::Seconds(flags.lease_seconds / 5);
  options.core.stragglers.persists =
      flags.drain_slow_after > 0 ? absl::Seconds(flags.drain_slow_after) : absl::InfiniteDuration();
  auto controller = controller::Controller::Create(std::move(options));
  if (!controller.ok()) return Fail(controller.status());
  api::ApiOptions served;
  served.worker_address = flags.worker_listen;
  served.tls = flags.tls;
  served.insecure = flags.insecure;
  status::StatusOptions http;
  DivideFiles(files, flags, &served, &http.limits);
  auto api = api::ApiServer::Start(flags.listen, access, controller->get(), served);
  if (!api.ok()) return Fail(api.status());
  http.tokens = tokens;
  http.gauges = [server = api->get()] { return ConnectionGauges(server->connections()); };
  http.insecure = flags.insecure;
  auto status = status::StatusServer::Start(flags.http, controller->get(), http);
  if (!status.ok()) return Fail(status.status());
  Log(LogLevel::kInfo, "controller ready",
      {{"grpc_port", (*api)->port()},
       {"worker_port", (*api)->worker_port() == 0 ? (*api)->port() : (*api)->worker_port()},
       {"http_port", (*status)->port()},
       {"data_root", flags.data_root},
       {"max_files", files},
       {"max_connections", served.connections.connections}});
  int signal = WaitForSignal(signals);
  for (; signal == SIGHUP; signal = WaitForSignal(signals)) {
    ReopenLog();
    audit_log->Reopen();
    Log(LogLevel::kInfo, "log files reopened");
  }
  Log(LogLevel::kInfo, "controller stops", {{"signal", signal}});
  status->reset();
  api->reset();
  controller->reset();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The controller of Baton: takes jobs over gRPC and schedules workers.");
  app.set_version_flag("--version", baton::VersionLine("baton-controller"));
  app.add_option("--listen", flags.listen, "Address of the gRPC services")->capture_default_str();
  app.add_option("--worker-listen", flags.worker_listen,
                 "Address for workers only; default: workers use --listen too");
  app.add_option("--tls-cert", flags.tls.certificate, "PEM file: this controller's certificate");
  app.add_option("--tls-key", flags.tls.key, "PEM file: its key");
  app.add_option(
      "--tls-client-ca", flags.tls.ca,
      "PEM file of authorities: callers must show a certificate that one of them has signed");
  app.add_flag(
      "--insecure", flags.insecure,
      "Allow tokens to travel in clear text beyond this machine, in a network that you trust");
  app.add_option("--max-connections", flags.max_connections,
                 "Most connections at once at --listen, and at --worker-listen; default: half of "
                 "the files that the process may open (ulimit -Hn), at most 4096")
      ->check(CLI::Range(8, 1 << 20));
  app.add_option("--http", flags.http, "Address of the status page, /metrics and /api/v1")
      ->capture_default_str();
  app.add_option("--data-root", flags.data_root, "Folder of the store, checkpoints and files")
      ->required();
  app.add_option("--token-file", flags.token_file,
                 "Tokens that callers must show, one a line; required unless on loopback");
  app.add_option("--allow-path", flags.allowed_paths,
                 "With tokens: a folder that specs may name beside uploads and a project's own "
                 "jobs; may be repeated");
  app.add_option("--relay-capability-key-file", flags.relay_key_file,
                 "File with the key that the relays share; with it only a job's own trainer may "
                 "publish for the job");
  app.add_option("--lease-seconds", flags.lease_seconds,
                 "Seconds without a heartbeat after which a worker loses its work")
      ->check(CLI::Range(0.2, 3600.0))
      ->capture_default_str();
  app.add_option(
         "--drain-slow-after", flags.drain_slow_after,
         "Seconds at 2.5 times the time of its peers after which a worker is drained; 0: never")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--max-step-responses", flags.step_limits.responses,
                 "Most responses of one step or evaluation of a job, for projects that have "
                 "no limit of their own")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option(
         "--max-step-tokens", flags.step_limits.tokens,
         "Most tokens of these responses and their prompts, if each is as long as it may be")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--max-data-bytes", flags.max_data_bytes,
                 "Most bytes of the files of one list of a spec (data.train_files and so on)")
      ->check(CLI::Range(uint64_t{1} << 10, uint64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--max-data-memory-bytes", flags.max_data_memory_bytes,
                 "Most bytes that the examples of all jobs take in the controller's memory; a file "
                 "that several jobs read counts once")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--max-upload-bytes", flags.max_upload_bytes,
                 "Most bytes of the uploaded files of a project, for projects that "
                 "have no limit of their own; 0: no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--max-ended-jobs", flags.max_ended_jobs,
                 "Most jobs of a project that have ended and are not deleted, for projects that "
                 "have no limit of their own; 0: no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--max-waiting-bytes-of-project", flags.max_waiting_spec_bytes,
                 "Most bytes of the specs of a project that wait for their turn to be checked; "
                 "beyond them a submission is told when to come again")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--max-waiting-bytes", flags.max_waiting_bytes, "The same for all projects")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option(
         "--max-job-bytes", flags.max_job_bytes,
         "Most bytes in the folders of a project's jobs when one is made from a checkpoint, "
         "for projects that have no limit of their own; 0: no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--payload-bytes", flags.payload_bytes,
                 "Most bytes of responses in memory, of all jobs; the others are in the experience "
                 "log alone. While more wait to be written there, no prompt is begun")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--job-payload-bytes", flags.job_payload_bytes, "The same for each job")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--checker", flags.checker,
                 "The baton-worker program that checks a job's models and data at submit; "
                 "auto: the one beside this program, if there is one; none: no check at submit")
      ->capture_default_str();
  app.add_option("--quarantine", flags.quarantine,
                 "Quarantine this job: it becomes FAILED (QUARANTINED), and its rows and files are "
                 "kept but not read; may be repeated");
  app.add_option("--unquarantine", flags.unquarantine,
                 "Restore this job, which was quarantined; may be repeated");
  app.add_option(
      "--delete-job", flags.delete_jobs,
      "Delete this job, which has ended or is quarantined, with its files, and end: while "
      "no controller uses the data root; may be repeated");
  app.add_flag("--survive-power-cut", flags.survive_power_cut,
               "Sync every row and every trajectory to the disk (slower). Without it, a power cut "
               "may lose trajectories of the step, which are generated again, and nothing else");
  app.add_option("--up-workers", flags.up_workers,
                 "Set by `baton up`: its options and how many workers it started by each; what "
                 "`baton why` advises then names these options")
      ->group("");
  baton::DeclareLogOptions(app, &flags.log);
  CLI11_PARSE(app, argc, argv);
  flags.log.process_name = "controller";
  baton::InitLog(flags.log);
  return flags.delete_jobs.empty() ? Run(flags) : DeleteJobs(flags);
}
