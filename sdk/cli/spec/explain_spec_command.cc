// explain-spec: what a field of a spec means, with its type, default and bounds.
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/spec/commands.h"
#include "sdk/cli/spec/spec_reference.h"

namespace baton::cli {
namespace {

nlohmann::json FieldJson(const SpecField& field, const std::string& path) {
  return {{"path", path},
          {"type", field.type},
          {"default", field.default_value},
          {"bounds", field.bounds},
          {"meaning", field.meaning}};
}

void PrintField(const SpecField& field) {
  std::printf("%s  (%s)\n", field.path.c_str(), field.type.c_str());
  if (!field.default_value.empty()) std::printf("  default  %s\n", field.default_value.c_str());
  if (!field.bounds.empty()) std::printf("  bounds   %s\n", field.bounds.c_str());
  std::printf("  %s\n", field.meaning.c_str());
}

void PrintSection(const SpecSection& section) {
  Table table({"FIELD", "TYPE", "DEFAULT", "BOUNDS"});
  for (const SpecField& field : section.fields) {
    table.Add({field.name, field.type, field.default_value, field.bounds});
  }
  std::printf("%s", table.Format().c_str());
}

int ExplainSpec(const GlobalOptions& options, const std::string& path) {
  const auto entry = FindSpecEntry(path);
  if (!entry.ok()) {
    Fail(options, entry.status());
    return kUsage;
  }
  const std::string at = entry->field.path;
  if (options.json()) {
    nlohmann::json out = FieldJson(entry->field, at);
    if (entry->section != nullptr) {
      out["fields"] = nlohmann::json::array();
      for (const SpecField& field : entry->section->fields) {
        out["fields"].push_back(
            FieldJson(field, absl::StrCat(at, at.empty() ? "" : ".", field.name)));
      }
    }
    std::printf("%s\n", out.dump(2).c_str());
    return kOk;
  }
  if (!at.empty()) PrintField(entry->field);
  if (entry->section != nullptr) {
    if (!at.empty()) std::printf("\n");
    PrintSection(*entry->section);
    std::printf("\n`baton explain-spec %s%s` tells what a field means\n",
                at.empty() ? "" : (at + ".").c_str(), entry->section->fields[0].name.c_str());
  }
  return kOk;
}

}  // namespace

void AddExplainSpecCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* command =
      app.add_subcommand("explain-spec", "What a field of a spec means: type, default, bounds");
  auto path = std::make_shared<std::string>();
  command->add_option("PATH", *path, "A field, e.g. rollout.n, or a section; none: the whole spec");
  AddOutput(command, options);
  command->callback([=] { *code = ExplainSpec(*options, *path); });
}

}  // namespace baton::cli
