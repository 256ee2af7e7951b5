// baton-fake-worker: every role of a job without a model.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/process/program.h"
#include "sdk/worker/run_until_signal.h"
#include "tests/fake_worker/fake_worker.h"

namespace {

struct Flags {
  std::string token_file;
  std::string relay;
  baton::LogOptions log;
  double token_ms = 0;
  double task_ms = 0;
  int threads = 1;
  std::vector<std::string> fail;
  std::vector<std::string> hang;
  std::vector<std::string> crash;
};

void Declare(CLI::App& app, baton::fake::FakeWorkerOptions& options, Flags& flags) {
  app.add_option("--controller", options.worker.controller, "host:port of the controller")
      ->required();
  app.add_option(
         "--roles", options.roles,
         "actor, rollout, reward, reference, critic, cost_critic, reward_model, cost, judge; "
         "several with commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--id", options.worker.worker_id, "Stable name (default: host and process id)");
  app.add_option("--token-file", flags.token_file, "File with the bearer token");
  app.add_option("--tls-ca", options.worker.tls.ca,
                 "PEM file: who signed the controller's certificate; system: the "
                 "machine's own list");
  app.add_option("--tls-cert", options.worker.tls.certificate,
                 "PEM file: this program's certificate");
  app.add_option("--tls-key", options.worker.tls.key, "PEM file: its key");
  app.add_flag(
      "--insecure", options.worker.insecure,
      "Allow the token to travel in clear text to another machine, in a network that you trust");
  app.add_option("--relay", flags.relay, "Accepted and not used: versions go through a folder");
  app.add_option("--threads", flags.threads, "Accepted and not used: there is nothing to compute");
  app.add_option("--weights-dir", options.weights_place,
                 "Absolute folder that the fake workers of a job share");
  app.add_option("--token-ms", flags.token_ms, "Milliseconds per generated token");
  app.add_option("--task-ms", flags.task_ms, "Milliseconds before every other task");
  app.add_option("--fail", flags.fail, "METHOD:N - this worker's Nth task of it fails");
  app.add_option("--hang", flags.hang, "METHOD:N - … never ends");
  app.add_option("--crash", flags.crash, "METHOD:N - … ends the process");
  baton::DeclareLogOptions(app, &flags.log);
}

int Fail(const absl::Status& status) { return baton::Fail("baton-fake-worker", status); }

absl::Status AddFaults(baton::fake::Fault::Kind kind, const std::vector<std::string>& texts,
                       std::vector<baton::fake::Fault>& faults) {
  for (const std::string& text : texts) {
    auto fault = baton::fake::ParseFault(kind, text);
    if (!fault.ok()) return fault.status();
    faults.push_back(*fault);
  }
  return absl::OkStatus();
}

absl::Status Complete(const Flags& flags, baton::fake::FakeWorkerOptions& options) {
  using baton::fake::Fault;
  for (const auto& [kind, texts] :
       {std::pair{Fault::Kind::kFail, &flags.fail}, std::pair{Fault::Kind::kHang, &flags.hang},
        std::pair{Fault::Kind::kCrash, &flags.crash}}) {
    if (auto status = AddFaults(kind, *texts, options.faults); !status.ok()) return status;
  }
  options.token_delay = absl::Milliseconds(flags.token_ms);
  options.task_delay = absl::Milliseconds(flags.task_ms);
  options.on_crash = [] { _exit(3); };
  options.worker.forward_log = true;
  if (options.weights_place.empty()) {
    options.weights_place =
        absl::StrCat(std::filesystem::temp_directory_path().string(), "/baton-fake-weights-",
                     absl::StrReplaceAll(options.worker.controller, {{":", "-"}, {"/", "-"}}));
  }
  if (flags.token_file.empty()) return absl::OkStatus();
  auto token = baton::ReadTokenFile("--token-file", flags.token_file);
  if (!token.ok()) return token.status();
  options.worker.token = *std::move(token);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plays the roles of a Baton job without a model, for tests and trials");
  baton::fake::FakeWorkerOptions options;
  Flags flags;
  Declare(app, options, flags);
  CLI11_PARSE(app, argc, argv);
  if (auto status = Complete(flags, options); !status.ok()) return Fail(status);
  flags.log.process_name = "fake-worker";
  baton::InitLog(flags.log);
  auto worker = baton::fake::FakeWorker::Create(std::move(options));
  if (!worker.ok()) return Fail(worker.status());
  const absl::Status status = baton::RunUntilSignal((*worker)->worker());
  return status.ok() ? 0 : Fail(status);
}
