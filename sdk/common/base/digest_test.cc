#include "sdk/common/base/digest.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(DigestTest, Sha256OfTheStandardsExample) {  // FIPS 180-4, appendix: "abc"
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, PiecesHaveTheHashOfTheWhole) {
  Sha256Hasher pieces;
  for (const char* piece : {"a", "", "bc"}) pieces.Add(piece);
  EXPECT_EQ(absl::BytesToHexString(pieces.Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // Python: hashlib.sha256(b"").hexdigest()
  EXPECT_EQ(absl::BytesToHexString(Sha256Hasher().Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, AMacDependsOnItsKeyAndThePartBoundaries) {
  // Python: hmac.new(b"key", b"\x02" + b"\0" * 7 + b"ab" + b"\x01" + b"\0" * 7 + b"c", "sha256")
  EXPECT_EQ(Mac("key", {"ab", "c"}),
            "8c568fcbf2953946832018520a5eb5a6a63fe007671cf14e924b528f355076d0");
  EXPECT_NE(Mac("key", {"ab", "c"}), Mac("key", {"a", "bc"}));
  EXPECT_NE(Mac("key", {"ab", "c"}), Mac("kez", {"ab", "c"}));
}

TEST(DigestTest, SecretsDifferAndAreCompared) {
  const auto one = RandomHex(16), other = RandomHex(16);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), 32u);
  EXPECT_NE(*one, *other);
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
}

}  // namespace
}  // namespace baton
