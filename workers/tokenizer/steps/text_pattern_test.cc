// Patterns against what tokenizers 0.23.3 (Oniguruma) makes of them.
#include "workers/tokenizer/steps/text_pattern.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace baton::tokenizer {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// As Split with the behavior Isolated.
Words Cut(const std::string& pattern, const std::string& text) {
  const auto parsed =
      TextPattern::FromJson(nlohmann::json{{"pattern", {{"Regex", pattern}}}}, "step");
  if (!parsed.ok()) return {parsed.status().ToString()};
  Words out;
  const std::vector<PatternPiece> pieces = *parsed->Find(text);
  for (const PatternPiece& piece : pieces) {
    if (piece.begin < piece.end) out.push_back(text.substr(piece.begin, piece.end - piece.begin));
  }
  return out;
}

TEST(TextPatternTest, CutsAsOnigurumaDoes) {
  const struct {
    std::string pattern, text;
    Words words;
  } cases[] = {
      {"^a", "a\nab", {"a", "\n", "a", "b"}},
      {"a$", "a\na", {"a", "\n", "a"}},
      {"\\s+$", "a \n b \n", {"a", " ", "\n b", " \n"}},
      {"\\p{N}{1,3}", "1234567", {"123", "456", "7"}},
      {"\\p{N}{1,3}+", "1234567", {"1234567"}},
      {"a{2}+", "aaaa", {"aaaa"}},
      {"a{,2}", "aaab", {"aa", "a", "b"}},
      {"(?m:.+)", "a\nb", {"a\nb"}},
      {".", "a\nb", {"a", "\n", "b"}},
      {" ?[^(\\s|[.,!?…。，、।۔،])]+",
       "Hello, world! (x)",
       {"Hello", ",", " world", "! (", "x", ")"}},
      {"\\h+", "xabc0 z", {"x", "abc0", " z"}},
      {"[\\h]", "ag", {"a", "g"}},
      {"\\w+", "हिन्दी abc_1 ๆ", {"हिन्दी", " ", "abc_1", " ", "ๆ"}},
      {"\\W+", "हिन्दी, b", {"हिन्दी", ", ", "b"}},
      {"[\\w-]+", "हिन्दी-b c", {"हिन्दी-b", " ", "c"}},
      {"\\bab", "ab xab", {"ab", " xab"}},
      {"\\w+", "a\u200db", {"a", "\u200d", "b"}},
      {"\\w+", "a²-½③", {"a²", "-", "½", "③"}},
      {"[[:alpha:]]+", "abc1", {"abc", "1"}},
      {"[[:punct:]]+", "a$+!€b", {"a", "$+!€", "b"}},
      {"\\uFF5C", "｜a", {"｜", "a"}},
      {"(?i)s", "Sſ", {"S", "ſ"}},
      {"a++b", "aab", {"aab"}},
      {"\\R", "a\r\nb", {"a", "\r\n", "b"}},
      {"x*", "axxb", {"a", "xx", "b"}},
      // A set's \\w is without superscripts and fractions.
      {"[\\w-]+", "a²b-½", {"a", "²", "b-", "½"}},
      {"[[:word:]]+", "a²_", {"a", "²", "_"}},
      // Scripts are those of the characters themselves: 。 and ー belong to several.
      {"\\p{Han}+", "中文。、々ー", {"中文", "。、", "々", "ー"}},
      {"[\\p{Katakana}a]+", "カー。a", {"カ", "ー。", "a"}},
      {"\\p{^Han}+", "中。a", {"中", "。a"}},
      {"\\P{ h-a_n }+", "中。a", {"中", "。a"}},
      {"\\p{Arabic}+", "ب،ـ", {"ب", "،ـ"}},
      {"\\p{Uppercase_Letter}\\p{Nonspacing_Mark}", "aE\u0301", {"a", "E\u0301"}},
      {"[\\p{Letter}\\p{Number}]+", "a1½-", {"a1½", "-"}},
      {"\\p{^Letter}+", "a12b", {"a", "12", "b"}},
      {"\\p{Punct}+", "a$+!€_-", {"a$+", "!", "€", "_-"}},
      {"\\p{Digit}+", "1½Ⅷ٣", {"1", "½Ⅷ", "٣"}},
      {"\\p{Space}+", "a\u0085\u200b ", {"a", "\u0085", "\u200b", " "}},
      // What several sets have in common.
      {"[a-z&&[^aeiou]]+", "hello", {"h", "e", "ll", "o"}},
      {"[\\p{L}&&[^\\p{Han}]]+", "abc中文d", {"abc", "中文", "d"}},
      {"[\\p{L}\\p{M}&&[^\\p{Han}]]*x", "é中x", {"é中", "x"}},
      {"[^\\s\\p{L}&&[^.]]", "a. b!", {"a", ".", " b", "!"}},
      {"[a-c&&b-d&&[^c]]", "abcd", {"a", "b", "cd"}},
      // (?i) reaches over the alternatives of the group that it stands in.
      {"a(?i)b|c", "ab aB ac c C", {"ab", " ", "aB", " ", "ac", " c C"}},
      {"(a(?i)b|c)d", "abd cd acd aBd", {"abd", " cd ", "acd", " ", "aBd"}},
      {"(?i)s+s", "ß ss", {"ß ", "ss"}},
  };
  for (const auto& c : cases) EXPECT_EQ(Cut(c.pattern, c.text), c.words) << c.pattern;
}

TEST(TextPatternTest, WhatHasNoTranslationIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"[a[b&&c]]", "'[…[…&&…]…]'"},
      {"[a[^b]]", "'[…[^…]…]'"},
      {"(?s:.)", "'(?s'"},
      {"(*FAIL)", "'(*'"},
      {"a\\y", "'\\y'"},
      {"[\\W]", "'[…\\W…]'"},
      {"[[:print:]]", "'[:print:]'"},
      {"\\pL", "'\\p'"},
      // Oniguruma finds ß by these, and PCRE2 does not.
      {"(?i)a|ss", "'(?i)ss'"},
      {"(?i:x)(?i:fi)", "'(?i)fi'"},
      {"(?i)ß", "'(?i)ß'"},
      {"(?i:[ß])", "'(?i)ß'"}};
  for (const auto& [pattern, named] : cases) {
    const auto refused = TranslatePattern(pattern);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(named));
  }
}

TEST(TextPatternTest, LargePatternsAreErrorsNotCrashes) {
  const auto refused = [](const std::string& pattern) {
    return std::string(TranslatePattern(pattern).status().message());
  };
  EXPECT_THAT(refused(std::string(2000, '[')), HasSubstr("'[[[…'"));
  EXPECT_THAT(refused(std::string(1 << 20, '[')), HasSubstr("has 1048576 bytes"));
  EXPECT_EQ(Cut("[a[b[c]]]+", "abcd"), Words({"abc", "d"}));
}

TEST(TextPatternTest, UnfinishedPatternsAreErrorsNotCrashes) {
  for (const char* pattern :
       {"\\",    "[",   "[^", "[[", "[[:",  "[\\",  "(?",      "(",   "a{",    "a{1",  "\\p{",
        "\\u12", "(?#", "[]", ")",  "\\x{", "[a&&", "[a&&[^b", "(?i", "(?i)(", "\\p{^"}) {
    const auto translated = TranslatePattern(pattern);
    if (translated.ok()) (void)TextPattern::FromPcre2(*translated);
  }
}

}  // namespace
}  // namespace baton::tokenizer
