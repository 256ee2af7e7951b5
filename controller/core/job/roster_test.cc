#include "controller/core/job/roster.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kPpo[] = R"(
  score { node: "reward" role: "reward" } score { node: "values" role: "critic" }
  score { node: "ref" role: "reference" }
  update { role: "actor" } update { role: "critic" })";

Roster Make(const std::string& spec, const std::string& dataflow = kPpo) {
  v1::JobSpec effective;
  v1::Dataflow graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, &effective));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(dataflow, &graph));
  return Roster(effective, graph);
}

std::vector<size_t> WorkerSlotsOf(const Roster& roster, const std::string& role) {
  std::vector<size_t> worker_slots;
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.role == role) worker_slots.push_back(slot.worker_slot);
  }
  return worker_slots;
}

void Sit(Roster& roster, const std::string& roles, const std::string& worker) {
  for (RoleSlot* slot : roster.FreeWorkerSlot(roles)) {
    slot->worker = worker;
    slot->state = SlotState::kReady;
  }
}

// An unchecked spec gets no memory for billions of slots, and no slot outside of its pool.
TEST(RosterTest, RefusesMoreThanAJobMayHave) {
  v1::Dataflow graph;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kPpo, &graph));
  for (const char* resources :
       {"resources { rollout_workers: 2000000000 }", "resources { rollout_workers: -1 }",
        "resources { reward_workers: -2000000000 }",
        "resources { rollout_workers: 1048000 reward_workers: 1048000 }",
        "actor { parallel { tp: 1073741824 dp: 1073741824 } } resources { rollout_workers: 1 }",
        // Replicas that sit behind the end of the actor's pool.
        "actor { parallel { tp: 1048576 dp: 1 } } resources { pools { roles: 'actor' } }"}) {
    v1::JobSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("kind: JOB_KIND_RL ", resources), &spec));
    EXPECT_EQ(Roster::Create(spec, graph).status().code(), absl::StatusCode::kInvalidArgument)
        << resources;
    EXPECT_TRUE(Roster(spec, graph).slots().empty()) << resources;
  }
}

TEST(RosterTest, RolesThatShareWithNobodyHaveWorkerSlotsOfTheirOwn) {
  Roster roster = Make("kind: JOB_KIND_RL resources { rollout_workers: 2 reward_workers: 1 }");
  EXPECT_THAT(roster.Missing(),
              ElementsAre(Pair("actor", 1), Pair("critic", 1), Pair("reference", 1),
                          Pair("reward", 1), Pair("rollout", 2)));
  EXPECT_FALSE(roster.hybrid());
}

// The critic has one slot and the actor two: their pool has two worker slots, one of them the
// actor's.
TEST(RosterTest, APoolHasAsManyWorkerSlotsAsItsLargestRole) {
  Roster roster = Make(R"(kind: JOB_KIND_RL
    resources { rollout_workers: 1 reward_workers: 1 pools { roles: "actor" roles: "critic" }
                pools { roles: "rollout" } }
    actor { parallel { dp: 2 } })");
  EXPECT_THAT(roster.Missing(),
              ElementsAre(Pair("actor", 1), Pair("actor+critic", 1), Pair("reference", 1),
                          Pair("reward", 1), Pair("rollout", 1)));
  Sit(roster, "actor+critic", "w");
  EXPECT_THAT(roster.Held(), ElementsAre(Pair("w", "actor+critic")));
  EXPECT_EQ(roster.FreeWorkerSlot("actor+critic").size(), 0u);
  EXPECT_EQ(roster.Of("w").size(), 2u);
  EXPECT_EQ(roster.Find("w", "critic")->rank, 0u);
  EXPECT_EQ(roster.Find("w", "reward"), nullptr);
  EXPECT_EQ(roster.FirstOf("actor"), "w");
  // A worker slot is free when no worker has any of its slots.
  roster.Find("w", "critic")->state = SlotState::kEmpty;
  EXPECT_EQ(roster.FreeWorkerSlot("actor+critic").size(), 0u);
}

// tp 4 x dp 2 that generates with 2: copy c has ranks 4c .. 4c+3, whose first two lead a replica.
TEST(RosterTest, PlacesReplicasWithTheFirstOfTheirRanks) {
  const std::string spec = R"(kind: JOB_KIND_RL
    actor { parallel { tp: 4 dp: 2 } } rollout { tensor_model_parallel_size: 2 }
    resources { reward_workers: 1 pools { roles: "actor" roles: "rollout" } })";
  Roster roster = Make(spec);
  EXPECT_TRUE(roster.hybrid());
  EXPECT_THAT(WorkerSlotsOf(roster, "actor"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(WorkerSlotsOf(roster, "rollout"), ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(roster.Missing().at("actor"), 4);
  EXPECT_EQ(roster.Missing().at("actor+rollout"), 4);
}

TEST(RosterTest, RestoresPlacementsFromARowInAnyOrder) {
  const std::string spec = R"(kind: JOB_KIND_RL
    resources { rollout_workers: 2 reward_workers: 1 pools { roles: "reference" roles: "reward" } })";
  Roster roster = Make(spec);
  Sit(roster, "reference+reward", "w");
  roster.Find("w", "reward")->state = SlotState::kAssigning;
  Sit(roster, "rollout", "r0");
  Sit(roster, "rollout", "r1");
  store::v1::JobRow row;
  roster.Keep(&row);
  std::reverse(row.mutable_slots()->pointer_begin(), row.mutable_slots()->pointer_end());
  Roster again = Make(spec);
  again.Restore(row, /*releasing=*/false);
  EXPECT_THAT(again.Held(), ElementsAre(Pair("r0", "rollout"), Pair("r1", "rollout"),
                                        Pair("w", "reference+reward")));
  EXPECT_EQ(again.Find("w", "reward")->state, SlotState::kAssigning);
  EXPECT_EQ(again.Find("w", "reference")->state, SlotState::kReady);
  EXPECT_EQ(again.Find("r1", "rollout")->rank, 0u) << "of each role in the row's order";
  row.add_slots()->set_role("rollout");
  EXPECT_EQ(again.Match(row).back(), nullptr) << "one too many";
}

}  // namespace
}  // namespace baton::controller
