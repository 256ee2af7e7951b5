#include "controller/spec/settings/impossible_pattern.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/regex.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

std::string Why(const std::string& pattern, const JudgedText& text = {}) {
  EXPECT_TRUE(Regex::Compile(absl::StrReplaceAll(pattern, {{"{answer}", "\\Qx\\E"}})).ok())
      << pattern;
  return WhyNeverMatches(pattern, text);
}

TEST(ImpossiblePatternTest, AnchorsThatContradictTheRestAreFound) {
  for (const char* pattern : {"a^b", "\\d+^", "x\\Ay", "(ab|c)^", "a+?^", "\\Qab\\E^"}) {
    EXPECT_THAT(Why(pattern), HasSubstr("beginning of the text (^)")) << pattern;
  }
  for (const char* pattern :
       {"$#(\\d+)", "a$b", "\\z\\n", "$\\n\\n", "$.", "$\\s*x", "a$[ab]{2}", "\\Za", "$\\n?x"}) {
    EXPECT_THAT(Why(pattern), HasSubstr("behind the end of the text ($)")) << pattern;
  }
  for (const char* pattern : {"(?!)", "a(*FAIL)", "(*F)"}) {
    EXPECT_THAT(Why(pattern), HasSubstr("fails everywhere")) << pattern;
  }
  EXPECT_THAT(Why("a^|$b"), HasSubstr("(^)")) << "both ways are impossible";
}

TEST(ImpossiblePatternTest, PatternsThatMayMatchAreLeftAlone) {
  for (const char* pattern : {"^a$",
                              "a|b^",
                              "^^a",
                              "a*^b",
                              "(a?)^",
                              "(?=a)^b",
                              "$\\n",
                              "$\\s",
                              "$$",
                              "a$|b",
                              "\\$5",
                              "[$]5",
                              "[^a]",
                              "a\\^b",
                              "(?m)a\\n^b",
                              "(?i)$a",
                              "$(a)?",
                              "$a?",
                              "^{answer}$",
                              "{answer}^",
                              "$(?:)",
                              "(?!a)b",
                              "(?<=a)^",
                              "\\bx",
                              "a{0}^",
                              "x{,2}^",
                              "#### (-?[0-9.,]+)",
                              "(\\d+)\\1",
                              "\\x41^",
                              "(?#note)a^",
                              "a\\E*^",
                              "\\boxed{(\\d+)}$"}) {
    EXPECT_EQ(Why(pattern), "") << pattern;
  }
}

TEST(ImpossiblePatternTest, WhiteSpaceAtTheEndsOfAStrippedTextIsFound) {
  JudgedText stripped;
  stripped.stripped = true;
  EXPECT_THAT(Why("^ x", stripped), HasSubstr("at the beginning"));
  EXPECT_THAT(Why("^\\n", stripped), HasSubstr("at the beginning"));
  EXPECT_THAT(Why("x\\n$", stripped), HasSubstr("at the end"));
  EXPECT_THAT(Why("x\\t+\\z", stripped), HasSubstr("at the end"));
  for (const char* pattern : {"^ ?x", "^\\s*x", "x *$", "x y", " x", "^x $|y", "^\\sx"}) {
    EXPECT_EQ(Why(pattern, stripped), "") << pattern;  // \s takes more than ASCII's
  }
  EXPECT_EQ(Why("^ x"), "");
}

TEST(ImpossiblePatternTest, CharactersThatTheTextsDoNotHaveAreFound) {
  JudgedText text;
  text.characters = "ab=";
  EXPECT_THAT(Why("=c", text), HasSubstr("it wants 'c'"));
  EXPECT_THAT(Why("=\\d", text), HasSubstr("it wants a digit"));
  EXPECT_THAT(Why("A", text), HasSubstr("it wants 'A'"));
  for (const char* pattern : {"a=b", "c?a", "[c]", "c|a", "c*", "(c)?", "\\Qab\\E"}) {
    EXPECT_EQ(Why(pattern, text), "") << pattern;
  }
  text.ignore_case = true;
  EXPECT_EQ(Why("A", text), "");
  EXPECT_THAT(Why("C", text), HasSubstr("it wants 'C'"));
  text.characters = "ks";  // U+212A and U+017F are other forms of these
  EXPECT_EQ(Why("\u212A", text), "");
  text.characters = "\u0663";  // a digit of Arabic
  EXPECT_EQ(Why("\\d", text), "");
}

TEST(ImpossiblePatternTest, MoreCharactersThanTheTextsHaveAreFound) {
  JudgedText text;
  text.most_characters = 3;
  EXPECT_EQ(Why("(a|bc)b{2}", text), "");
  EXPECT_THAT(Why("(a|bc)b{3}", text), HasSubstr("it wants 4 characters at least"));
  EXPECT_EQ(Why("äöü", text), "");
}

// A random pattern of anchors, characters, classes, groups and quantifiers.
std::string RandomPattern(std::mt19937& random, int depth) {
  static const std::vector<std::string> atoms = {
      "a",   "b", " ",    "\\n",  "^",   "$",    "\\A", "\\z",      "\\Z",   ".",     "\\d",
      "\\s", "1", "[a1]", "[^a]", "\\W", "(?!)", "\\b", "\\Qa1\\E", "(?=a)", "(?<!b)"};
  static const std::vector<std::string> quantifiers = {"",  "",    "",      "",     "*",  "+",
                                                       "?", "{2}", "{0,1}", "{1,}", "*?", "++"};
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  std::string out;
  for (size_t i = 1 + below(4); i > 0; --i) {
    if (depth > 0 && below(5) == 0) {
      absl::StrAppend(&out, below(2) == 0 ? "(" : "(?:", RandomPattern(random, depth - 1), ")");
    } else {
      out += atoms[below(atoms.size())];
    }
    out += quantifiers[below(quantifiers.size())];
  }
  return below(6) == 0 ? absl::StrCat(out, "|", RandomPattern(random, 0)) : out;
}

// PCRE2 itself is the judge: no text of up to four of these characters matches.
TEST(ImpossiblePatternTest, WhatIsRefusedMatchesNothingInAnySmallText) {
  const std::string characters = "a1 \n";
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < 4; ++i) {
    for (const char c : characters) texts.push_back(texts[i] + c);
  }
  std::mt19937 random(17);
  int refused = 0, taken = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string pattern = RandomPattern(random, 2);
    const auto regex = Regex::Compile(pattern);
    if (!regex.ok()) continue;
    JudgedText text;
    text.stripped = i % 2 == 0;
    if (i % 3 == 0) text.characters = characters;
    if (i % 5 == 0) text.most_characters = 4;
    const std::string why = WhyNeverMatches(pattern, text);
    ++(why.empty() ? taken : refused);
    for (size_t t = 0; t < texts.size() && !why.empty(); ++t) {
      if (text.stripped && absl::StripAsciiWhitespace(texts[t]) != texts[t]) continue;
      ASSERT_FALSE(RegexMatcher(*regex, texts[t]).Find(0).value())
          << pattern << " matches '" << absl::CEscape(texts[t]) << "', but: " << why;
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(taken, 200);
}

}  // namespace
}  // namespace baton::controller
