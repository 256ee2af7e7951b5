// Compares tokenizers with Python's `tokenizers`: testdata/compare_tokenizers.py fetches real ones,
// compare_random_tokenizers.py makes random ones; both write what they expect into a folder and run
// this with BATON_TOKENIZER_COMPARE=FOLDER. Without that, nothing is compared. With
// BATON_TOKENIZER_MAY_REFUSE, tokenizers that are refused are listed.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::tokenizer {
namespace {

namespace fs = std::filesystem;
constexpr int kShown = 5;  // differences, of each kind

// Compares the cases of `folder`, of which each has "text", "ids" and "text_back".
void CompareFolder(const fs::path& folder) {
  SCOPED_TRACE(folder.string());
  const auto tokenizer = Tokenizer::Load(folder.string());
  if (!tokenizer.ok() && std::getenv("BATON_TOKENIZER_MAY_REFUSE") != nullptr) {
    std::printf("%s: refused: %s\n", folder.filename().c_str(),
                std::string(tokenizer.status().message()).c_str());
    return;
  }
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream file(folder / "cases.json", std::ios::binary);
  const auto cases = nlohmann::json::parse(file);
  int other_ids = 0, other_texts = 0;
  for (const auto& c : cases) {
    const auto expected = c.at("ids").get<std::vector<int32_t>>();
    const auto ids = (*tokenizer)->Encode(c.at("text").get<std::string>());
    if (!ids.ok() || *ids != expected) {
      EXPECT_GT(++other_ids, kShown)
          << c << "\n"
          << (ids.ok() ? nlohmann::json(*ids).dump() : ids.status().ToString());
    }
    const std::string back = (*tokenizer)->Decode(expected);
    if (back != c.at("text_back").get<std::string>()) {
      EXPECT_GT(++other_texts, kShown) << c << "\n" << back;
    }
  }
  std::printf("%s: %zu texts, %d with other ids, %d with other texts back\n",
              folder.filename().c_str(), cases.size(), other_ids, other_texts);
  EXPECT_EQ(other_ids + other_texts, 0);
}

TEST(TokenizerCompareTest, RealTokenizersEqualPythons) {
  const char* folder = std::getenv("BATON_TOKENIZER_COMPARE");
  if (folder == nullptr) GTEST_SKIP() << "BATON_TOKENIZER_COMPARE is not set";
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!fs::exists(entry.path() / "cases.json")) continue;
    CompareFolder(entry.path());
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace baton::tokenizer
