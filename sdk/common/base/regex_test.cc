#include "sdk/common/base/regex.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> AllMatches(const Regex& regex, const std::string& text) {
  std::vector<std::string> out;
  RegexMatcher matcher(regex, text);
  size_t at = 0;
  while (true) {
    auto found = matcher.Find(at);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found || matcher.end() == at) return out;
    out.emplace_back(*matcher.group(0));
    at = matcher.end();
  }
}

TEST(RegexTest, FindsMatchesInOrderWithUnicodeClasses) {
  auto regex = Regex::Compile("\\p{L}+|\\d+");
  ASSERT_TRUE(regex.ok()) << regex.status();
  EXPECT_THAT(AllMatches(*regex, "na\xC3\xAFve 42 \xD1\x82\xD0\xB5"),
              ElementsAre("na\xC3\xAFve", "42", "\xD1\x82\xD0\xB5"));
}

TEST(RegexTest, GroupsThatTookNoPartAreAbsent) {
  auto regex = Regex::Compile("(a)|(b)(c)?");
  ASSERT_TRUE(regex.ok());
  EXPECT_EQ(regex->group_count(), 3);
  RegexMatcher matcher(*regex, "xb");
  ASSERT_TRUE(*matcher.Find(0));
  EXPECT_EQ(matcher.begin(), 1u);
  EXPECT_EQ(matcher.group(1), std::nullopt);
  EXPECT_EQ(matcher.group(2), "b");
  EXPECT_EQ(matcher.group(3), std::nullopt);
  EXPECT_EQ(matcher.group(9), std::nullopt);
  EXPECT_FALSE(*matcher.Find(2));
}

TEST(RegexTest, IgnoreCaseCoversUnicode) {
  RegexOptions options;
  options.ignore_case = true;
  auto regex = Regex::Compile("\xC3\xA9t\xC3\xA9", options);  // "été"
  ASSERT_TRUE(regex.ok());
  RegexMatcher matcher(*regex, "\xC3\x89T\xC3\x89");
  EXPECT_TRUE(*matcher.Find(0));
}

TEST(RegexTest, BadPatternNamesThePlace) {
  auto regex = Regex::Compile("ab(cd");
  EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(regex.status().message()), HasSubstr("ab(cd"));
  EXPECT_THAT(std::string(regex.status().message()), HasSubstr("at byte 5"));
  EXPECT_FALSE(Regex::Compile(std::string(100000, 'a')).ok());
  EXPECT_FALSE(Regex::Compile("\xFF").ok());
}

TEST(RegexTest, InvalidTextIsAnError) {
  auto regex = Regex::Compile("a");
  ASSERT_TRUE(regex.ok());
  RegexMatcher matcher(*regex,
                       "\xFF"
                       "a");
  EXPECT_EQ(matcher.Find(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RegexTest, ExponentialBacktrackingIsStopped) {
  RegexOptions options;
  options.match_limit = 10000;
  auto regex = Regex::Compile("^(a+)+$", options);
  ASSERT_TRUE(regex.ok());
  const std::string text = std::string(64, 'a') + "b";
  RegexMatcher matcher(*regex, text);
  EXPECT_EQ(matcher.Find(0).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RegexTest, EmptyTextAndLongText) {
  auto regex = Regex::Compile("(?:x|y)*");
  ASSERT_TRUE(regex.ok());
  RegexMatcher empty(*regex, "");
  EXPECT_TRUE(*empty.Find(0));
  EXPECT_EQ(empty.end(), 0u);
  // Deep enough to leave PCRE2's small machine stack.
  const std::string text(200000, 'x');
  RegexMatcher matcher(*regex, text);
  auto found = matcher.Find(0);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(matcher.end(), text.size());
}

}  // namespace
}  // namespace baton
