// reward test: a job's reward, or a script that shall become one, on lines of a data set.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/home_paths.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/sibling_program.h"
#include "sdk/cli/spec/commands.h"
#include "sdk/cli/spec/spec_paths.h"
#include "sdk/client/spec_yaml.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

struct RewardTestFlags {
  std::string target;
  std::string data;
  std::string model;
  std::string sandbox = "auto";
  std::vector<std::string> sets;
  std::vector<std::string> read;
  int64_t lines = 8;
  int64_t samples = 0;
  int64_t seed = 1;
};

bool IsSpec(const std::string& file) {
  return absl::EndsWith(file, ".yaml") || absl::EndsWith(file, ".yml") ||
         absl::EndsWith(file, ".json");
}

// A name as one word of a shell.
std::string ShellQuoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) absl::StrAppend(&out, c == '\'' ? "'\\''" : std::string(1, c));
  return out + "'";
}

// The command that a spec would name for this script, in its own folder.
std::string CommandOf(const fs::path& script) {
  const std::string name = ShellQuoted(script.filename().string());
  if (script.extension() == ".py") return absl::StrCat("python3 ", name);
  if (script.extension() == ".sh") return absl::StrCat("sh ", name);
  return absl::StrCat("./", name);
}

int Fails(int code, const std::string& message) {
  std::fprintf(stderr, "baton: %s\n", message.c_str());
  return code;
}

// A file in memory, which the worker's program opens by its descriptor; -1: no room for it.
int SpecInMemory(const v1::JobSpec& spec) {
  const std::string bytes = spec.SerializeAsString();
  const int file = ::memfd_create("baton-spec", 0);
  if (file < 0) return -1;
  if (::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return file;
  ::close(file);
  return -1;
}

// The rewards live in the worker's program, which becomes this process.
int RunWorker(const GlobalOptions& options, const RewardTestFlags& flags, const v1::JobSpec& spec) {
  const int file = SpecInMemory(spec);
  if (file < 0) return Fails(kFailed, absl::StrCat("cannot hold the spec: ", std::strerror(errno)));
  std::vector<std::string> all = {"baton", "reward-test", "--spec",
                                  absl::StrCat("/proc/self/fd/", file)};
  const auto add = [&all](const std::string& name, const std::string& value) {
    if (!value.empty()) all.insert(all.end(), {name, value});
  };
  add("--data", flags.data);
  add("--model", flags.model);
  add("--lines", absl::StrCat(flags.lines));
  add("--samples", absl::StrCat(flags.samples));
  add("--seed", absl::StrCat(flags.seed));
  add("--command-sandbox", flags.sandbox);
  for (const std::string& folder : flags.read) add("--command-read", folder);
  if (options.json()) all.emplace_back("--json");
  return Fails(kFailed, BecomeSibling("baton-worker", std::move(all)));
}

int TestReward(const GlobalOptions& options, RewardTestFlags flags) {
  const fs::path target = fs::absolute(flags.target);
  std::error_code code;
  if (!fs::is_regular_file(target, code)) {
    return Fails(kNotFound,
                 absl::StrCat(flags.target, " is not a file; give a spec (job.yaml) or a script"));
  }
  v1::JobSpec spec;
  if (IsSpec(flags.target)) {
    std::ifstream in(target);
    std::stringstream text;
    text << in.rdbuf();
    ParsedSpec parsed = ParseSpecYaml(text.str(), flags.sets);
    if (!parsed.problems.empty()) {
      std::fprintf(stderr, "baton: the spec has %zu problem%s\n%s", parsed.problems.size(),
                   parsed.problems.size() == 1 ? "" : "s",
                   FormatProblems(flags.target, parsed.problems).c_str());
      return kUsage;
    }
    spec = std::move(parsed.spec);
    ExpandHomes(&spec);
    if (flags.data.empty() && spec.data().train_files_size() > 0) {
      flags.data = (target.parent_path() / spec.data().train_files(0)).string();
    }
  } else if (!flags.sets.empty()) {
    return Fails(kUsage, "--set goes with a spec, and this is a script");
  } else {
    if (!IsSpec(flags.target) && CommandOf(target)[0] == '.' &&
        ::access(target.c_str(), X_OK) != 0) {
      return Fails(kUsage, absl::StrCat(flags.target,
                                        " cannot be run: name it .py or .sh, or make it executable "
                                        "(chmod +x)"));
    }
    spec.mutable_reward()->set_command(CommandOf(target));
  }
  MakePathsAbsolute(target.parent_path(), &spec);
  if (!flags.data.empty() && !fs::is_regular_file(flags.data, code)) {
    return Fails(kNotFound, absl::StrCat("the data file ", flags.data, " does not exist"));
  }
  std::fflush(nullptr);
  return RunWorker(options, flags, spec);
}

}  // namespace

void AddRewardCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* reward = app.add_subcommand("reward", "Rewards without a job: baton reward test");
  reward->require_subcommand(1);
  auto* test = reward->add_subcommand(
      "test",
      "Score lines of a data set by a spec's rules, command and judge, or by a script, without a "
      "cluster");
  AddOutput(test, options);
  auto flags = std::make_shared<RewardTestFlags>();
  test->add_option("target", flags->target, "A spec (job.yaml) or a script (reward.py)")
      ->required();
  test->add_option("data", flags->data,
                   "A data set (JSONL); default: the first of the spec's data.train_files, for a "
                   "script some lines made up. A line's `response` or `responses` are scored, else "
                   "its `answer`");
  test->add_option("-n,--lines", flags->lines, "How many of its first lines to score")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  test->add_option("--samples", flags->samples,
                   "How many responses of the model to score for each line")
      ->check(CLI::Range(int64_t{0}, int64_t{1024}))
      ->capture_default_str();
  test->add_option(
      "--model", flags->model,
      "The model to sample from, and whose chat template begins responses: a Hugging Face "
      "directory; default: the spec's model.path");
  test->add_option("--seed", flags->seed, "Of the samples")->capture_default_str();
  test->add_option("--set", flags->sets, "Override a value of the spec");
  test->add_option("--command-sandbox", flags->sandbox,
                   "What a command runs in: bubblewrap, as in a job; none; auto: bubblewrap where "
                   "it works")
      ->check(CLI::IsMember({"auto", "bubblewrap", "none"}))
      ->capture_default_str();
  test->add_option("--command-read", flags->read,
                   "A folder that a sandboxed command may read; may be repeated");
  test->callback([=] { *code = TestReward(*options, *flags); });
}

}  // namespace baton::cli
