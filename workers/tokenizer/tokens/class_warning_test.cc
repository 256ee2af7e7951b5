// The warnings name the first sample whose ids differ between AutoTokenizer of transformers 5.24.0
// on such a folder and tokenizer.json in tokenizers 0.23.3; both lists of ids are theirs.
#include "workers/tokenizer/tokens/class_warning.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace baton::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string TestDataPath(const std::string& name) {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  std::ifstream file(
      absl::StrCat(root ? root : ".", "/workers/tokenizer/testdata/tokenizer_", name, ".json"),
      std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Folder {
  std::string tokenizer_json;
  TokenizerSideFiles files;
};

// A folder with one of the tokenizers of testdata.
Folder With(const std::string& name, const char* tokenizer_class, const char* model_type,
            json settings = json::object()) {
  Folder folder{TestDataPath(name), {}};
  if (tokenizer_class != nullptr) settings["tokenizer_class"] = tokenizer_class;
  folder.files.tokenizer_config_json = settings.dump();
  folder.files.config_json = json{{"model_type", model_type}}.dump();
  return folder;
}

std::string WarningOf(const Folder& folder) {
  return ClassWarning(folder.tokenizer_json, folder.files);
}

constexpr char kOtherDigits[] =
    R"("The answer is 1234567." is [51, 467, 220, 258, 82, 86, 256, 278, 82, 220, 16, 17, …] there )"
    R"(and [51, 467, 220, 258, 82, 86, 256, 278, 82, 220, 427, 19, …] here)";

TEST(ClassWarningTest, TheClassOfTheModelsTypeMayBeatTheFoldersOwn) {
  const std::string warning = WarningOf(With("llama3", "LlamaTokenizerFast", "qwen2"));
  EXPECT_THAT(warning, HasSubstr("loads this folder's tokenizer as Qwen2Tokenizer"));
  EXPECT_THAT(warning, HasSubstr(kOtherDigits));
  // For such a type no tokenizer_class helps.
  EXPECT_THAT(warning, Not(HasSubstr("set tokenizer_class")));
}

TEST(ClassWarningTest, AClassThatTheFolderNamesRebuildsTheTokenizer) {
  const std::string warning = WarningOf(With("llama3", "Qwen2TokenizerFast", "qwen3"));
  EXPECT_THAT(warning, HasSubstr(kOtherDigits));
  EXPECT_THAT(warning, HasSubstr("set tokenizer_class to TokenizersBackend"));
  EXPECT_THAT(WarningOf(With("llama3", nullptr, "qwen3")), HasSubstr(kOtherDigits));
  EXPECT_THAT(WarningOf(With("mistral", "LlamaTokenizer", "llama")),
              HasSubstr(R"(" two  spaces   here" is [314, 293, 296, 289, 520, 292, 290, 276, 278, )"
                        R"(388, 520, 423, …] there and [520, 293, 296, 289, 520, 292, 290, 276, )"
                        R"(278, 388, 520, 423, …] here)"));
}

TEST(ClassWarningTest, SettingsOfTheClassCount) {
  EXPECT_THAT(
      WarningOf(With("mistral", "LlamaTokenizerFast", "llama", {{"add_prefix_space", false}})),
      HasSubstr(R"("Hello, world!" is [75, 449, 286, 289, 47, 329, 289, 291, 286, 279, 259] there )"
                R"(and [314, 75, 449, 286, 289, 47, 329, 289, 291, 286, 279, 259] here)"));
  EXPECT_THAT(
      WarningOf(With("gpt2", "GPT2Tokenizer", "llama")),
      HasSubstr(R"("Hello, world!" is [39, 357, 75, 78, 11, 261, 281, 75, 67, 0] there and )"
                R"([220, 39, 357, 75, 78, 11, 261, 281, 75, 67, 0] here)"));
}

TEST(ClassWarningTest, FoldersThatTransformersReadsAlikeGiveNone) {
  EXPECT_EQ(WarningOf(With("llama3", "LlamaTokenizerFast", "llama")), "");  // it is byte-level
  EXPECT_EQ(WarningOf(With("llama3", "PreTrainedTokenizerFast", "llama")), "");
  EXPECT_EQ(WarningOf(With("llama3", "GPT2Tokenizer", "phi3")), "");
  EXPECT_EQ(WarningOf(With("llama3", "Qwen2Tokenizer", "phi3")), "");
  EXPECT_EQ(WarningOf(With("llama3", "NoSuchTokenizer", "llama")), "");
  EXPECT_EQ(WarningOf(With("qwen2", "Qwen2Tokenizer", "qwen2")), "");
  EXPECT_EQ(WarningOf(With("mistral_v3", "LlamaTokenizer", "mistral")), "");
  EXPECT_EQ(WarningOf(With("mistral_v3", "LlamaTokenizer", "llama")), "");
  EXPECT_EQ(WarningOf(With("gemma", "GemmaTokenizer", "gemma")), "");
  // Code of the folder's own: nothing is known of it.
  const json auto_map = {{"auto_map", {{"AutoTokenizer", {"tokenization.Own", nullptr}}}}};
  EXPECT_EQ(WarningOf(With("llama3", "Qwen2Tokenizer", "qwen3", auto_map)), "");
  EXPECT_EQ(ClassWarning("{", {}), "");
}

TEST(ClassWarningTest, NamesTheClassThatRebuilds) {
  const Folder folder = With("qwen2", "Qwen2Tokenizer", "qwen2");
  EXPECT_EQ(ClassThatRebuilds(folder.tokenizer_json, folder.files), "Qwen2Tokenizer");
  const Folder other = With("llama3", "PreTrainedTokenizerFast", "llama");
  EXPECT_EQ(ClassThatRebuilds(other.tokenizer_json, other.files), "");
}

}  // namespace
}  // namespace baton::tokenizer
