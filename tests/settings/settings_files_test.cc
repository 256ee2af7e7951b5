// docs/spec.md and the option tables of sdk/common/schema are what job_spec.proto makes of them.
// With BATON_UPDATE_GOLDEN they are written (`./dev docs`).
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sdk/cli/spec/spec_reference.h"
#include "tests/settings/option_tables.h"

namespace baton {
namespace {

void ExpectFile(const std::string& name, const std::string& made) {
  const std::string path = absl::StrCat(std::getenv("BATON_SOURCE_DIR"), "/", name);
  if (std::getenv("BATON_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << made;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str() == made) << name << " is not what job_spec.proto says; run `./dev docs`";
}

TEST(SettingsGoldenTest, TheReferenceIsMadeOfTheProto) {
  ExpectFile("docs/spec.md", cli::SpecReferenceMarkdown());
}

TEST(SettingsGoldenTest, TheOptionTablesAreMadeOfTheProto) {
  for (const OptionTable& table : OptionTables()) ExpectFile(table.path, table.text);
}

TEST(SettingsFilesTest, EveryFieldHasASentenceAndSaysWhatAnAbsentValueMeans) {
  for (const cli::SpecSection& section : cli::SpecSections()) {
    EXPECT_NE(section.meaning, "") << section.message;
    for (const cli::SpecField& field : section.fields) {
      EXPECT_NE(field.meaning, "") << section.message << "." << field.name;
      // A section's absence is told by its own fields.
      if (!field.section.empty() && field.type == "section") continue;
      EXPECT_NE(field.default_value, "") << section.message << "." << field.name;
    }
  }
}

}  // namespace
}  // namespace baton
