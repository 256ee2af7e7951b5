#include "sdk/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/cli/cluster/commands.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/plan/commands.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/spec/commands.h"
#include "sdk/cli/watch/commands.h"
#include "sdk/common/base/nearest.h"
#include "sdk/common/process/version.h"

namespace baton::cli {
namespace {

std::string DidYouMean(const std::string& given, const std::vector<std::string>& known) {
  const std::string* nearest = Nearest(given, known);
  return nearest == nullptr ? "" : absl::StrCat("; did you mean '", *nearest, "'?");
}

// The first argument that is neither an option of the whole command nor its value; "": none.
std::string CommandWord(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--controller" || word == "--token-file" || word == "--state-dir" ||
        word == "--project" || word == "--tls-ca" || word == "--tls-cert" || word == "--tls-key") {
      ++i;
    } else if (!absl::StartsWith(word, "-")) {
      return word;
    }
  }
  return "";
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// The command that was given with the commands in it, e.g. `token` and `create`.
std::vector<const CLI::App*> ChosenCommands(const CLI::App& app) {
  std::vector<const CLI::App*> chosen;
  for (auto in = app.get_subcommands(); !in.empty(); in = chosen.back()->get_subcommands()) {
    chosen.push_back(in[0]);
  }
  return chosen;
}

// "baton token create".
std::string CommandText(const std::vector<const CLI::App*>& chosen) {
  std::string text = "baton";
  for (const CLI::App* command : chosen) absl::StrAppend(&text, " ", command->get_name());
  return text;
}

// CLI11 only says that an argument was not expected.
std::string UnknownOption(const CLI::App& app, const std::string& message) {
  const size_t at = message.find("--");
  const auto chosen = ChosenCommands(app);
  if (at == std::string::npos || chosen.empty()) return message;
  const std::string given = message.substr(at, message.find_first_of(" ,=", at) - at);
  std::vector<std::string> known;
  for (const CLI::App* place : {chosen.back(), &app}) {
    for (const CLI::Option* option : place->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  return absl::StrCat("`", CommandText(chosen), "` has no option ", given,
                      DidYouMean(given, known));
}

int UsageError(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    message = UnknownOption(app, message);
  }
  std::fprintf(stderr, "baton: %s\n`%s --help` tells more\n", message.c_str(),
               CommandText(ChosenCommands(app)).c_str());
  return kUsage;
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv) {
  CLI::App app(
      "Baton trains language models by reinforcement learning from feedback.\n"
      "Start a cluster with `baton up`, submit a job with `baton submit job.yaml --watch`.");
  app.name("baton");
  app.set_version_flag("--version", VersionLine("baton"));
  app.require_subcommand(1);
  app.fallthrough();
  GlobalOptions options;
  app.add_option("--controller", options.controller,
                 "host:port of the controller; default: $BATON_CONTROLLER, the cluster that is "
                 "up, 127.0.0.1:7077");
  app.add_option("--token-file", options.token_file, "File with the token to send")
      ->envname("BATON_TOKEN_FILE");
  app.add_option("--project", options.project,
                 "The jobs' project; default: the token's project, or `default`")
      ->envname("BATON_PROJECT");
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file of the authority that signed the controller's certificate; system: the "
                 "machine's own list")
      ->envname("BATON_TLS_CA");
  app.add_option("--tls-cert", options.tls.certificate, "PEM file: your certificate")
      ->envname("BATON_TLS_CERT");
  app.add_option("--tls-key", options.tls.key, "PEM file: its key")->envname("BATON_TLS_KEY");
  app.add_flag(
         "--insecure", options.insecure,
         "Allow the token to travel in clear text to another machine, in a network that you trust")
      ->envname("BATON_INSECURE");
  app.add_option("--state-dir", options.state_dir,
                 "Folder of `up`; default: $BATON_STATE_DIR, ~/.baton");
  int code = kOk;
  AddUpCommands(app, &options, &code);
  AddSubmitCommand(app, &options, &code);
  AddWatchCommands(app, &options, &code);
  AddJobCommands(app, &options, &code);
  AddModelCommands(app, &options, &code);
  AddReplayCommand(app, &options, &code);
  AddRewardCommands(app, &options, &code);
  AddClusterCommands(app, &options, &code);
  AddBackupCommands(app, &options, &code);
  AddPlanCommand(app, &options, &code);
  AddPresetCommands(app, &options, &code);
  AddExplainSpecCommand(app, &options, &code);
  AddAccessCommands(app, &options, &code);
  if (argc < 2) {
    std::fprintf(stderr, "%s", app.help().c_str());
    return kUsage;
  }
  const std::vector<std::string> names = CommandNames(app);
  const std::string word = CommandWord(argc, argv);
  if (!word.empty() && std::find(names.begin(), names.end(), word) == names.end()) {
    std::fprintf(stderr, "baton: there is no command '%s'%s\n`baton --help` lists them\n",
                 word.c_str(), DidYouMean(word, names).c_str());
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return UsageError(app, error);
    app.exit(error);  // --help, --version
  }
  return code;
}

}  // namespace baton::cli
