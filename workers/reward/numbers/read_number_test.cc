// What numbers texts say. The values are written by hand, as fractions.
#include "workers/reward/numbers/read_number.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::reward {
namespace {

using Kind = NumberReading::Kind;
using Int = boost::multiprecision::cpp_int;

NumberReading Last(const std::string& text) { return ReadLastNumber(text, {}); }

bool Is(const NumberReading& reading, const Int& top, const Int& bottom) {
  return reading.kind == Kind::kNumber && AreNear(reading.value, {top, bottom}, 0);
}

struct Said {
  const char* text;
  int64_t top;
  int64_t bottom = 1;
};

TEST(ReadNumberTest, ReadsTheLastNumberOfAText) {
  const Said cases[] = {
      {"It is 1,234.50 in all", 123450, 100},
      {"first 3, then 4.", 4},
      {"1,234,567", 1234567},
      {".5", 1, 2},
      {"007", 7},
      {"1e3", 1000},
      {"2.5E-3", 25, 10000},
      {"1.2 × 10^3", 1200},
      {"1.2 \\times 10^{-2}", 12, 1000},
      {"10^6", 1000000},
      {"The answer is **5**.", 5},
      {"so `-5`", -5},
      {"x = 7!", 7},
      {"#### 72", 72},
      {"3 + 5 = 8", 8},
      {"It weighs 5 kg", 5},
      {"It weighs 5kg", 5},
      {"an area of 5 cm^2", 5},
      {"an area of 5 cm²", 5},
      {"at 90°", 90},
      {"the 3rd", 3},
      {"5 km/h", 5},
      {"$5/hour", 5},
      {"答案是5。", 5},
      {"答案是−5", -5},
      {"x2 is 3 and H2O", 3},
      {"\\(x = 5\\)", 5},
      {"\\begin{aligned} x &= 5 \\end{aligned}", 5},
      {"<answer>5</answer>", 5},
      {"٣٫ or ٣", 3},
      {"３", 3},
  };
  for (const Said& c : cases)
    EXPECT_TRUE(Is(Last(c.text), c.top, c.bottom)) << c.text << " " << Last(c.text).why;
}

TEST(ReadNumberTest, ReadsSignsOnBothSidesOfACurrency) {
  const Said cases[] = {
      {"The change is \u22125.", -5},
      {"A loss of -$3", -3},
      {"A loss of $-3", -3},
      {"A loss of \u2212€3.50", -350, 100},
      {"x = - 5", -5},
      {"x = -7", -7},
      {"(-5)", -5},
      {"+5", 5},
      {"is: -5", -5},
      {"costs \\$3", 3},
      {"covid-19: 4 of them", 4},
      {"The result \u2013 5", 5},
      {"-1/2", -1, 2},
      {"-3 1/2", -7, 2},
  };
  for (const Said& c : cases)
    EXPECT_TRUE(Is(Last(c.text), c.top, c.bottom)) << c.text << " " << Last(c.text).why;
}

TEST(ReadNumberTest, ReadsFractionsAndPercents) {
  const Said cases[] = {
      {"The chance is 1/2.", 1, 2},
      {"1 / 2", 1, 2},
      {"3 1/2", 7, 2},
      {"½", 1, 2},
      {"3½", 7, 2},
      {"\\frac{1}{2}", 1, 2},
      {"-\\frac{1}{2}", -1, 2},
      {"\\frac{-1}{2}", -1, 2},
      {"\\dfrac12", 1, 2},
      {"2\\frac{1}{2}", 5, 2},
      {"\\frac{1.5}{3}", 1, 2},
      {"50%", 50},
      {"50 %", 50},
      {"12.5\\%", 25, 2},
      {"1/2%", 1, 2},
      {"1⁄3", 1, 3},
  };
  for (const Said& c : cases)
    EXPECT_TRUE(Is(Last(c.text), c.top, c.bottom)) << c.text << " " << Last(c.text).why;
}

TEST(ReadNumberTest, APercentSignMayMeanHundredths) {
  NumberStyle style;
  style.percent_is_hundredths = true;
  EXPECT_TRUE(Is(ReadLastNumber("50%", style), 1, 2));
  EXPECT_TRUE(Is(ReadLastNumber("12.5\\%", style), 1, 8));
  EXPECT_TRUE(Is(ReadLastNumber("1/2 percent", style), 1, 200));
  const NumberReading percents = ReadLastNumber("10-12%", style);
  EXPECT_TRUE(AreNear(percents.value, {1, 10}, 0) && AreNear(percents.upper, {12, 100}, 0));
}

TEST(ReadNumberTest, ReadsTheLastBoxWithNestedBraces) {
  const Said cases[] = {
      {"\\boxed{5}. That is step 2.", 5},
      {"\\boxed{4} no, \\boxed{5}", 5},
      {"\\fbox{4} no, \\boxed{5}", 5},
      {"\\boxed{4} no, \\fbox{5}", 5},
      {"\\boxed{\\frac{1}{2}}", 1, 2},
      {"$\\boxed{-\\frac{3}{4}}$", -3, 4},
      {"\\boxed{x = -\\dfrac{3}{4}}", -3, 4},
      {"\\boxed{5\\text{ cm}^2}", 5},
      {"\\boxed{{1{,}234}}", 1234},
      {"\\boxed{1\\,234}", 1234},
      {"\\boxed{\\$5.00}", 5},
      {"\\fbox{7}", 7},
      {"\\boxed{90^\\circ}", 90},
  };
  for (const Said& c : cases)
    EXPECT_TRUE(Is(Last(c.text), c.top, c.bottom)) << c.text << " " << Last(c.text).why;
}

TEST(ReadNumberTest, WhatMayMeanSeveralNumbersIsAmbiguousAndSaysWhy) {
  for (const char* text : {"3,14",
                           "1,2,3",
                           "1.234.567",
                           "12:30",
                           "2024-05-01",
                           "5/12/2024",
                           "1 234",
                           "x-5",
                           "10 - 12",
                           "3-5-7",
                           "- 5",
                           "2x",
                           "5k",
                           "5π",
                           "x + 5",
                           "3*5",
                           "3 × 5",
                           "2^10",
                           "x^2 + 3^2",
                           "5 + x",
                           "√5",
                           "\\sqrt{5}",
                           "\\sqrt5",
                           "5\\pi",
                           "\\frac{\\sqrt{3}}{2}",
                           "f(5)",
                           "x/5",
                           "5/x",
                           "1/0",
                           "5(x+1)",
                           "±5",
                           "x ≤ 5",
                           "\u20135",
                           "2 5/3",
                           "\\boxed{5",
                           "\\boxed 5",
                           "\\boxed{\\sqrt{5}}",
                           "\\boxed{2, 3}",
                           "\\boxed{x^2 - 5}",
                           "\\boxed{a}{5} \\boxed{5\\pi}",
                           "1e5000",
                           "\\frac{a}{2}"}) {
    const NumberReading reading = Last(text);
    EXPECT_EQ(reading.kind, Kind::kAmbiguous) << text;
    EXPECT_NE(reading.why, "") << text;
  }
  EXPECT_EQ(Last("3,14").why, "'3,14' may have a decimal comma, or be several numbers");
}

TEST(ReadNumberTest, ATextWithoutNumbersHasNone) {
  for (const char* text : {"", "none", "x2", "\\boxed{}", "\\boxed{yes} 5", "step_2", "..."}) {
    EXPECT_EQ(Last(text).kind, Kind::kNone) << text;
  }
}

TEST(ReadNumberTest, ARangeHasTwoEnds) {
  for (const char* text : {"between 10-12", "10–12", "10 – 12", "10--12", "$10-$12"}) {
    const NumberReading reading = Last(text);
    ASSERT_EQ(reading.kind, Kind::kRange) << text << reading.why;
    EXPECT_TRUE(AreNear(reading.value, {10, 1}, 0) && AreNear(reading.upper, {12, 1}, 0)) << text;
  }
  const NumberReading percents = Last("10-12%");
  EXPECT_TRUE(AreNear(percents.value, {10, 1}, 0) && AreNear(percents.upper, {12, 1}, 0));
}

TEST(ReadNumberTest, ABoundIsNoNumber) {
  for (const char* text :
       {">5", "x > 5", "x>5", "<5", "x < 5", ">=5", "x <= 5", "x <= -5", "a <b\n> 5 >5"}) {
    EXPECT_EQ(Last(text).kind, Kind::kAmbiguous) << text;
  }
  for (const char* text : {"<answer>5", "<b>5</b>", "<a href='x'>5</a>", "-> 5", "=>5",
                           "<<2+3=5>>5", "so:\n> 5", "> 5"}) {
    EXPECT_TRUE(Is(Last(text), 5, 1)) << text << " " << Last(text).why;
  }
}

TEST(ReadNumberTest, APointBehindAWordIsNoDecimalPoint) {
  EXPECT_TRUE(Is(Last("I have 3, so Rs.5"), 5, 1));
  EXPECT_TRUE(Is(Last("No.5"), 5, 1));
  EXPECT_TRUE(Is(Last("It is .5"), 1, 2));
  EXPECT_EQ(Last("1_000").kind, Kind::kAmbiguous) << "not 0";
}

TEST(ReadNumberTest, AnAnswerIsOneNumberAsAWhole) {
  const auto whole = [](const std::string& text) { return ReadWholeNumber(text, {}); };
  EXPECT_TRUE(Is(whole("$1,000"), 1000, 1));
  EXPECT_TRUE(Is(whole("$5$"), 5, 1));
  EXPECT_TRUE(Is(whole("72 apples"), 72, 1));
  EXPECT_TRUE(Is(whole("x = 3/4"), 3, 4));
  EXPECT_TRUE(Is(whole("\\boxed{\\frac{1}{2}}"), 1, 2));
  EXPECT_TRUE(Is(whole("-18446744073709551617"), -Int("18446744073709551617"), 1));
  for (const char* text : {"3 and 4", "about 5", "She has 3 + 4 = 7 #### 7", "\\sqrt{5}", "3,14"}) {
    EXPECT_EQ(whole(text).kind, Kind::kAmbiguous) << text;
  }
  for (const char* text : {"", "four", "inf", "nan"})
    EXPECT_EQ(whole(text).kind, Kind::kNone) << text;
}

TEST(ReadNumberTest, LongTextsCostLittle) {
  EXPECT_EQ(Last(std::string(100000, '9')).kind, Kind::kAmbiguous);
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "\\text{7 ";
  EXPECT_NE(Last(many + "}").kind, Kind::kNone);
}

TEST(ExactNumberTest, ComparesWithoutRounding) {
  const auto number = [](const char* digits) { return *ExactDecimal(digits, 0); };
  EXPECT_FALSE(AreNear(number("12345678901234567890123"), number("12345678901234567890124"), 0.5));
  EXPECT_TRUE(AreNear(number("12345678901234567890123"), number("12345678901234567890124"), 1));
  EXPECT_TRUE(AreNear(number("0.1"), number("0.4"), 0.3)) << "3/10, not the nearest double";
  EXPECT_FALSE(AreNear(number("0.1"), number("0.40000000000000000001"), 0.3));
  EXPECT_TRUE(AreNear(*Quotient(number("1"), number("3")), number("0.333333333333"), 1e-9));
  EXPECT_TRUE(AreNear(*ExactDecimal("1.10", 2), number("110"), 0));
  EXPECT_FALSE(Quotient(number("1"), number("0")).has_value());
  EXPECT_FALSE(ExactDecimal("1", 1001).has_value());
}

}  // namespace
}  // namespace baton::reward
