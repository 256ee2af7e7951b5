// Tests of who may publish for a job, and of what jobs of one name see of each other.
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/contracts/shared_key.h"
#include "tests/support/relay/relay_service.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A relay that shares a key with the controller: only the job's own trainer publishes for it.
class CapabilityTest : public RelayServiceTest {
 protected:
  CapabilityTest() { options_.relay.capability_key = kKey; }

  /// The wrong ones, by what is wrong.
  static std::map<std::string, std::string> Wrong() {
    std::string damaged = PublishCapability(kKey, kJob);
    damaged.back() = damaged.back() == '0' ? '1' : '0';
    return {{"missing", ""},
            {"another job's", PublishCapability(kKey, "projects/default/jobs/other")},
            {"of another key", PublishCapability("another-key-of-32-characters-----", kJob)},
            {"the key itself", kKey},
            {"damaged", damaged},
            {"longer", PublishCapability(kKey, kJob) + "0"}};
  }
  static void ExpectRefused(const absl::Status& status, const std::string& what) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << what << ": " << status;
    EXPECT_EQ(ErrorReason(status), "CAPABILITY") << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kJob)) << what;
  }

  static constexpr char kKey[] = "a-key-of-32-characters-or-more--";
};

TEST_F(CapabilityTest, PublishesOnlyWithTheCapabilityAndReadsWithoutIt) {
  Start();
  capability_ = PublishCapability(kKey, kJob);
  const v1::SegmentInfo first = Publish(1, 1);
  Publish(2, 2);
  EXPECT_TRUE(Drop({first.segment_id(), "unknown"}).ok());
  capability_.clear();
  EXPECT_THAT(Versions(), ::testing::ElementsAre(2));
  EXPECT_TRUE(Acquire(2).ok());
}

TEST_F(CapabilityTest, BeginIsRefusedBeforeAnythingIsTouched) {
  Start();
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Begin(1).status(), what);
  }
  EXPECT_THAT(Segments(), IsEmpty());
}

TEST_F(CapabilityTest, RefusesAForkByAnotherJob) {
  Start();
  capability_ = PublishCapability(kKey, kJob);
  Publish(5, 5);
  capability_ = PublishCapability(kKey, "projects/default/jobs/other");
  ExpectRefused(Begin(1, /*fork=*/true).status(), "fork");
  EXPECT_THAT(Versions(), ::testing::ElementsAre(5));
}

TEST_F(CapabilityTest, CommitAndSealOfAnothersSegmentAreRefused) {
  Start();
  const std::string right = capability_ = PublishCapability(kKey, kJob);
  const auto begun = Begin(1);
  ASSERT_TRUE(begun.ok()) << begun.status();
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Fill(*begun, 7), what);
    ExpectRefused(Seal(begun->segment_id()).status(), what);
  }
  capability_ = right;
  EXPECT_EQ(ErrorReason(Seal(begun->segment_id()).status()), "INCOMPLETE") << "nothing committed";
  EXPECT_TRUE(Fill(*begun, 7).ok());
  EXPECT_TRUE(Seal(begun->segment_id()).ok());
}

TEST_F(CapabilityTest, AnEarlierJobOfTheNameChangesNothing) {
  Start();
  uid_ = "new";
  capability_ = PublishCapability(kKey, kJob, "old");
  ExpectRefused(Begin(1).status(), "the earlier job's");
  capability_ = PublishCapability(kKey, kJob);
  ExpectRefused(Begin(1).status(), "by name");
  capability_ = PublishCapability(kKey, kJob, "new");
  Publish(1, 1);
  uid_ = "";
  ExpectRefused(Begin(1).status(), "the uid's capability, for the name");
}

// The earlier job was deleted while its trainer was lost.
TEST_F(RelayServiceTest, AJobNeverMeetsVersionsOfAnEarlierOneOfItsName) {
  Start();
  uid_ = "old";
  const v1::SegmentInfo old = Publish(1, 1);
  EXPECT_EQ(old.job(), kJob);
  EXPECT_EQ(old.job_uid(), "old");
  uid_ = "new";
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  EXPECT_EQ(ErrorReason(Acquire(std::nullopt).status()), "VERSION_NOT_FOUND");
  Publish(1, 2);  // neither newer nor a fork
  EXPECT_EQ(Acquire(1)->segment().job_uid(), "new");
  uid_ = "";
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  EXPECT_EQ(Segments().size(), 2u);
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1, 1));  // both, by name
  const auto bad = Begin(1, false, "projects/default/jobs/j#new");
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status())) << bad.status();
}

TEST_F(CapabilityTest, DropIsRefusedAsAWhole) {
  Start();
  const std::string other = "projects/default/jobs/other";
  const std::string mine = capability_ = PublishCapability(kKey, kJob);
  const v1::SegmentInfo sealed = Publish(1, 1);
  capability_ = PublishCapability(kKey, other);
  const auto theirs = Begin(1, false, other);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  ExpectRefused(Drop({theirs->segment_id(), sealed.segment_id()}), "one of them is not theirs");
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1));
  EXPECT_TRUE(Fill(*theirs, 1).ok()) << "theirs is not dropped either";
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Drop({sealed.segment_id()}), what);
  }
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1));
  capability_ = mine;
  EXPECT_TRUE(Drop({sealed.segment_id()}).ok());
  EXPECT_THAT(Versions(), IsEmpty());
}

}  // namespace
}  // namespace baton::relay
