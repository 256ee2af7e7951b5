#include "sdk/worker/worker.h"

#include <unistd.h>

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/worker/dispatcher.h"
#include "sdk/worker/log_queue.h"
#include "sdk/worker/session.h"
#include "sdk/worker/task_ledger.h"

namespace baton {
namespace {

bool IsIdCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.';
}

std::string MakeWorkerId() {
  static std::atomic<int> next{0};
  char host[256] = {};
  std::string id = gethostname(host, sizeof(host) - 1) == 0 ? host : "worker";
  for (char& c : id) c = IsIdCharacter(absl::ascii_tolower(c)) ? absl::ascii_tolower(c) : '-';
  return absl::StrCat(id.substr(0, 40), "-", getpid(), "-", next++);
}

absl::Status Check(const WorkerOptions& options) {
  std::vector<std::string> problems;
  if (options.controller.empty()) problems.push_back("controller: host:port is required");
  bool good_id = options.worker_id.size() <= 63;
  for (const char c : options.worker_id) good_id &= IsIdCharacter(c);
  if (!good_id) {
    problems.push_back(
        absl::StrCat("worker_id: \"", options.worker_id, "\" is not 1-63 of a-z, 0-9, '-', '.'"));
  }
  if (options.min_backoff <= absl::ZeroDuration() || options.max_backoff < options.min_backoff) {
    problems.push_back("min_backoff and max_backoff: need 0 < min <= max");
  }
  if (options.progress_tokens < 1 || options.progress_interval <= absl::ZeroDuration()) {
    problems.push_back("progress_tokens and progress_interval: must be positive");
  }
  if (options.role_end_limit <= absl::ZeroDuration()) {
    problems.push_back("role_end_limit: must be positive");
  }
  if (const absl::Status tls = MakeChannelCredentials(options.tls).status(); !tls.ok()) {
    problems.push_back(absl::StrCat("tls: ", tls.message()));
  }
  if (const absl::Status may =
          MayShowToken(options.token, options.controller, options.tls, options.insecure);
      !may.ok()) {
    problems.push_back(absl::StrCat("insecure: ", may.message()));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("WorkerOptions: ", absl::StrJoin(problems, "; ")));
}

TaskLedgerOptions LedgerOptions(const WorkerOptions& options) {
  return {options.progress_interval, static_cast<size_t>(options.progress_tokens)};
}

}  // namespace

struct Worker::Impl {
  explicit Impl(WorkerOptions worker_options)
      : options(std::move(worker_options)),
        logs(std::make_shared<LogQueue>()),
        ledger(std::make_shared<TaskLedger>(LedgerOptions(options))),
        dispatcher(std::make_shared<Dispatcher>(ledger, logs)),
        session(options, dispatcher.get(), ledger.get(), logs.get()) {}

  const WorkerOptions options;
  const std::shared_ptr<LogQueue> logs;  ///< Shared with the log forwarder, which may be late.
  const std::shared_ptr<TaskLedger> ledger;
  const std::shared_ptr<Dispatcher> dispatcher;
  Session session;
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() { Stop(); }

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(WorkerOptions options) {
  if (options.worker_id.empty()) options.worker_id = MakeWorkerId();
  if (absl::Status status = Check(options); !status.ok()) return status;
  return std::unique_ptr<Worker>(new Worker(std::make_unique<Impl>(std::move(options))));
}

absl::Status Worker::RegisterRole(absl::string_view role, RoleOptions options) {
  return impl_->dispatcher->AddRole(role, std::move(options));
}

absl::Status Worker::RegisterMethod(absl::string_view role, absl::string_view method, int credits,
                                    TaskHandler handler, MethodOptions options) {
  return impl_->dispatcher->AddMethod(role, method, credits, std::move(handler), nullptr, options);
}

absl::Status Worker::RegisterAsyncMethod(absl::string_view role, absl::string_view method,
                                         int credits, AsyncTaskHandler handler,
                                         MethodOptions options) {
  return impl_->dispatcher->AddMethod(role, method, credits, nullptr, std::move(handler), options);
}

absl::Status Worker::Run() {
  impl_->dispatcher->Start();
  if (impl_->options.forward_log) {
    SetLogForwarder(
        [logs = impl_->logs](LogLevel level, absl::string_view line) { logs->Push(level, line); });
  }
  const absl::Status status = impl_->session.Run();
  impl_->dispatcher->Stop();
  if (impl_->options.forward_log) SetLogForwarder(nullptr);
  return status;
}

void Worker::ReportTrouble(absl::string_view role, absl::string_view message) {
  impl_->dispatcher->ReportTrouble(role, message);
}

void Worker::ReportRelay(v1::RelayReport report) { impl_->session.ReportRelay(std::move(report)); }

void Worker::Stop() { impl_->session.Stop(); }
bool Worker::attached() const { return impl_->session.attached(); }
const std::string& Worker::worker_id() const { return impl_->options.worker_id; }
const WorkerOptions& Worker::options() const { return impl_->options; }

}  // namespace baton
