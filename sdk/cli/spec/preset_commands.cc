// baton presets: the algorithms that have a name.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/spec/commands.h"
#include "sdk/client/spec_warnings.h"
#include "sdk/client/spec_writer.h"

namespace baton::cli {
namespace {

const char* KindText(v1::JobKind kind) {
  if (kind == v1::JOB_KIND_SFT) return "sft";
  return kind == v1::JOB_KIND_REWARD_MODEL ? "reward_model" : "rl";
}

int List(const GlobalOptions& options) {
  auto client = MakeClient(options);
  const auto presets = client->ListPresets();
  if (!presets.ok()) return Fail(options, presets.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*presets).c_str());
    return kOk;
  }
  Table table({"PRESET", "KIND", "WHAT IT IS"});
  for (const v1::Preset& preset : presets->presets()) {
    table.Add({preset.name(), KindText(preset.kind()), preset.summary()});
  }
  std::printf("%s\n`baton presets show NAME` prints one as YAML, to edit and to submit\n",
              table.Format().c_str());
  return kOk;
}

int ShowPreset(const GlobalOptions& options, const std::string& name) {
  auto client = MakeClient(options);
  const auto presets = client->ListPresets();
  if (!presets.ok()) return Fail(options, presets.status());
  std::string names;
  for (const v1::Preset& preset : presets->presets()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", preset.name());
    if (preset.name() != name) continue;
    if (options.json()) {
      std::printf("%s\n", ToJson(preset).c_str());
    } else {
      std::printf(
          "# %s: %s\n# Replace model, data and reward with your own. The dataflow below is "
          "what runs: change it, or\n# leave it out and set `algorithm` alone.\n%s",
          name.c_str(), preset.summary().c_str(), WithUnits(SpecToYaml(preset.spec())).c_str());
    }
    return kOk;
  }
  return Fail(options, absl::NotFoundError(
                           absl::StrCat("there is no preset '", name, "'; there are: ", names)));
}

}  // namespace

void AddPresetCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* presets = app.add_subcommand("presets", "List the algorithms, or print one as YAML");
  AddOutput(presets, options);
  auto* show = presets->add_subcommand("show", "Print a preset as a spec to edit and submit");
  AddOutput(show, options);
  auto name = std::make_shared<std::string>();
  show->add_option("preset", *name, "Its name")->required();
  show->callback([=] { *code = ShowPreset(*options, *name); });
  presets->callback([=] {
    if (presets->get_subcommands().empty()) *code = List(*options);
  });
}

}  // namespace baton::cli
