// Payloads that the experience log cannot give back are generated again, with the same prompt
// indexes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

using google::protobuf::util::MessageDifferencer;
using Job = v1::Job;

SimulatedJob::Options Seeded(uint64_t seed, const std::string& preset = "") {
  SimulatedJob::Options options;
  options.seed = seed;
  options.steps = 4;
  options.preset = preset;
  return options;
}

uint64_t UndisturbedWeights(const std::string& preset = "") {
  SimulatedJob world(Seeded(1, preset));
  world.RunToEnd();
  EXPECT_EQ(world.core().state(), Job::STATE_SUCCEEDED);
  return world.FinalWeights();
}

void ExpectTheSameWeights(SimulatedJob& world, const std::string& what,
                          const std::string& preset = "") {
  world.RunToEnd();
  ASSERT_EQ(world.core().state(), Job::STATE_SUCCEEDED)
      << what << "\n"
      << world.core().Explain(world.now()).DebugString() << world.core().Brief().DebugString();
  EXPECT_EQ(world.FinalWeights(), UndisturbedWeights(preset)) << what;
}

// The rows of the step in progress.
std::vector<uint64_t> SerialsOf(SimulatedJob& world, int64_t step) {
  std::vector<uint64_t> serials;
  for (const auto& [serial, row] : world.rows()) {
    if (row.step() == step && row.purpose() == v1::PURPOSE_TRAIN) serials.push_back(serial);
  }
  return serials;
}

TEST(PayloadLostTest, RegeneratesAndRescoresALostResponse) {
  SimulatedJob world(Seeded(5));
  while (world.core().step() < 2 || SerialsOf(world, 3).size() < 3 ||
         world.core().Describe().phase() != "generating") {
    ASSERT_TRUE(world.Step());
  }
  const uint64_t serial = SerialsOf(world, 3).front();
  const uint64_t id = world.rows().at(serial).id();
  const uint64_t version = world.rows().at(serial).policy_version();
  world.Send(PayloadLost{{{id, serial}}, "wrong checksum"});
  EXPECT_EQ(world.rows().count(serial), 0u) << "the row goes with its payload";
  ASSERT_NE(world.core().Find(id), nullptr);
  EXPECT_EQ(world.core().Find(id)->scored, 0u);
  EXPECT_EQ(world.core().Find(id)->tokens, 0u);
  EXPECT_EQ(world.core().incarnation(), 1u) << "nothing else goes back";
  while (world.core().step() < 3) ASSERT_TRUE(world.Step());
  int again = 0;
  for (const uint64_t other : SerialsOf(world, 3)) {
    const store::v1::TrajectoryRow& row = world.rows().at(other);
    if (row.id() != id) continue;
    ++again;
    EXPECT_EQ(row.policy_version(), version);
    EXPECT_GT(other, serial);
  }
  EXPECT_EQ(again, 1);
  ExpectTheSameWeights(world, "");
}

TEST(PayloadLostTest, LosingPayloadsAtAnyTimeEndsWithTheSameWeights) {
  // At every event of jobs of several dataflows: some of the payloads that stand are lost, of one
  // and of several trajectories, while they are scored, evaluated or put into a batch.
  for (const std::string preset : {"", "ppo", "remax"}) {
    for (int at = 10; at < 160; at += 5 * kStride) {
      SimulatedJob world(Seeded(static_cast<uint64_t>(at), preset));
      for (int i = 0; i < at && !world.ended(); ++i) world.Step();
      if (world.ended()) break;
      PayloadLost lost;
      lost.reason = "a file is gone";
      for (const auto& [serial, row] : world.rows()) {
        const bool current = row.step() >= world.core().step();
        if (current && serial % 2 == static_cast<uint64_t>(at) % 2) {
          lost.trajectories[row.id()] = serial;
        }
      }
      world.Send(lost);
      ExpectTheSameWeights(world, preset + " at " + std::to_string(at), preset);
      if (HasFailure()) return;
    }
  }
}

// A controller that restarts in the middle of an update reads the batch again: its ranks may have
// made the step, so no rank has the weights before it to sample with.
TEST(PayloadLostTest, RollsTheTrainerBackIfAPayloadIsLostDuringAnUpdate) {
  SimulatedJob world(Seeded(6));
  while (world.core().step() < 3 || world.UnderWay(TaskKind::kUpdate).empty()) {
    ASSERT_TRUE(world.Step());
  }
  world.Restart(0);
  while (world.core().Describe().phase() != "computing advantages") ASSERT_TRUE(world.Step());
  const uint64_t serial = SerialsOf(world, 4).back();
  world.Send(PayloadLost{{{world.rows().at(serial).id(), serial}}, "the file is gone"});
  EXPECT_EQ(world.core().incarnation(), 2u);
  EXPECT_EQ(world.core().step(), 2) << "the newest checkpoint";
  ExpectTheSameWeights(world, "");
}

// Each rollback makes the step anew, and its batch is lost each time.
TEST(PayloadLostTest, ADiskThatLosesEachBatchOfAStepFailsTheJob) {
  SimulatedJob world(Seeded(6));
  int losses = 0;
  for (int i = 0; i < 20000 && !world.ended() && losses < 20; ++i) {
    const std::vector<uint64_t> serials = SerialsOf(world, 4);
    if (world.core().step() == 3 && !world.UnderWay(TaskKind::kUpdate).empty() &&
        !serials.empty()) {
      ++losses;
      world.Send(PayloadLost{{{world.rows().at(serials[0]).id(), serials[0]}}, "wrong checksum"});
    }
    world.Step();
  }
  EXPECT_EQ(losses, 5);
  ASSERT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::AllOf(::testing::HasSubstr("step 4 was lost again and again"),
                               ::testing::HasSubstr("wrong checksum")));
}

TEST(PayloadLostTest, IgnoresLossesOfStaleOrUnknownPayloads) {
  SimulatedJob world(Seeded(5));
  while (world.core().step() < 2 || SerialsOf(world, 3).empty()) ASSERT_TRUE(world.Step());
  const uint64_t serial = SerialsOf(world, 3).front();
  const uint64_t id = world.rows().at(serial).id();
  const store::v1::JobRow before = world.core().Row();
  world.Send(PayloadLost{{{id, serial + 1000}}, "of a row that was replaced"});
  world.Send(PayloadLost{{{id + 1000, serial}}, "of nobody"});
  world.Send(PayloadLost{{}, "of none"});
  EXPECT_TRUE(MessageDifferencer::Equals(world.core().Row(), before));
  EXPECT_EQ(world.rows().count(serial), 1u);
  ExpectTheSameWeights(world, "");
}

TEST(PayloadLostTest, ADiskThatLosesEverythingFailsTheJobWithItsWords) {
  SimulatedJob world(Seeded(5));
  int losses = 0;
  for (int i = 0; i < 5000 && !world.ended(); ++i) {
    const std::vector<uint64_t> serials = SerialsOf(world, world.core().step() + 1);
    const auto first = std::find_if(serials.begin(), serials.end(), [&](uint64_t serial) {
      return world.rows().at(serial).prompt_index() == 0 && world.rows().at(serial).sample() == 0;
    });
    if (first != serials.end() && world.core().state() == Job::STATE_RUNNING) {
      ++losses;
      world.Send(PayloadLost{{{world.rows().at(*first).id(), *first}}, "wrong checksum"});
    }
    world.Step();
  }
  EXPECT_EQ(losses, 5);
  ASSERT_EQ(world.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(world.core().Brief().error().message(),
              ::testing::AllOf(::testing::HasSubstr("was lost 5 times"),
                               ::testing::HasSubstr("wrong checksum")));
}

}  // namespace
}  // namespace baton::controller
