#include "sdk/common/schema/kl_type.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

void ExpectType(absl::string_view name, KlType::Estimate estimate, bool straight_through) {
  const auto type = ParseKlType(name);
  ASSERT_TRUE(type.has_value()) << name;
  EXPECT_EQ(type->estimate, estimate) << name;
  EXPECT_EQ(type->straight_through, straight_through) << name;
}

TEST(KlTypeTest, KnowsEveryName) {
  ExpectType("k1", KlType::kK1, false);
  ExpectType("kl", KlType::kK1, false);
  ExpectType("abs", KlType::kAbs, false);
  ExpectType("k2", KlType::kK2, false);
  ExpectType("mse", KlType::kK2, false);
  ExpectType("k3", KlType::kK3, false);
  ExpectType("low_var_kl", KlType::kK3, false);
  ExpectType("k1+", KlType::kK1, true);
  ExpectType("kl+", KlType::kK1, true);
  ExpectType("k3+", KlType::kK3, true);
  ExpectType("low_var_kl+", KlType::kK3, true);
  for (const absl::string_view name : {"", "+", "k4", "k2+", "abs+", "k1++", "full"}) {
    EXPECT_FALSE(ParseKlType(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace baton
