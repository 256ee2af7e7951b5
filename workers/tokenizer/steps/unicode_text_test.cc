#include "workers/tokenizer/steps/unicode_text.h"

#include <ctime>
#include <string>

#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

std::string NormalizeNfc(absl::string_view text) { return NormalizeUnicode(text, NormalForm::kC); }

TEST(UnicodeTextTest, NfcComposesDecomposesAndOrders) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"plain ASCII\n", "plain ASCII\n"},
      {"e\u0301", "\u00e9"},
      {"\u00e9", "\u00e9"},
      // The ANGSTROM and OHM signs decompose to single characters and do not come back.
      {"\u212b", "\u00c5"},
      {"\u2126", "\u03a9"},
      // UAX #15's own example: marks are put in order of their class, then composed.
      {"\u1e9b\u0323", "\u1e9b\u0323"},
      {"q\u0307\u0323", "q\u0323\u0307"},
      {"\u1e0b\u0323", "\u1e0d\u0307"},
      // A mark of the same class blocks.
      {"e\u0306\u0301", "\u0115\u0301"},
      // Composition exclusions stay apart; Hangul is arithmetic.
      {"\u0915\u093c", "\u0915\u093c"},
      {"\u0958", "\u0915\u093c"},
      {"\u1112\u1161\u11ab", "\ud55c"},
      {"\uac00\u11a8", "\uac01"},
      {"\uac01\u11a8", "\uac01\u11a8"},
      // Marks without a starter before them.
      {"\u0301\u0323", "\u0323\u0301"},
      // A long run of marks, and more than the buffer that a first try may have.
      {"a\u0323\u0323\u0323\u0323\u0323\u0323\u0323\u0323\u0302",
       "\u1ead\u0323\u0323\u0323\u0323\u0323\u0323\u0323"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(NormalizeNfc(c.text), c.expected) << c.text;
    EXPECT_EQ(NormalizeNfc(c.expected), c.expected) << c.text;
  }
}

// A policy may write anything: 160 KB of marks would take minutes by insertion.
TEST(UnicodeTextTest, ALongRunOfMarksIsOrderedFast) {
  constexpr int kEach = 40000;
  std::string above, below;
  for (int i = 0; i < kEach; ++i) {
    above += "\u0301";
    below += "\u0323";
  }
  const clock_t begin = clock();
  EXPECT_TRUE(NormalizeNfc("a" + above + below) == "\u1ea1" + below.substr(2) + above);
  EXPECT_LT(static_cast<double>(clock() - begin) / CLOCKS_PER_SEC, 5);
}

TEST(UnicodeTextTest, KeepsNulAndNothing) {
  const std::string text("e\u0301\0e\u0301", 7);
  EXPECT_EQ(NormalizeNfc(text), std::string("\u00e9\0\u00e9", 5));
  EXPECT_EQ(NormalizeNfc(""), "");
}

}  // namespace
}  // namespace baton::tokenizer
