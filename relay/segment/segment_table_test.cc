#include "relay/segment/segment_table.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/clock.h"

namespace baton::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kJob[] = "projects/default/jobs/addition";
const TensorShapes kShapes = {{"a", {4, 6}}, {"b", {3}}};
const std::vector<TensorDigest> kDigests = {{"a", 1}, {"b", 2}};

class SegmentTableTest : public ::testing::Test {
 protected:
  std::string Begin(uint64_t version, bool fork = false, int world_size = 1) {
    auto begun = table_.Begin(kJob, version, 100, world_size, fork);
    EXPECT_TRUE(begun.ok()) << begun.status();
    retired_ = begun->retired;
    EXPECT_TRUE(
        table_.Open(begun->segment_id, "/shm/" + begun->segment_id, kShapes, clock_.Now()).ok());
    return begun->segment_id;
  }

  std::string Publish(uint64_t version, bool fork = false) {
    const std::string id = Begin(version, fork);
    EXPECT_TRUE(table_.Commit(id, 0, kDigests).ok());
    EXPECT_TRUE(table_.StartSeal(id).ok());
    auto retired = table_.FinishSeal(id);
    EXPECT_TRUE(retired.ok()) << retired.status();
    for (auto& segment : *retired) retired_.push_back(segment);
    return id;
  }

  absl::StatusOr<SegmentTable::Lease> Acquire(std::optional<uint64_t> version = {},
                                              absl::Duration ttl = absl::Minutes(1)) {
    return table_.Acquire(kJob, version, "reader", ttl, clock_.Now());
  }

  std::vector<uint64_t> Versions() const {
    std::vector<uint64_t> versions;
    for (const auto& segment : table_.List(kJob)) versions.push_back(segment.version);
    return versions;
  }

  static std::vector<std::string> Ids(const std::vector<RetiredSegment>& retired) {
    std::vector<std::string> ids;
    for (const auto& segment : retired) ids.push_back(segment.segment_id);
    return ids;
  }

  FakeClock clock_;
  SegmentTable table_{{/*keep=*/2, "test"}};
  std::vector<RetiredSegment> retired_;
};

TEST_F(SegmentTableTest, HidesAVersionUntilItIsSealed) {
  const std::string id = Begin(0);
  EXPECT_TRUE(absl::IsNotFound(Acquire(0).status()));
  ASSERT_TRUE(table_.Commit(id, 0, kDigests).ok());
  EXPECT_TRUE(absl::IsNotFound(Acquire(0).status()));
  ASSERT_TRUE(table_.StartSeal(id).ok());
  EXPECT_TRUE(absl::IsNotFound(Acquire(0).status()));
  EXPECT_THAT(Versions(), IsEmpty());
  ASSERT_TRUE(table_.FinishSeal(id).ok());
  const auto lease = Acquire(0);
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->segment.version, 0u);
  EXPECT_EQ(lease->segment.tensors, kDigests);
  EXPECT_EQ(lease->segment.path, "/shm/" + id);
}

TEST_F(SegmentTableTest, KeepsWhatTheJobAskedFor) {
  std::map<uint64_t, std::string> ids;
  for (const uint64_t version : {0, 1}) ids[version] = Publish(version);
  EXPECT_THAT(table_.Keep(kJob, {0, 77}), IsEmpty());
  for (const uint64_t version : {2, 3, 4}) ids[version] = Publish(version);
  EXPECT_THAT(Versions(), ElementsAre(0, 3, 4));
  EXPECT_TRUE(Acquire(0).ok());
  EXPECT_THAT(Ids(table_.Keep("another", {3})), IsEmpty());
  EXPECT_THAT(Ids(table_.Keep(kJob, {3})), IsEmpty()) << "it is leased";
  Publish(5);
  EXPECT_THAT(Versions(), ElementsAre(0, 3, 4, 5));
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(Ids(table_.Expire(clock_.Now())), ElementsAre(ids[0]));
  EXPECT_THAT(Ids(table_.Keep(kJob, {})), ElementsAre(ids[3]));
  Publish(3, /*fork=*/true);
  EXPECT_THAT(Versions(), ElementsAre(3)) << "those that were undone are gone, kept or not";
}

TEST_F(SegmentTableTest, KeepsTheNewestAndRecyclesTheRest) {
  const std::string v0 = Publish(0);
  Publish(1);
  EXPECT_THAT(retired_, IsEmpty());
  Publish(2);
  EXPECT_THAT(Ids(retired_), ElementsAre(v0));
  EXPECT_TRUE(retired_[0].recyclable);
  EXPECT_THAT(Versions(), ElementsAre(1, 2));
}

TEST_F(SegmentTableTest, JobsDoNotPushEachOtherOut) {
  Publish(0);
  Publish(1);
  for (uint64_t version : {5, 6, 7}) {
    const auto begun = table_.Begin("other", version, 8, 1, false);
    ASSERT_TRUE(begun.ok());
    ASSERT_TRUE(table_.Open(begun->segment_id, "/x", {}, clock_.Now()).ok());
    ASSERT_TRUE(table_.Commit(begun->segment_id, 0, {}).ok());
    ASSERT_TRUE(table_.StartSeal(begun->segment_id).ok());
    ASSERT_TRUE(table_.FinishSeal(begun->segment_id).ok());
  }
  EXPECT_THAT(Versions(), ElementsAre(0, 1));
  EXPECT_EQ(table_.List("").size(), 4u);
}

TEST_F(SegmentTableTest, ALeasedVersionStaysUntilItsLastLeaseIsGivenBack) {
  const std::string v0 = Publish(0);
  const auto first = Acquire(0).value();
  const auto second = Acquire(0).value();
  Publish(1);
  Publish(2);
  Publish(3);
  EXPECT_THAT(Versions(), ElementsAre(0, 2, 3));
  EXPECT_EQ(table_.List(kJob)[0].leases, 2);
  EXPECT_THAT(table_.Release(first.lease_id).value(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(table_.Release(first.lease_id).status())) << "a lease ends once";
  const auto retired = table_.Release(second.lease_id).value();
  ASSERT_THAT(Ids(retired), ElementsAre(v0));
  EXPECT_TRUE(retired[0].recyclable);
  EXPECT_THAT(Versions(), ElementsAre(2, 3));
}

TEST_F(SegmentTableTest, RemovesADroppedVersionWithItsLastLease) {
  const std::string v0 = Publish(0), v1 = Publish(1);
  const auto lease = Acquire(1).value();
  const auto retired = table_.Drop(v0);
  ASSERT_THAT(Ids(retired), ElementsAre(v0));
  EXPECT_TRUE(retired[0].recyclable);
  EXPECT_THAT(table_.Drop(v1), IsEmpty());
  EXPECT_THAT(Versions(), IsEmpty()) << "nobody finds it any more";
  EXPECT_THAT(Ids(table_.Release(lease.lease_id).value()), ElementsAre(v1));
  const auto begun = table_.Begin(kJob, 2, 100, 1, false);
  ASSERT_TRUE(begun.ok());
  const auto unsealed = table_.Drop(begun->segment_id);
  ASSERT_THAT(Ids(unsealed), ElementsAre(begun->segment_id));
  EXPECT_FALSE(unsealed[0].recyclable) << "its writer may be alive";
  EXPECT_THAT(table_.Drop("unknown"), IsEmpty());
}

TEST_F(SegmentTableTest, AnExpiredLeaseFreesTheVersionButNotItsMemory) {
  const std::string v0 = Publish(0);
  const auto lease = Acquire(0, absl::Seconds(30)).value();
  Publish(1);
  Publish(2);
  EXPECT_EQ(table_.NextExpiry(), clock_.Now() + absl::Seconds(30));
  clock_.Advance(absl::Seconds(29));
  EXPECT_THAT(table_.Expire(clock_.Now()), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  const auto retired = table_.Expire(clock_.Now());
  ASSERT_THAT(Ids(retired), ElementsAre(v0));
  EXPECT_FALSE(retired[0].recyclable) << "its reader may still have it mapped";
  EXPECT_TRUE(absl::IsNotFound(table_.Release(lease.lease_id).status()));
  EXPECT_FALSE(table_.NextExpiry().has_value());
}

TEST_F(SegmentTableTest, TheNextExpiryIsTheEarliest) {
  Publish(0);
  for (const int seconds : {20, 10, 30}) ASSERT_TRUE(Acquire(0, absl::Seconds(seconds)).ok());
  EXPECT_EQ(table_.NextExpiry(), clock_.Now() + absl::Seconds(10));
}

TEST_F(SegmentTableTest, NoVersionMeansTheNewest) {
  EXPECT_TRUE(absl::IsNotFound(Acquire().status()));
  Publish(3);
  Publish(9);
  EXPECT_EQ(Acquire()->segment.version, 9u);
  EXPECT_EQ(Acquire(3)->segment.version, 3u);
  EXPECT_THAT(std::string(Acquire(4).status().message()), HasSubstr("it has 3, 9"));
}

TEST_F(SegmentTableTest, ASealedVersionIsNeverWrittenAgain) {
  Publish(4);
  EXPECT_TRUE(absl::IsAlreadyExists(table_.Begin(kJob, 4, 100, 1, false).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Begin(kJob, 3, 100, 1, false).status()));
  EXPECT_THAT(Versions(), ElementsAre(4));
}

TEST_F(SegmentTableTest, BeginReplacesWhatAnotherPublisherLeftUnsealed) {
  const std::string dead = Begin(1);
  ASSERT_TRUE(table_.Commit(dead, 0, kDigests).ok());
  EXPECT_EQ(table_.CheckBegin(kJob, 1, 100, 1, false)->freed_bytes, 100u);
  const std::string again = Begin(1);
  ASSERT_THAT(Ids(retired_), ElementsAre(dead));
  EXPECT_FALSE(retired_[0].recyclable) << "the other publisher may still write";
  EXPECT_TRUE(absl::IsNotFound(table_.Commit(dead, 0, kDigests)));
  EXPECT_TRUE(absl::IsNotFound(table_.StartSeal(dead).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.StartSeal(again).status())) << "not committed";
}

TEST_F(SegmentTableTest, AForkDropsThisVersionAndNewerOnes) {
  const std::string v5 = Publish(5);
  const std::string v6 = Publish(6);
  const auto reading = Acquire(6).value();
  EXPECT_EQ(table_.CheckBegin(kJob, 5, 100, 1, true)->freed_bytes, 100u) << "version 6 is leased";
  const std::string forked = Begin(5, /*fork=*/true);
  EXPECT_THAT(Ids(retired_), ElementsAre(v5));
  EXPECT_TRUE(absl::IsNotFound(Acquire(6).status())) << "nobody may find it any more";
  EXPECT_THAT(Ids(table_.Release(reading.lease_id).value()), ElementsAre(v6));
  ASSERT_TRUE(table_.Commit(forked, 0, kDigests).ok());
  ASSERT_TRUE(table_.StartSeal(forked).ok());
  ASSERT_TRUE(table_.FinishSeal(forked).ok());
  EXPECT_THAT(Versions(), ElementsAre(5));
  EXPECT_EQ(Acquire(5)->segment.segment_id, forked);
}

TEST_F(SegmentTableTest, TheNewestVersionsStayBesideTheOneThatIsWritten) {
  EXPECT_EQ(table_.CheckBegin(kJob, 1, 100, 1, false)->kept_bytes, 0u);
  for (const uint64_t version : {1, 2, 3}) Publish(version);
  const auto reading = Acquire(1);  // leases end, so what only they hold is not kept for ever
  EXPECT_EQ(table_.CheckBegin(kJob, 4, 100, 1, false)->kept_bytes, 200u);
  EXPECT_EQ(table_.CheckBegin(kJob, 3, 100, 1, true)->kept_bytes, 100u) << "version 2";
  EXPECT_EQ(table_.CheckBegin(kJob, 2, 100, 1, true)->kept_bytes, 0u);
  EXPECT_EQ(table_.CheckBegin("another", 4, 100, 1, false)->kept_bytes, 0u);
}

TEST_F(SegmentTableTest, SealWantsEveryRankAndEveryTensor) {
  const std::string id = Begin(1, false, /*world_size=*/2);
  ASSERT_TRUE(table_.Commit(id, 0, {{"a", 1}}).ok());
  EXPECT_THAT(std::string(table_.StartSeal(id).status().message()), HasSubstr("rank 1"));
  ASSERT_TRUE(table_.Commit(id, 1, {{"a", 1}}).ok());
  EXPECT_THAT(std::string(table_.StartSeal(id).status().message()), HasSubstr("\"b\""));
  ASSERT_TRUE(table_.Commit(id, 1, {{"a", 7}, {"b", 2}}).ok());
  EXPECT_THAT(std::string(table_.StartSeal(id).status().message()), HasSubstr("different"));
  ASSERT_TRUE(table_.Commit(id, 1, {{"b", 2}}).ok());
  EXPECT_THAT(table_.StartSeal(id).value(), ElementsAre(kDigests[0], kDigests[1]));
  EXPECT_TRUE(absl::IsUnavailable(table_.StartSeal(id).status())) << "it is being sealed";
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Commit(id, 0, {})));
}

// Columns 0 to 3 of "a" by rank 0, which has "b" too; columns 4 and 5 by rank 1.
TEST_F(SegmentTableTest, TheBoxesOfAllRanksMakeUpEveryTensor) {
  const TensorDigest left = {"a", 1, {{0, 0}, {4, 4}}}, right = {"a", 7, {{0, 4}, {4, 6}}};
  const TensorDigest top_right = {"a", 3, {{0, 4}, {2, 6}}}, b = {"b", 2};
  const std::string id = Begin(1, false, /*world_size=*/2);
  ASSERT_TRUE(table_.Commit(id, 0, {b, left}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.StartSeal(id).status())) << "rank 1 is writing";
  ASSERT_TRUE(table_.Commit(id, 1, {top_right}).ok());
  EXPECT_THAT(std::string(table_.StartSeal(id).status().message()),
              HasSubstr("no rank has committed [2:4, 4:6] of tensor \"a\""));
  ASSERT_TRUE(table_.Commit(id, 1, {right}).ok());
  EXPECT_THAT(table_.StartSeal(id).value(), ElementsAre(left, right, b));
  ASSERT_TRUE(table_.FinishSeal(id).ok());
  EXPECT_THAT(Acquire(1)->segment.tensors, ElementsAre(left, right, b));
}

TEST_F(SegmentTableTest, ARefusedSealCanBeRepaired) {
  const std::string id = Begin(1);
  ASSERT_TRUE(table_.Commit(id, 0, kDigests).ok());
  ASSERT_TRUE(table_.StartSeal(id).ok());
  table_.AbortSeal(id);
  EXPECT_TRUE(absl::IsNotFound(Acquire(1).status()));
  ASSERT_TRUE(table_.Commit(id, 0, {{"a", 5}, {"b", 6}}).ok());
  ASSERT_TRUE(table_.StartSeal(id).ok());
  ASSERT_TRUE(table_.FinishSeal(id).ok());
  EXPECT_EQ(Acquire(1)->segment.tensors[0].xxh3, 5u);
}

// A writer that was killed does not come back, and its job may publish nothing more.
TEST_F(SegmentTableTest, AVersionThatIsNotSealedInTimeGivesItsMemoryBack) {
  EXPECT_EQ(table_.NextExpiry(), std::nullopt);
  const std::string id = Begin(1);
  EXPECT_EQ(table_.NextExpiry(), clock_.Now() + absl::Hours(1));
  clock_.Advance(absl::Minutes(59));
  EXPECT_THAT(table_.Expire(clock_.Now()), IsEmpty());
  ASSERT_TRUE(table_.Commit(id, 0, kDigests).ok());
  ASSERT_TRUE(table_.StartSeal(id).ok());
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(table_.Expire(clock_.Now()), IsEmpty()) << "it is being verified";
  EXPECT_EQ(table_.NextExpiry(), std::nullopt);
  table_.AbortSeal(id);
  const auto retired = table_.Expire(clock_.Now());
  EXPECT_THAT(Ids(retired), ElementsAre(id));
  EXPECT_FALSE(retired[0].recyclable) << "the writer may have it mapped";
  EXPECT_TRUE(absl::IsNotFound(table_.Commit(id, 0, kDigests)));
  const std::string sealed = Publish(1);
  clock_.Advance(absl::Hours(100));
  EXPECT_THAT(table_.Expire(clock_.Now()), IsEmpty());
  EXPECT_THAT(Versions(), ElementsAre(1)) << sealed;
}

// Seal would read an element as often as it is named.
TEST_F(SegmentTableTest, ARankNamesNoElementTwice) {
  const std::string id = Begin(1, false, /*world_size=*/2);
  const TensorDigest left = {"a", 1, {{0, 0}, {4, 4}}}, right = {"a", 7, {{0, 4}, {4, 6}}};
  const TensorDigest corner = {"a", 3, {{0, 0}, {1, 1}}}, all = {"a", 1};
  for (const auto& twice : std::vector<std::vector<TensorDigest>>{
           {left, left}, {corner, corner}, {all, all}, {all, corner}, {left, right, corner}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 0, twice)));
  }
  EXPECT_TRUE(table_.Commit(id, 0, {left, right}).ok());
  EXPECT_TRUE(table_.Commit(id, 1, {all}).ok()) << "another rank may hold the same";
}

TEST_F(SegmentTableTest, ARankNamesFewBoxesOfATensor) {
  SegmentTable table({/*keep=*/2, "few"});
  const std::string id = table.Begin(kJob, 1, 1000, 1, false)->segment_id;
  ASSERT_TRUE(table.Open(id, "/x", {{"long", {100}}}, clock_.Now()).ok());
  std::vector<TensorDigest> boxes;
  for (int64_t i = 0; i < 64; ++i) boxes.push_back({"long", 1, {{i}, {i + 1}}});
  EXPECT_TRUE(table.Commit(id, 0, boxes).ok());
  boxes.push_back({"long", 1, {{64}, {65}}});
  EXPECT_TRUE(absl::IsInvalidArgument(table.Commit(id, 0, boxes)));
}

TEST_F(SegmentTableTest, RefusesNonsense) {
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Begin("", 1, 100, 1, false).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Begin(kJob, 1, 0, 1, false).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Begin(kJob, 1, 100, 0, false).status()));
  const std::string id = Begin(1);
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 1, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, -1, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 0, {{"c", 1}})));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 0, {{"b", 1, {{0}, {4}}}})));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 0, {{"b", 1, {{0, 0}, {3, 1}}}})));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Commit(id, 0, {{"b", 1, {{}, {3}}}})));
  EXPECT_TRUE(absl::IsNotFound(table_.Commit("test-99", 0, {})));
  Publish(2);
  EXPECT_TRUE(absl::IsInvalidArgument(Acquire(2, absl::ZeroDuration()).status()));
  EXPECT_TRUE(absl::IsNotFound(table_.Release("test-lease-99").status()));
}

}  // namespace
}  // namespace baton::relay
