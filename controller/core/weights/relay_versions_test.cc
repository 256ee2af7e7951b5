// When rollouts on other hosts get a version.
#include "controller/core/weights/relay_versions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/role_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RelayVersionsTest : public ::testing::Test {
 protected:
  // An actor on host a, rollouts on hosts a, b and c.
  RelayVersionsTest() {
    v1::JobSpec spec;
    spec.mutable_resources()->set_rollout_workers(3);
    v1::Dataflow dataflow;
    dataflow.add_update()->set_role(roles::kActor);
    roster_ = Roster(spec, dataflow);
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
    relays_.See(view_);
  }
  bool ArrivedAt(absl::Duration after) {
    return relays_.Arrived(7, roster_, absl::UnixEpoch() + after);
  }

  Roster roster_;
  RelayView view_;
  RelayVersions relays_;
};

TEST_F(RelayVersionsTest, WithoutKnownRelaysEveryVersionIsEverywhere) {
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_));
  EXPECT_THAT(relays_.Missing(7, roster_), IsEmpty());
  EXPECT_EQ(relays_.AddressFor("rollout-b"), "");
  EXPECT_TRUE(ArrivedAt(absl::ZeroDuration()));
}

TEST_F(RelayVersionsTest, TheActorsHostHasItAtOnce) {
  relays_.See(view_);
  EXPECT_TRUE(relays_.IsAt("rollout-a", 7, roster_));
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
  EXPECT_EQ(relays_.AddressFor("rollout-b"), "b:7079");
}

TEST_F(RelayVersionsTest, RolloutsGetItWhenEachHostHasIt) {
  relays_.See(view_);
  relays_.BeginTravel(absl::UnixEpoch());
  EXPECT_THAT(relays_.Missing(7, roster_), ElementsAre("relay-b", "relay-c"));
  Arrive("b", 7);
  EXPECT_FALSE(ArrivedAt(absl::Seconds(1)));
  Arrive("c", 7);
  EXPECT_TRUE(ArrivedAt(absl::Seconds(2)));
}

TEST_F(RelayVersionsTest, AHostThatIsMuchLaterThanUsualIsLeftOut) {
  relays_.See(view_);
  relays_.BeginTravel(absl::UnixEpoch());
  EXPECT_FALSE(ArrivedAt(absl::Minutes(9)));
  EXPECT_TRUE(ArrivedAt(absl::Minutes(10))) << "nothing is known of its links";
  Arrive("b", 7);
  Arrive("c", 7);
  EXPECT_TRUE(ArrivedAt(absl::Seconds(20)));
  // The next one, which arrives at b alone.
  relays_.BeginTravel(absl::UnixEpoch());
  view_.versions["relay-b"].insert(8);
  relays_.See(view_);
  const auto arrived = [&](absl::Duration after) {
    return relays_.Arrived(8, roster_, absl::UnixEpoch() + after);
  };
  EXPECT_FALSE(arrived(absl::Seconds(79)));
  EXPECT_TRUE(arrived(absl::Seconds(80))) << "four times the 20 s of the version before";
  EXPECT_FALSE(relays_.IsAt("rollout-c", 8, roster_));
}

TEST_F(RelayVersionsTest, ALostVersionIsNotThere) {
  Arrive("b", 7);
  EXPECT_TRUE(relays_.IsAt("rollout-b", 7, roster_));
  relays_.Lost("rollout-b", 7);
  EXPECT_FALSE(relays_.IsAt("rollout-b", 7, roster_));
}

TEST_F(RelayVersionsTest, AnActorWhoseHostHasNoRelayMakesEveryHostWait) {
  view_.relay_of.erase("actor-a");
  relays_.See(view_);
  EXPECT_FALSE(relays_.IsAt("rollout-a", 7, roster_));
}

}  // namespace
}  // namespace baton::controller
