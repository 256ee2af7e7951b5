// When rollouts on other hosts get a version.
#include "controller/core/weights/relay_versions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/role_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class RelayVersionsTest : public ::testing::Test {
 protected:
  // An actor on host a, rollouts on hosts a, b and c.
  RelayVersionsTest() {
    const auto job = SubmittedJob("kind: JOB_KIND_RL resources { rollout_workers: 3 }");
    roster_ = Roster(job->effective_spec(), job->dataflow());
    Seat(roles::kActor, "actor-a");
    for (const char* host : {"a", "b", "c"}) {
      const std::string relay = absl::StrCat("relay-", host);
      Seat(roles::kRollout, absl::StrCat("rollout-", host));
      view_.relay_of[absl::StrCat("rollout-", host)] = relay;
      view_.addresses[relay] = absl::StrCat(host, ":7079");
      view_.versions[relay] = {};
    }
    view_.relay_of["actor-a"] = "relay-a";
  }
  void Seat(const std::string& role, const std::string& worker) {
    for (RoleSlot* slot : roster_.FreeWorkerSlot(role)) {
      slot->worker = worker;
      slot->state = SlotState::kReady;
      slot->present = true;
    }
  }
  void Arrive(const std::string& host, uint64_t version) {
    view_.versions["relay-" + host].insert(version);
    See();
  }
  bool See(absl::Duration after = absl::ZeroDuration()) {
    return relays_.See(view_, roster_, absl::UnixEpoch() + after);
  }
  void BeginTravel(uint64_t version, absl::Duration after = absl::ZeroDuration()) {
    relays_.BeginTravel(version, roster_, absl::UnixEpoch() + after);
  }
  uint64_t Arrived(absl::Duration after) {
    return relays_.Arrived(roster_, absl::UnixEpoch() + after);
  }

  Roster roster_;
  RelayView view_;
  RelayVersions relays_;
};

TEST_F(RelayVersionsTest, WithoutKnownRelaysEveryVersionIsEverywhere) {
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_));
  EXPECT_THAT(relays_.Missing(7, roster_), IsEmpty());
  EXPECT_EQ(relays_.AddressFor("rollout-b"), "");
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 0u) << "nothing travels";
  BeginTravel(7);
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 7u);
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 0u) << "it has arrived";
}

TEST_F(RelayVersionsTest, TheActorsHostHasItAtOnce) {
  See();
  EXPECT_TRUE(relays_.IsAt("rollout-a", 7, roster_));
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  EXPECT_EQ(relays_.AddressFor("rollout-b"), "b:7079");
}

TEST_F(RelayVersionsTest, RolloutsGetItWhenEachHostHasIt) {
  See();
  BeginTravel(7);
  view_.trouble["relay-c"] = "relay-b: no room";
  See();
  EXPECT_THAT(relays_.Missing(7, roster_), ElementsAre("relay-b", "relay-c"));
  EXPECT_EQ(relays_.RelayText("rollout-b"), "relay-b");
  EXPECT_EQ(relays_.RelayText("rollout-c"), "relay-c (relay-b: no room)");
  Arrive("b", 7);
  EXPECT_EQ(Arrived(absl::Seconds(1)), 0u);
  EXPECT_THAT(relays_.travelling(), ElementsAre(7));
  Arrive("c", 7);
  EXPECT_EQ(Arrived(absl::Seconds(2)), 7u);
  EXPECT_THAT(relays_.travelling(), IsEmpty());
}

TEST_F(RelayVersionsTest, AHostThatIsMuchLaterThanUsualIsLeftOutUntilItHasCaughtUp) {
  See();
  BeginTravel(7);
  EXPECT_EQ(Arrived(absl::Minutes(9)), 0u);
  Arrive("b", 7);
  Arrive("c", 7);
  EXPECT_EQ(Arrived(absl::Minutes(9) + absl::Seconds(59)), 7u) << "nothing was known of its links";
  // Ten seconds; four times that is 40.
  for (const uint64_t version : {8, 9}) {
    const absl::Duration begin = absl::Hours(version);
    BeginTravel(version, begin);
    Arrive("b", version);
    if (version == 8) Arrive("c", 8);
    const absl::Duration known = version == 8 ? absl::Seconds(10) : absl::Seconds(39);
    EXPECT_EQ(Arrived(begin + known), version == 8 ? 8u : 0u);
  }
  EXPECT_EQ(Arrived(absl::Hours(9) + absl::Seconds(40)), 9u);
  EXPECT_FALSE(relays_.IsAt("rollout-c", 9, roster_));
  // The next version does not wait for that host.
  BeginTravel(10, absl::Hours(10));
  Arrive("b", 10);
  EXPECT_EQ(Arrived(absl::Hours(10) + absl::Seconds(1)), 10u);
  Arrive("c", 10);
  BeginTravel(11, absl::Hours(11));
  Arrive("b", 11);
  EXPECT_EQ(Arrived(absl::Hours(11) + absl::Seconds(1)), 0u) << "it has caught up";
}

// What needs no travel says nothing of how long one takes.
TEST_F(RelayVersionsTest, AVersionThatIsEverywhereAtOnceIsNotMeasured) {
  for (const char* host : {"b", "c"}) Arrive(host, 7);
  BeginTravel(7);
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 7u);
  BeginTravel(8);
  EXPECT_EQ(Arrived(absl::Minutes(9)), 0u);
}

TEST_F(RelayVersionsTest, NobodyWaitsForAHostThatNothingIsSentTo) {
  view_.unreachable = {"relay-c"};
  See();
  BeginTravel(7);
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 0u);
  Arrive("b", 7);
  EXPECT_EQ(Arrived(absl::ZeroDuration()), 7u);
}

// The trainer publishes faster than versions travel.
TEST_F(RelayVersionsTest, TheNewestVersionThatIsEverywhereIsTaken) {
  See();
  for (const uint64_t version : {7, 8, 9}) BeginTravel(version);
  for (const char* host : {"b", "c"}) Arrive(host, 7);
  for (const char* host : {"b", "c"}) Arrive(host, 8);
  EXPECT_EQ(Arrived(absl::Seconds(1)), 8u);
  EXPECT_THAT(relays_.travelling(), ElementsAre(9));
}

TEST_F(RelayVersionsTest, TheLastVersionOfEachHopIsMeasured) {
  EXPECT_THAT(relays_.Metrics(), IsEmpty());
  view_.hops["relay-a"] = {7, 1000, 1000, 0.5, 0.4};
  view_.hops["relay-b"] = {7, 1000, 40, 2, 0.1};
  See();
  EXPECT_THAT(relays_.Metrics(),
              ElementsAre(Pair("weights/hop_seconds", 2), Pair("weights/sent_bytes", 1040),
                          Pair("weights/sent_over_size", 0.52)));
}

TEST_F(RelayVersionsTest, AWorkerLooksAgainForALostVersion) {
  Arrive("b", 7);
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_));
  relays_.Lost("rollout-b", 7, absl::UnixEpoch());
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  relays_.LookAgain(absl::UnixEpoch() + absl::Seconds(1));
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  relays_.LookAgain(absl::UnixEpoch() + absl::Seconds(2));
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_));
}

TEST_F(RelayVersionsTest, AnotherProcessOfTheActorsRelayHasNothing) {
  view_.processes = {{"relay-a", "1"}, {"relay-b", "1"}};
  EXPECT_FALSE(See()) << "the first that is seen";
  view_.processes["relay-b"] = "2";
  EXPECT_FALSE(See());
  view_.processes["relay-a"] = "2";
  EXPECT_TRUE(See());
  EXPECT_FALSE(See());
}

// A restarted controller expects the relays that were there.
TEST_F(RelayVersionsTest, AWorkerWhoseRelayIsNotAttachedLoadsNothing) {
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_)) << "no relay was ever known";
  relays_.Restore(true);
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  view_.relay_of["rollout-b"] = "";
  view_.relay_of.erase("rollout-c");
  See();
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  EXPECT_EQ(relays_.RelayText("rollout-b"),
            "the host of worker rollout-b (no relay of it is attached)");
  EXPECT_TRUE(relays_.IsAt("rollout-c", 7, roster_)) << "it knows its relay by itself";
  EXPECT_THAT(relays_.Missing(7, roster_), IsEmpty()) << "none is attached that would get it";
}

TEST_F(RelayVersionsTest, AnActorWhoseHostHasNoRelayMakesEveryHostWait) {
  view_.relay_of["actor-a"] = "";
  See();
  EXPECT_FALSE(relays_.IsAt("rollout-a", 7, roster_));
}

}  // namespace
}  // namespace baton::controller
