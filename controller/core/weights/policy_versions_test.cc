#include "controller/core/weights/policy_versions.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1000);
constexpr absl::Duration kDeadline = absl::Minutes(10);

// Two rollouts on workers "a" and "b", ready; and the actor's slot.
struct TwoRollouts {
  TwoRollouts() {
    const auto job = SubmittedJob("kind: JOB_KIND_RL resources { rollout_workers: 2 }");
    roster = Roster(job->effective_spec(), job->dataflow());
    for (const char* worker : {"a", "b"}) {
      for (RoleSlot* slot : roster.FreeWorkerSlot("rollout")) {
        slot->worker = worker;
        slot->state = SlotState::kReady;
        slot->present = true;
      }
      rollouts.AddWorker(worker, 4);
    }
  }
  uint64_t SlotOf(const std::string& worker) {
    return static_cast<uint64_t>(roster.IndexOf(*roster.Find(worker, "rollout")));
  }
  std::vector<StartTask> Load() {
    versions.replicas().Load(versions.served(), /*may_load=*/true, kDeadline, versions.relays(),
                             roster, rollouts, out);
    return TakeAll<StartTask>(out);
  }
  void Publish() { versions.Published(roster, kBegin); }
  /// Each rollout is on a host of its own; that of "a" has these versions, that of "b" those.
  void Hosts(std::set<uint64_t> at_a, std::set<uint64_t> at_b) {
    RelayView view;
    view.relay_of = {{"a", "relay-a"}, {"b", "relay-b"}};
    view.versions = {{"relay-a", std::move(at_a)}, {"relay-b", std::move(at_b)}};
    versions.relays().See(std::move(view), roster, kBegin);
  }
  EffectSink out = SinkAt(kBegin);
  Roster roster;
  TaskScheduler rollouts;
  PolicyVersions versions;
};

TEST(PolicyVersionsTest, EachRolloutLoadsANewVersionOnce) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.Publish();
  const std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0].ref.kind, TaskKind::kLoadWeights);
  EXPECT_EQ(loads[0].args.policy_version, 1u);
  EXPECT_TRUE(world.Load().empty()) << "both load already";
  EXPECT_TRUE(world.versions.replicas().AnyLoading());
  world.versions.replicas().Loaded(world.SlotOf("a"));
  EXPECT_EQ(world.versions.replicas().Of(world.SlotOf("a")).version, 1u);
  EXPECT_TRUE(world.Load().empty());
  world.rollouts.Enqueue(7, 0);
  world.rollouts.Enqueue(8, 1);
  EXPECT_EQ(world.rollouts.Next(kBegin)->worker, "a") << "b has no weights to generate with";
}

// In an async job rollouts generate with the newest published version, even if newer ones were made
// since, and one of them keeps a version that responses wait for.
TEST(PolicyVersionsTest, OneRolloutStaysWithAPinnedVersion) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.Publish();
  for (const char* worker : {"a", "b"}) world.versions.replicas().Hold(world.SlotOf(worker), 1);
  world.versions.Updated(world.out);
  EXPECT_EQ(world.versions.served(), 1u);
  EXPECT_EQ(world.versions.Behind(1), 1u);
  EXPECT_TRUE(world.Load().empty()) << "version 2 is not to be had yet";
  EXPECT_TRUE(world.rollouts.HasRoom(0));
  world.Publish();
  world.rollouts.Enqueue(1, 1, "", /*pin=*/1);
  std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "b");
  EXPECT_EQ(loads[0].args.policy_version, 2u);
  EXPECT_EQ(world.rollouts.Next(kBegin)->worker, "a");
  EXPECT_TRUE(world.Load().empty()) << "it runs a response of version 1";
  world.rollouts.Finish(1);
  loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "a");
}

TEST(PolicyVersionsTest, APinnedVersionThatNobodyHoldsIsLoadedAgain) {
  TwoRollouts world;
  for (int i = 0; i < 2; ++i) world.versions.Updated(world.out);
  world.Publish();
  for (const char* worker : {"a", "b"}) world.versions.replicas().Hold(world.SlotOf(worker), 2);
  world.rollouts.Enqueue(1, 1, "", /*pin=*/1);
  const std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].args.policy_version, 1u);
  EXPECT_TRUE(world.Load().empty());
  world.versions.replicas().Loaded(world.SlotOf(loads[0].worker));
  EXPECT_TRUE(world.Load().empty()) << "it stays until the response is made";
  EXPECT_EQ(world.rollouts.Next(kBegin)->worker, loads[0].worker);
}

TEST(PolicyVersionsTest, ABusyRolloutLoadsWhenItIsIdle) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.Publish();
  world.versions.replicas().Hold(world.SlotOf("a"), 1);
  world.versions.replicas().Hold(world.SlotOf("b"), 1);
  world.Load();
  world.rollouts.Enqueue(7, 0);
  ASSERT_EQ(world.rollouts.Next(kBegin)->worker, "a");
  world.versions.Updated(world.out);
  world.Publish();
  std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "b");
  world.rollouts.Finish(7);
  loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "a");
}

// Until a version is on every host, all rollouts go on with the one before.
TEST(PolicyVersionsTest, AVersionIsServedWhenItHasArrivedOnEveryHost) {
  TwoRollouts world;
  world.Hosts({}, {});
  world.versions.Updated(world.out);
  world.Publish();
  EXPECT_TRUE(world.versions.published());
  EXPECT_EQ(world.versions.published_version(), 1u);
  EXPECT_EQ(world.versions.served(), 0u);
  world.Hosts({1}, {});
  EXPECT_FALSE(world.versions.Serve(world.roster, kBegin));
  world.Hosts({1}, {1});
  EXPECT_TRUE(world.versions.Serve(world.roster, kBegin));
  EXPECT_FALSE(world.versions.Serve(world.roster, kBegin)) << "it was already";
  EXPECT_TRUE(world.versions.serves_newest());
  EXPECT_EQ(world.Load().size(), 2u);
}

TEST(PolicyVersionsTest, ARolloutWhoseHostIsTooLateLoadsWhenItHasTheVersion) {
  TwoRollouts world;
  world.Hosts({}, {});
  world.versions.Updated(world.out);
  world.Publish();
  world.Hosts({1}, {});
  ASSERT_TRUE(world.versions.Serve(world.roster, kBegin + absl::Hours(1)));
  std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "a");
  world.Hosts({1}, {1});
  loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "b");
}

TEST(PolicyVersionsTest, ARolloutLacksAVersionThatItNeitherHoldsNorCanLoad) {
  TwoRollouts world;
  world.Hosts({}, {});
  world.versions.Updated(world.out);
  world.Publish();
  world.versions.NoteLacking(world.roster, kBegin);
  EXPECT_TRUE(world.versions.lacking().empty()) << "it travels";
  ASSERT_TRUE(world.versions.Serve(world.roster, kBegin + absl::Hours(1)));
  world.versions.NoteLacking(world.roster, kBegin + absl::Hours(1));
  world.versions.NoteLacking(world.roster, kBegin + absl::Hours(2));
  EXPECT_EQ(world.versions.lacking().size(), 2u);
  EXPECT_EQ(world.versions.lacking().at(world.SlotOf("a")), kBegin + absl::Hours(1));
  world.versions.replicas().Hold(world.SlotOf("a"), 1);
  world.Hosts({}, {1});
  world.versions.NoteLacking(world.roster, kBegin + absl::Hours(2));
  EXPECT_TRUE(world.versions.lacking().empty());
}

// An evaluation of the newest version begins while that is on its way.
TEST(PolicyVersionsTest, APinnedVersionIsLoadedWhereItHasArrived) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.Publish();
  for (const char* worker : {"a", "b"}) world.versions.replicas().Hold(world.SlotOf(worker), 1);
  world.Hosts({1}, {1});
  world.versions.Updated(world.out);
  world.Publish();
  world.rollouts.Enqueue(1, 1, "", /*pin=*/2);
  EXPECT_TRUE(world.Load().empty());
  world.Hosts({1}, {1, 2});
  const std::vector<StartTask> loads = world.Load();
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].worker, "b");
  EXPECT_EQ(loads[0].args.policy_version, 2u);
}

// A rollout that dies while it loads must not be taken for one that holds the version.
TEST(PolicyVersionsTest, ForgetsTheVersionThatALostRolloutHeld) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.Publish();
  world.Load();
  world.versions.replicas().Forget(world.SlotOf("a"));
  EXPECT_EQ(world.versions.replicas().Of(world.SlotOf("a")).loading, 0u);
  world.versions.replicas().StopLoading(world.SlotOf("b"));
  EXPECT_FALSE(world.versions.replicas().AnyLoading());
  EXPECT_EQ(world.versions.replicas().Of(world.SlotOf("b")).version, 0u);
}

TEST(PolicyVersionsTest, ARestartKnowsWhetherTheNewestVersionIsPublished) {
  PolicyVersions versions;
  versions.Updated(SinkAt(kBegin));
  store::v1::JobRow row;
  versions.Save(&row);
  PolicyVersions again;
  again.Restore(row);
  EXPECT_EQ(again.newest(), 1u);
  EXPECT_FALSE(again.published());
  versions.Published(Roster(), kBegin);
  versions.Save(&row);
  again.Restore(row);
  EXPECT_TRUE(again.published());
  EXPECT_TRUE(again.Unpublish());
  EXPECT_FALSE(again.Unpublish());
}

TEST(PolicyVersionsTest, TheWeightSyncLastsUntilTheLastRolloutHasTheVersion) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.versions.BeginPublishing(kBegin);
  world.versions.replicas().Hold(world.SlotOf("a"), 1);
  world.versions.NoteWhenAllHold(world.roster, kBegin + absl::Seconds(3));
  EXPECT_EQ(world.versions.update_weights_seconds(), 0);
  world.versions.replicas().Hold(world.SlotOf("b"), 1);
  world.versions.NoteWhenAllHold(world.roster, kBegin + absl::Seconds(5));
  EXPECT_EQ(world.versions.update_weights_seconds(), 5);
  world.versions.NoteWhenAllHold(world.roster, kBegin + absl::Seconds(9));
  EXPECT_EQ(world.versions.update_weights_seconds(), 5) << "nothing was published since";
}

VersionRows Tree(const std::vector<std::vector<uint64_t>>& all) {
  VersionRows rows;
  for (const auto& one : all) {  // version, parent, updates
    rows[one[0]].set_version(one[0]);
    rows[one[0]].set_parent(one[1]);
    rows[one[0]].set_actor_updates(one[2]);
  }
  return rows;
}

// 1 has the job's first weights. After 4 the trainer goes back to its checkpoint, 2; 5 has the
// weights of 2 again, and 6 is an update of them. So 4 and 6 lie two and one updates from 2.
TEST(StalenessTest, CountsUpdatesOfBothLegsToTheCommonAncestor) {
  const VersionRows rows = Tree({{1, 0, 0}, {2, 1, 1}, {3, 2, 2}, {4, 3, 3}, {5, 2, 1}, {6, 5, 2}});
  EXPECT_EQ(Staleness(rows, 6, 6), 0u);
  EXPECT_EQ(Staleness(rows, 3, 4), 1u);
  EXPECT_EQ(Staleness(rows, 4, 1), 3u);
  EXPECT_EQ(Staleness(rows, 5, 2), 0u) << "the same weights under two numbers";
  EXPECT_EQ(Staleness(rows, 4, 5), 2u) << "and not 1, the difference of the numbers";
  EXPECT_EQ(Staleness(rows, 4, 6), 3u);
  EXPECT_EQ(Staleness(rows, 6, 3), 2u);
  EXPECT_EQ(Staleness(rows, 0, 6), 2u);
}

TEST(StalenessTest, IsUnknownForForgottenOrDamagedVersions) {
  const VersionRows rows = Tree({{7, 3, 3}, {8, 7, 4}, {9, 9, 1}});
  EXPECT_EQ(Staleness(rows, 7, 8), 1u);
  EXPECT_EQ(Staleness(rows, 8, 6), std::nullopt);
  EXPECT_EQ(Staleness(rows, 0, 8), std::nullopt) << "3 is forgotten";
  EXPECT_EQ(Staleness(rows, 9, 8), std::nullopt) << "a damaged row ends";
}

TEST(PolicyVersionsTest, AVersionSaysWhatItWasMadeOf) {
  EffectSink out = SinkAt(kBegin);
  PolicyVersions versions;
  versions.Begun(out);    // 1: the first weights
  versions.Updated(out);  // 2
  versions.Saved();
  versions.Updated(out);  // 3
  out.RollBack(1);
  versions.Begun(out);    // 4: those of 2
  versions.Updated(out);  // 5
  const store::v1::VersionRow& newest = versions.known().at(5);
  EXPECT_EQ(newest.parent(), 4u);
  EXPECT_EQ(newest.actor_updates(), 2u);
  EXPECT_EQ(newest.incarnation(), 2u);
  EXPECT_EQ(versions.known().at(4).parent(), 2u);
  EXPECT_EQ(Staleness(versions.known(), 3, 5), 2u);
  store::v1::JobRow row;
  versions.Save(&row);
  PolicyVersions again;
  again.Restore(row);
  again.Begun(out);
  EXPECT_EQ(Staleness(again.known(), 6, 2), 0u) << "a restart knows the checkpoint's version";
}

TEST(PolicyVersionsTest, TheFirstWeightsAreTheSameUnderEachNumber) {
  EffectSink out = SinkAt(kBegin);
  PolicyVersions versions;
  versions.Begun(out);
  versions.Updated(out);
  versions.Begun(out);  // nothing was saved
  EXPECT_EQ(Staleness(versions.known(), 1, 3), 0u);
  EXPECT_EQ(Staleness(versions.known(), 2, 3), 1u);
}

// The job's row stays small, and the checkpoint's version stays known.
TEST(PolicyVersionsTest, OldVersionsAreForgottenAndDistancesStay) {
  EffectSink out = SinkAt(kBegin);
  PolicyVersions versions;
  versions.Begun(out);
  versions.Updated(out);
  versions.Saved();  // 2
  for (int i = 0; i < 200; ++i) versions.Updated(out);
  EXPECT_EQ(versions.known().size(), PolicyVersions::kMostKnown);
  EXPECT_EQ(Staleness(versions.known(), 2, versions.newest()), 200u);
  EXPECT_EQ(Staleness(versions.known(), versions.newest() - 10, versions.newest()), 10u);
  versions.Begun(out);
  EXPECT_EQ(Staleness(versions.known(), versions.newest() - 1, versions.newest()), 200u);
}

// A restarted controller does not know when the version was published that its rollouts load now.
TEST(PolicyVersionsTest, ReportsNoSyncTimeWithoutAKnownStart) {
  TwoRollouts world;
  world.versions.Updated(world.out);
  world.versions.replicas().Hold(world.SlotOf("a"), 1);
  world.versions.replicas().Hold(world.SlotOf("b"), 1);
  world.versions.NoteWhenAllHold(world.roster, kBegin);
  EXPECT_EQ(world.versions.update_weights_seconds(), 0);
  world.versions.SyncedInPlace(kBegin);
  EXPECT_EQ(world.versions.update_weights_seconds(), 0);
}

// Version 3: a response is being scored, and an evaluation's response is generated. Version 2: a
// baseline is READY. Responses that wait for a rollout have no version yet.
TEST(PolicyVersionsTest, BegunResponsesPinTheirVersions) {
  std::map<uint64_t, TrajectoryInfo> live;
  const auto add = [&](uint64_t id, v1::Purpose purpose, TrajectoryState state, uint64_t version) {
    TrajectoryInfo& one = live[id];
    one.id = id;
    one.purpose = purpose;
    one.state = state;
    one.policy_version = version;
  };
  add(1, v1::PURPOSE_TRAIN, TrajectoryState::kScoring, 3);
  add(2, v1::PURPOSE_EVAL, TrajectoryState::kGenerating, 3);
  add(3, v1::PURPOSE_BASELINE, TrajectoryState::kReady, 2);
  add(4, v1::PURPOSE_TRAIN, TrajectoryState::kPending, 1);
  const std::map<uint64_t, VersionPins> pins = PinsOf(live);
  ASSERT_EQ(pins.size(), 2u);
  EXPECT_EQ(pins.at(2).responses, 1u);
  EXPECT_EQ(pins.at(3).responses, 1u);
  EXPECT_EQ(pins.at(3).evaluations, 1u);
  EXPECT_EQ(pins.at(3).total(), 2u);
}

}  // namespace
}  // namespace baton::controller
