// baton-worker: wiring only.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/base/compute_environment.h"
#include "sdk/base/log.h"
#include "workers/main/generate_command.h"
#include "workers/main/serve_command.h"

namespace {

struct CommonFlags {
  int threads = 1;
  std::string log_file;
  std::string log_level = "info";
};

constexpr char kMark[] = "BATON_WORKER_THREADS";

/// OpenMP, BLAS and malloc read their settings when they are loaded, before main: this process
/// starts itself again with them set. Threads that spin while they wait would take the cores from
/// the other workers of the machine.
void RestartWithThreads(int threads, char** argv) {
  if (std::getenv(kMark) != nullptr) return;
  const std::string count = std::to_string(threads);
  setenv(kMark, count.c_str(), 1);
  for (const std::string& entry : baton::ComputeEnvironment()) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 0);
  }
  setenv("OMP_NUM_THREADS", count.c_str(), 1);
  setenv("OPENBLAS_NUM_THREADS", count.c_str(), 1);
  std::error_code error;  // The path, not /proc/self/exe, so that `ps` shows the name.
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  execv(self.c_str(), argv);
  std::perror("baton-worker: cannot restart itself; going on with default threads");
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "baton-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}

baton::LogLevel LevelOf(const std::string& name) {
  if (name == "debug") return baton::LogLevel::kDebug;
  if (name == "warn") return baton::LogLevel::kWarn;
  if (name == "error") return baton::LogLevel::kError;
  return baton::LogLevel::kInfo;
}

void DeclareServe(CLI::App& app, baton::ServeOptions& options, CommonFlags& common) {
  app.add_option("--controller", options.controller, "host:port of the controller");
  app.add_option(
         "--roles", options.roles,
         "actor, rollout, reward, reference, critic, cost_critic, reward_model, cost, judge; "
         "several with commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"actor", "rollout", "reward", "reference", "critic", "cost_critic",
                             "reward_model", "cost", "judge"}))
      ->capture_default_str();
  app.add_option("--relay", options.relay,
                 "host:port of this machine's relay, or an absolute folder to use instead")
      ->capture_default_str();
  app.add_option("--id", options.id, "Stable name (default: host and process id)");
  app.add_option("--token-file", options.token_file, "File with the bearer token");
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file: who signed the controller's certificate; system: the "
                 "machine's own list");
  app.add_option("--tls-cert", options.tls.certificate, "PEM file: this program's certificate");
  app.add_option("--tls-key", options.tls.key, "PEM file: its key");
  app.add_flag("--insecure", options.insecure,
               "The token may travel in clear text to another machine: the network is trusted");
  app.add_option("--device", options.device, "cpu or cuda")->capture_default_str();
  app.add_option("--group-host", options.group_host,
                 "Address of this machine for the other ranks of a group (default: the one from "
                 "which it reaches the controller)");
  app.add_flag("--allow-commands", options.allow_commands,
               "Role reward: run the command that a job's spec.reward names");
  app.add_option("--command-sandbox", options.command_sandbox,
                 "What such a command runs in: bubblewrap; auto: the same, and where it does not "
                 "work no command runs; none: it can do whatever this worker's user can")
      ->check(CLI::IsMember({"auto", "bubblewrap", "none"}))
      ->capture_default_str();
  app.add_option("--command-read", options.command_read,
                 "A folder that sandboxed commands may read beside the system's and their working "
                 "directory; may be repeated");
  app.add_option("--command-memory-mb", options.command_memory_mb,
                 "Address space of a command's process; 0: no limit")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--command-cpu-seconds", options.command_cpu_seconds,
                 "Processor time of a command's process, then it is started again; 0: no limit")
      ->capture_default_str();
  app.add_option("--threads", common.threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--log-file", common.log_file, "Append the log here instead of standard error");
  app.add_option("--log-level", common.log_level)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
}

CLI::App* DeclareGenerate(CLI::App& app, baton::GenerateOptions& options, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "generate", "Responses of a model: to one prompt, as they come, or to a file of prompts");
  command->add_option("--model", options.model, "Hugging Face directory or checkpoint")->required();
  CLI::Option* prompt = command->add_option("--prompt", options.prompt, "The prompt");
  CLI::Option* prompts =
      command->add_option("--prompts", options.prompts,
                          "JSONL file: a prompt (text or messages) in each line, as in data sets");
  prompt->excludes(prompts);
  command->callback([prompt, prompts] {
    if (prompt->count() + prompts->count() == 0) throw CLI::RequiredError("--prompt or --prompts");
  });
  command
      ->add_option("--out", options.out,
                   "Where each line of --prompts goes with its `responses`: a file, which is there "
                   "once it is complete, or - for standard output")
      ->needs(prompts);
  prompts->needs("--out");
  command->add_option("--samples", options.samples, "Responses to each prompt of --prompts")
      ->needs(prompts)
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      ->add_option("--max-num-seqs", options.max_num_seqs,
                   "Responses that are sampled together, of --prompts")
      ->needs(prompts)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--kv-cache-bytes", options.kv_cache_bytes, "Their keys and values")
      ->needs(prompts)
      ->capture_default_str();
  command->add_option("--max-new-tokens", options.max_new_tokens)->capture_default_str();
  command->add_option("--temperature", options.temperature, "0: greedy");
  command->add_option("--top-p", options.top_p);
  command->add_option("--top-k", options.top_k);
  command->add_option("--seed", options.seed)->capture_default_str();
  command->add_option("--chat-template", options.chat_template, "none, chatml or llama3")
      ->capture_default_str();
  command->add_option("--dtype", options.dtype)->capture_default_str();
  command->add_option("--device", options.device)->capture_default_str();
  command->add_option("--threads", common.threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  return command;
}

int RunGenerate(const baton::GenerateOptions& options) {
  const absl::Status status = baton::Generate(options, [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  if (!status.ok()) return Fail(status);
  std::fputc('\n', stdout);
  return 0;
}

int RunGenerateFile(const baton::GenerateOptions& options) {
  absl::Time start, told;
  const auto tell = [&](const baton::BatchProgress& done, int64_t total) {
    const absl::Time now = absl::Now();
    if (done.tokens == 0) start = told = now;
    if (now - told < absl::Seconds(5) && done.prompts < total) return;
    told = now;
    const double seconds = std::max(absl::ToDoubleSeconds(now - start), 1e-3);
    std::fprintf(stderr, "%lld of %lld prompts, %lld tokens, %.0f s, %.0f tokens/s\n",
                 static_cast<long long>(done.prompts), static_cast<long long>(total),
                 static_cast<long long>(done.tokens), seconds,
                 static_cast<double>(done.tokens) / seconds);
  };
  const absl::Status status = baton::GenerateFile(options, tell);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A Baton worker: trains, samples and scores for a controller");
  baton::ServeOptions serve;
  baton::GenerateOptions generate;
  CommonFlags common;
  DeclareServe(app, serve, common);
  const CLI::App* generate_command = DeclareGenerate(app, generate, common);
  CLI11_PARSE(app, argc, argv);
  RestartWithThreads(common.threads, argv);
  at::set_num_threads(common.threads);
  baton::InitLog({LevelOf(common.log_level), common.log_file, "worker"});
  if (generate_command->parsed()) {
    return generate.prompts.empty() ? RunGenerate(generate) : RunGenerateFile(generate);
  }
  if (serve.controller.empty()) {
    return Fail(absl::InvalidArgumentError("--controller host:port is required"));
  }
  const absl::Status status = baton::Serve(serve);
  return status.ok() ? 0 : Fail(status);
}
