#include "sdk/common/base/utf8.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using Kind = Utf8Char::Kind;

TEST(Utf8Test, ReadsOneCharacterOfEachLength) {
  const struct {
    const char* text;
    char32_t code_point;
    size_t length;
  } cases[] = {{"A", 0x41, 1},
               {"\xC2\x80", 0x80, 2},
               {"\xDF\xBF", 0x7FF, 2},
               {"\xE0\xA0\x80", 0x800, 3},
               {"\xEF\xBF\xBF", 0xFFFF, 3},
               {"\xED\x9F\xBF", 0xD7FF, 3},
               {"\xF0\x90\x80\x80", 0x10000, 4},
               {"\xF4\x8F\xBF\xBF", 0x10FFFF, 4}};
  for (const auto& c : cases) {
    const Utf8Char got = ReadUtf8(std::string(c.text) + "x");
    EXPECT_EQ(got.kind, Kind::kValid);
    EXPECT_EQ(got.code_point, c.code_point);
    EXPECT_EQ(got.length, c.length);
    std::string written;
    AppendUtf8(c.code_point, &written);
    EXPECT_EQ(written, c.text);
  }
}

TEST(Utf8Test, RefusesOverlongSurrogateAndTooLarge) {
  // A continuation alone, overlong forms, a surrogate, above U+10FFFF, and bytes never used.
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(ReadUtf8(text).kind, Kind::kInvalid) << testing::PrintToString(std::string(text));
    EXPECT_FALSE(IsValidUtf8(text));
  }
  EXPECT_TRUE(IsValidUtf8(""));
}

TEST(Utf8Test, TellsIncompleteFromInvalid) {
  const std::string grinning = "\xF0\x9F\x98\x80";
  for (size_t length = 1; length < 4; ++length) {
    const Utf8Char got = ReadUtf8(grinning.substr(0, length));
    EXPECT_EQ(got.kind, Kind::kIncomplete);
    EXPECT_EQ(got.length, length);
  }
  EXPECT_EQ(ReadUtf8("\xF0\x9Fx").kind, Kind::kInvalid);
  EXPECT_EQ(ReadUtf8("\xF0\x9Fx").length, 2u);
  EXPECT_EQ(ValidUtf8Prefix("ab" + grinning.substr(0, 2)), 2u);
}

TEST(Utf8Test, ReplacesEachMaximalSubpartOnce) {
  // The example of the Unicode standard, chapter 3, table 3-11.
  EXPECT_EQ(ReplaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41");
  EXPECT_EQ(ReplaceInvalidUtf8("caf\xC3\xA9"), "caf\xC3\xA9");
}

}  // namespace
}  // namespace baton
