#include "workers/reward/fold_text.h"

#include <utf8proc.h>

#include <string>

#include "gtest/gtest.h"
#include "sdk/common/base/regex.h"
#include "sdk/common/base/utf8.h"

namespace baton::reward {
namespace {

std::string Utf8(char32_t c) {
  std::string out;
  AppendUtf8(c, &out);
  return out;
}

TEST(FoldTextTest, StripsTheWhiteSpaceOfUnicode) {
  EXPECT_EQ(StripSpaces("\u00a0\u3000 \tParis\u2009\u2029\n"), "Paris");
  EXPECT_EQ(StripSpaces("\u00a0"), "");
  EXPECT_EQ(StripSpaces("\u200bx"), "\u200bx") << "it is no White_Space";
  EXPECT_EQ(StripSpaces("é"), "é");
}

TEST(FoldTextTest, FoldsLettersOfAllScripts) {
  EXPECT_EQ(FoldCase("ÉCOLE Σς Жук"), FoldCase("école σσ жУК"));
  EXPECT_EQ(FoldCase("\u212a\u017f"), "ks");  // Kelvin sign, long s
  EXPECT_NE(FoldCase("ß"), FoldCase("ss")) << "one character for one";
  EXPECT_NE(FoldCase("\u0130"), FoldCase("i"));
  EXPECT_NE(FoldCase("\u0131"), FoldCase("i"));
}

// A pattern and a text are compared alike, whatever the rule: PCRE2 is the reference.
TEST(FoldTextTest, FoldsAsPatternsDo) {
  RegexOptions options;
  options.ignore_case = true;
  int compared = 0;
  for (char32_t c = 0x21; c < 0x20000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const auto point = static_cast<utf8proc_int32_t>(c);
    for (const utf8proc_int32_t other :
         {utf8proc_tolower(point), utf8proc_toupper(point), utf8proc_totitle(point)}) {
      if (other == point) continue;
      const std::string text = Utf8(static_cast<char32_t>(other));
      const Regex regex = Regex::Compile("\\A\\Q" + Utf8(c) + "\\E\\z", options).value();
      const bool matches = RegexMatcher(regex, text).Find(0).value();
      EXPECT_EQ(FoldCase(Utf8(c)) == FoldCase(text), matches) << Utf8(c) << " " << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 2000);
}

}  // namespace
}  // namespace baton::reward
