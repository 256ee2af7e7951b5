// baton-worker: wiring only.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/process/file_limit.h"
#include "sdk/common/process/program.h"
#include "sdk/common/process/version.h"
#include "workers/main/check_command.h"
#include "workers/main/check_server.h"
#include "workers/main/compute_environment.h"
#include "workers/main/device_option.h"
#include "workers/main/generate_command.h"
#include "workers/main/relay_option.h"
#include "workers/main/reward_test_command.h"
#include "workers/main/serve_command.h"

namespace {

struct CommonFlags {
  int threads = 1;
  baton::LogOptions log;
};

constexpr char kMark[] = "BATON_WORKER_THREADS";

/// The name that the user typed: `baton` becomes this program, and then says so in argv[0].
const char* program_name = "baton-worker";

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

int Fail(const absl::Status& status) { return baton::Fail(program_name, status); }

CLI::Validator OwnDevice() {
  return CLI::Validator([](const std::string& device) { return baton::DeviceProblem(device); }, "");
}

CLI::Validator HostAndPort() {
  return CLI::Validator([](const std::string& relay) { return baton::RelayProblem(relay); }, "");
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
                 "host:port of this machine's relay (default: the one that the controller knows, "
                 "else 127.0.0.1:7079)")
      ->check(HostAndPort());
  app.add_option(
         "--shm-dir", options.shm_dir,
         "Folder of the relay's segments, as its own --shm-dir; the controller tells by its "
         "file system which relay is this machine's")
      ->capture_default_str();
  app.add_option("--id", options.id, "Stable name (default: host and process id)");
  app.add_option("--token-file", options.token_file, "File with the bearer token");
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file of the authority that signed the controller's certificate; system: the "
                 "machine's own list");
  app.add_option("--tls-cert", options.tls.certificate, "PEM file: this program's certificate");
  app.add_option("--tls-key", options.tls.key, "PEM file: its key");
  app.add_flag(
      "--insecure", options.insecure,
      "Allow the token to travel in clear text to another machine, in a network that you trust");
  app.add_option("--device", options.device, "What it computes on: cpu")
      ->check(OwnDevice())
      ->capture_default_str();
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
  app.add_option(
         "--command-memory-mb", options.command_memory_mb,
         "Memory of a command's process: address space and, in the sandbox a quarter of it, "
         "files in /tmp; 0: no limit")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--command-cpu-seconds", options.command_cpu_seconds,
                 "Processor time of a command's process, then it is started again; 0: no limit")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--threads", common.threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  baton::DeclareLogOptions(app, &common.log);
}

CLI::App* DeclareGenerate(CLI::App& app, baton::GenerateOptions& options, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "generate", "Sample a model: print the response to one prompt, or answer a file of prompts");
  command->add_option("--model", options.model, "Hugging Face directory or checkpoint")->required();
  CLI::Option* prompt =
      command->add_option("--prompt", options.prompt,
                          "The prompt: one message of the user if the model has a chat template, "
                          "else a text");
  CLI::Option* raw = command
                         ->add_flag("--raw", options.raw,
                                    "--prompt is a text that the chat template does not wrap")
                         ->needs(prompt);
  CLI::Option* prompts =
      command->add_option("--prompts", options.prompts,
                          "JSONL file: a prompt (text or messages) in each line, as in data sets");
  const auto add_key = [&](const std::string& of, std::string* key) {
    command
        ->add_option("--" + of + "-key", *key,
                     "The key of the " + of + " in these lines, as data." + of + "_key of a job")
        ->needs(prompts);
  };
  add_key("prompt", &options.keys.prompt_key);
  add_key("answer", &options.keys.answer_key);
  add_key("source", &options.keys.source_key);
  add_key("extra", &options.keys.extra_key);
  prompt->excludes(prompts);
  command->callback([prompt, prompts] {
    if (prompt->count() + prompts->count() == 0) throw CLI::RequiredError("--prompt or --prompts");
  });
  command
      ->add_option("--out", options.out,
                   "File for the lines of --prompts with their `responses`, written under another "
                   "name until it is complete; -: standard output")
      ->needs(prompts);
  prompts->needs("--out");
  command
      ->add_option("--samples", options.samples,
                   "How many responses to sample for each prompt of --prompts")
      ->needs(prompts)
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      ->add_option("--max-num-seqs", options.max_num_seqs,
                   "How many responses to sample at once, with --prompts")
      ->needs(prompts)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--kv-cache-bytes", options.kv_cache_bytes,
                   "Memory for the keys and values of these responses")
      ->needs(prompts)
      ->capture_default_str();
  command->add_option("--max-new-tokens", options.max_new_tokens, "Where a response is cut")
      ->capture_default_str();
  command->add_option("--temperature", options.temperature,
                      "0: greedy; default: as the model's generation_config.json says, else 1; "
                      "never greedy with several --samples");
  command->add_option("--top-p", options.top_p,
                      "Sample from the likeliest tokens that have this probability together");
  command->add_option("--top-k", options.top_k,
                      "Sample from so many of the likeliest tokens; 0: from all");
  command->add_option("--seed", options.seed, "Another seed gives other samples")
      ->capture_default_str();
  command->add_flag("--tokens", options.tokens,
                    "Show each token's id, log-prob and text; with --prompts, lines also have "
                    "`response_tokens` and `response_log_probs`");
  command
      ->add_option("--chat-template", options.chat_template,
                   "auto (the model's own, for --prompt and for messages), model (the same, also "
                   "for the texts of --prompts), none, chatml or llama3")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--chat-template-kwargs",
          [&options](const std::string& json) {
            auto kwargs = baton::ReadTemplateKwargs(json);
            if (!kwargs.ok()) {
              throw CLI::ValidationError("--chat-template-kwargs",
                                         std::string(kwargs.status().message()));
            }
            options.chat_template_kwargs = *std::move(kwargs);
          },
          "Variables for the model's chat template, as model.chat_template_kwargs of a job: "
          "'{\"enable_thinking\": false}'")
      ->excludes(raw);
  command
      ->add_option("--dtype", options.dtype,
                   "Type of the weights while it computes: float32, bfloat16 or float16")
      ->capture_default_str();
  command->add_option("--device", options.device, "What it computes on: cpu")
      ->check(OwnDevice())
      ->capture_default_str();
  command->add_option("--threads", common.threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  return command;
}

struct RewardTestFlags {
  std::string spec;
  std::string sandbox = "auto";
  std::vector<std::string> read;
};

CLI::App* DeclareRewardTest(CLI::App& app, baton::RewardTestOptions& options,
                            RewardTestFlags& flags, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("reward-test", "What `baton reward test` runs; see its --help");
  command->add_option("--spec", flags.spec, "File with a serialized baton.v1.JobSpec")->required();
  command->add_option("--data", options.data, "A data set; none: lines made up");
  command->add_option("--model", options.model, "The model to sample from");
  command->add_option("--lines", options.lines)->capture_default_str();
  command->add_option("--samples", options.samples)->capture_default_str();
  command->add_option("--seed", options.seed)->capture_default_str();
  command->add_option("--device", options.device)->capture_default_str();
  command->add_flag("--json", options.json);
  command->add_option("--command-sandbox", flags.sandbox)
      ->check(CLI::IsMember({"auto", "bubblewrap", "none"}))
      ->capture_default_str();
  command->add_option("--command-read", flags.read);
  command->add_option("--threads", common.threads, "Compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  return command;
}

void Print(std::FILE* file, absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

/// The command is the caller's own: where there is no sandbox it runs without, and that is said.
absl::StatusOr<baton::CommandPermission> PermitOwnCommand(const RewardTestFlags& flags) {
  using Kind = baton::reward::SandboxOptions::Kind;
  baton::reward::SandboxOptions sandbox;
  sandbox.readable = flags.read;
  sandbox.kind = flags.sandbox == "none" ? Kind::kNone : Kind::kBubblewrap;
  auto made = baton::reward::CommandSandbox::Create(sandbox);
  if (!made.ok() && flags.sandbox == "auto") {
    Print(stderr, "baton: the command runs without a sandbox here, unlike in a job: " +
                      std::string(made.status().message()) + "\n");
    sandbox.kind = Kind::kNone;
    made = baton::reward::CommandSandbox::Create(sandbox);
  }
  if (!made.ok()) return made.status();
  return baton::CommandPermission{*std::move(made), ""};
}

int RunRewardTest(baton::RewardTestOptions options, const RewardTestFlags& flags) {
  std::ifstream spec(flags.spec, std::ios::binary);
  if (!options.spec.ParseFromIstream(&spec)) {
    return Fail(absl::InvalidArgumentError("--spec: no serialized baton.v1.JobSpec"));
  }
  if (!options.spec.reward().command().empty()) {
    auto commands = PermitOwnCommand(flags);
    if (!commands.ok()) return Fail(commands.status());
    options.commands = *std::move(commands);
  }
  const auto good = baton::TestReward(
      options, {[](auto text) { Print(stdout, text); }, [](auto text) { Print(stderr, text); }});
  if (!good.ok()) return Fail(good.status());
  return *good ? 0 : 1;
}

int RunGenerate(const baton::GenerateOptions& options) {
  const auto note = baton::Generate(options, [](auto text) { Print(stdout, text); });
  if (!note.ok()) return Fail(note.status());
  if (!options.tokens) Print(stdout, "\n");
  if (!note->empty()) std::fprintf(stderr, "%s: %s\n", program_name, note->c_str());
  return 0;
}

int RunGenerateFile(const baton::GenerateOptions& options) {
  absl::Time start, told;
  const auto tell = [&](const baton::BatchProgress& done, int64_t total) {
    const absl::Time now = baton::BootNow();
    if (done.tokens == 0) start = told = now;
    if (now - told < absl::Seconds(5) && done.prompts < total) return;
    told = now;
    const double seconds = std::max(absl::ToDoubleSeconds(now - start), 1e-3);
    std::fprintf(stderr, "%lld of %lld prompts, %lld tokens, %.0f s, %.0f tokens/s\n",
                 static_cast<long long>(done.prompts), static_cast<long long>(total),
                 static_cast<long long>(done.tokens), seconds,
                 static_cast<double>(done.tokens) / seconds);
  };
  if (options.samples > 1 && options.temperature == 0) {
    std::fprintf(stderr, "%s: warning: with --temperature 0 all responses to a prompt are equal\n",
                 program_name);
  }
  const absl::Status status = baton::GenerateFile(options, tell);
  return status.ok() ? 0 : Fail(status);
}

/// Wrong arguments, as `baton` words them.
std::string UsageProblem(const CLI::App* app, const CLI::Error& error) {
  std::string command = program_name;
  for (const CLI::App* inner : app->get_subcommands()) command += " " + inner->get_name();
  return std::string(program_name) + ": " + error.what() + "\n`" + command +
         " --help` tells more\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 0 && std::string(argv[0]) == "baton") program_name = "baton";
  CLI::App app("A Baton worker: trains, samples and scores for a controller");
  app.set_version_flag("--version", baton::VersionLine("baton-worker"));
  app.failure_message(UsageProblem);
  baton::ServeOptions serve;
  baton::GenerateOptions generate;
  CommonFlags common;
  DeclareServe(app, serve, common);
  const CLI::App* generate_command = DeclareGenerate(app, generate, common);
  CLI::App* check_command = app.add_subcommand(
      "check", "Serves a controller: what workers would refuse of the models and data of specs");
  baton::RewardTestOptions reward_test;
  RewardTestFlags reward_flags;
  const CLI::App* reward_command = DeclareRewardTest(app, reward_test, reward_flags, common);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // as `baton`, which becomes this program to generate
  }
  if (check_command->parsed()) {  // it computes nothing
    return baton::ServeChecks(
        STDIN_FILENO, STDOUT_FILENO,
        [](const baton::v1::JobSpec& spec, const baton::CheckRequestLine& request) {
          // The rest is for what is left after the data; what still hangs then is refused.
          return baton::CheckJob(spec, request.folder, request.filtered_bytes,
                                 absl::Seconds(request.cpu_seconds) * 0.7);
        });
  }
  baton::RaiseFileLimit();
  RestartWithThreads(common.threads, argv);
  at::set_num_threads(common.threads);
  common.log.process_name = "worker";
  baton::InitLog(common.log);
  if (generate_command->parsed()) {
    return generate.prompts.empty() ? RunGenerate(generate) : RunGenerateFile(generate);
  }
  if (reward_command->parsed()) return RunRewardTest(reward_test, reward_flags);
  if (serve.controller.empty()) {
    return Fail(absl::InvalidArgumentError("--controller host:port is required"));
  }
  const absl::Status status = baton::Serve(serve);
  return status.ok() ? 0 : Fail(status);
}
