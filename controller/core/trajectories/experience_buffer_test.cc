#include "controller/core/trajectories/experience_buffer.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kEpoch = absl::FromUnixSeconds(1000);

TrajectoryInfo ReadyOf(uint64_t prompt_index, uint32_t sample, double reward) {
  TrajectoryInfo trajectory;
  trajectory.id = TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, sample, 2);
  trajectory.prompt_index = prompt_index;
  trajectory.sample = sample;
  trajectory.prompt_id = 40 + prompt_index;
  trajectory.state = TrajectoryState::kReady;
  trajectory.scores["reward"] = reward;
  return trajectory;
}

ExperienceBuffer::Trajectories ById(const std::vector<TrajectoryInfo>& all) {
  ExperienceBuffer::Trajectories out;
  for (const TrajectoryInfo& one : all) out[one.id] = one;
  return out;
}

// Serials that were dropped, as (begin, end).
std::vector<std::pair<uint64_t, uint64_t>> DroppedIn(EffectSink& out) {
  std::vector<std::pair<uint64_t, uint64_t>> dropped;
  for (const auto& drop : TakeAll<DropTrajectories>(out))
    dropped.emplace_back(drop.begin, drop.end);
  return dropped;
}

// Each step has two rows. Of `most` steps exactly `most` are kept, not one more and not one less.
TEST(ExperienceBufferTest, AsManyStepsAreKeptAsAreAskedFor) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  constexpr size_t kMost = 3;
  for (int64_t step = 0; step < 5; ++step) {
    buffer.BeginStep(kMost, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    store::v1::JobRow row;
    buffer.Save(&row);
    EXPECT_EQ(row.kept_steps_size(), std::min<int>(static_cast<int>(step) + 1, kMost));
    if (step < 3) {
      EXPECT_THAT(DroppedIn(out), IsEmpty()) << step;
    } else {
      const auto first = static_cast<uint64_t>(1 + 2 * (step - 3));
      EXPECT_THAT(DroppedIn(out), ElementsAre(std::make_pair(first, first + 2))) << step;
    }
    for (uint32_t sample : {0u, 1u}) {
      TrajectoryInfo trajectory = ReadyOf(0, sample, 1);
      buffer.PutNew(trajectory, out);
      EXPECT_EQ(trajectory.serial, static_cast<uint64_t>(2 * step) + sample + 1);
    }
    out.StepDone();
  }
}

// Four responses: 100 bytes that are being scored, 30 and 8 bytes of a column that are READY, 500
// in a batch, and one that is generated and has no payload yet.
TEST(ExperienceBufferTest, CountsBytesByTrajectoryState) {
  std::vector<TrajectoryInfo> all = {ReadyOf(0, 0, 1), ReadyOf(0, 1, 1), ReadyOf(1, 0, 1),
                                     ReadyOf(1, 1, 1)};
  all[0].state = TrajectoryState::kScoring;
  all[0].location.size = 100;
  all[1].location.size = 30;
  all[1].columns[2].size = 8;
  all[2].location.size = 500;
  all[3].state = TrajectoryState::kGenerating;
  ExperienceBuffer buffer;
  BatchBuilt built;
  built.size = 1;
  built.column_hashes[all[2].id] = {7};
  buffer.batch().Built(built, kEpoch);
  const PayloadBytes held = buffer.bytes_held(ById(all));
  EXPECT_EQ(held.scoring, 100u);
  EXPECT_EQ(held.ready, 38u);
  EXPECT_EQ(held.batched, 500u);
  EXPECT_EQ(held.total(), 638u);
  EXPECT_EQ(buffer.bytes_held({}).total(), 0u);
}

// An evaluation and the step after it begin with the same serial, and are retired together.
TEST(ExperienceBufferTest, AnEvaluationBelongsToTheStepAfterIt) {
  EffectSink out = SinkAt(kEpoch, 4);
  ExperienceBuffer buffer;
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  TrajectoryInfo evaluated = ReadyOf(0, 0, 1);
  evaluated.purpose = v1::PURPOSE_EVAL;
  evaluated.location.file = 3;
  buffer.PutNew(evaluated, out);
  EXPECT_EQ(TakeAll<PutTrajectory>(out).at(0).step, 4) << "it measures the steps that are done";
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  TrajectoryInfo trained = ReadyOf(0, 0, 1);
  trained.location.file = 5;
  buffer.PutNew(trained, out);
  EXPECT_EQ(TakeAll<PutTrajectory>(out).at(0).step, 5);
  store::v1::JobRow row;
  buffer.Save(&row);
  ASSERT_EQ(row.kept_steps_size(), 1);
  EXPECT_EQ(row.kept_steps(0).first_serial(), 1u);
  ASSERT_EQ(row.kept_steps(0).files_size(), 2) << "files 3 and 5";
  EXPECT_EQ(row.kept_steps(0).files(0).first(), 3u);
  EXPECT_EQ(row.kept_steps(0).files(1).last(), 5u);
}

TEST(ExperienceBufferTest, RollBackDropsTheRowsOfRedoneSteps) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  for (int step = 0; step < 3; ++step) {
    buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    TrajectoryInfo trajectory = ReadyOf(0, 0, 1);
    buffer.PutNew(trajectory, out);
    out.StepDone();
  }
  out.Take();
  out.RollBack(1);
  buffer.RollBack({}, /*spans_steps=*/false, {{"kl_coef", 0.25}}, /*keeps_all=*/false, out);
  EXPECT_THAT(DroppedIn(out), ElementsAre(std::make_pair(2u, 4u)));
  EXPECT_EQ(buffer.algorithm().at("kl_coef"), 0.25);
}

// Trajectories that are under way or READY go on, with their rows and the files of their payloads.
TEST(ExperienceBufferTest, RollBackKeepsTheRowsOfWorkUnderWay) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  std::vector<TrajectoryInfo> all;
  for (uint64_t step = 0; step < 3; ++step) {
    buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    for (uint32_t sample = 0; sample < 2; ++sample) {
      all.push_back(ReadyOf(step, sample, 1));
      all.back().location.file = static_cast<uint32_t>(all.size());
      buffer.PutNew(all.back(), out);
    }
    out.StepDone();
  }
  out.Take();
  out.RollBack(1);
  buffer.RollBack(ById({all[1], all[4]}), /*spans_steps=*/true, {}, /*keeps_all=*/false, out);
  const Effects effects = out.Take();
  std::vector<std::pair<uint64_t, uint64_t>> dropped;
  for (const Effect& effect : effects) {
    if (const auto* rows = std::get_if<DropTrajectories>(&effect)) {
      dropped.emplace_back(rows->begin, rows->end);
    }
    if (const auto* files = std::get_if<DropLogFiles>(&effect)) {
      EXPECT_TRUE(files->needed.Contains(2) && files->needed.Contains(5));
    }
  }
  EXPECT_THAT(dropped, ElementsAre(std::make_pair(3u, 5u), std::make_pair(6u, 7u)));
  store::v1::JobRow row;
  buffer.Save(&row);
  ASSERT_EQ(row.kept_steps_size(), 2);
  EXPECT_EQ(row.kept_steps(1).step(), 2);
  EXPECT_EQ(row.kept_steps(1).first_serial(), 3u);
}

// An evaluation that ended while later steps were under way stays, if its own step does.
TEST(ExperienceBufferTest, RollBackKeepsTheRowsOfEvaluationsThatCount) {
  EffectSink out = SinkAt(kEpoch, 3);
  ExperienceBuffer buffer;
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  std::vector<TrajectoryInfo> all;
  for (const int64_t measured : {2, 3}) {
    all.push_back(ReadyOf(0, 0, 1));
    all.back().purpose = v1::PURPOSE_EVAL;
    all.back().pin = {7, measured};
    buffer.PutNew(all.back(), out);
  }
  all.push_back(ReadyOf(0, 0, 1));
  buffer.PutNew(all.back(), out);
  out.Take();
  out.RollBack(2);
  buffer.RollBack({}, /*spans_steps=*/false, {}, /*keeps_all=*/false, out);
  EXPECT_THAT(DroppedIn(out), ElementsAre(std::make_pair(2u, 4u))) << "all but that of step 2";
  out.RollBack(1);
  buffer.RollBack({}, /*spans_steps=*/false, {}, /*keeps_all=*/false, out);
  EXPECT_THAT(DroppedIn(out), ElementsAre(std::make_pair(1u, 4u)));
}

TEST(ExperienceBufferTest, DoesNotRetireStepsWhoseRowsAreStillNeeded) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  for (int step = 0; step < 4; ++step) {
    buffer.BeginStep(1, /*keeps_all=*/false, /*oldest=*/1, out);
    TrajectoryInfo trajectory = ReadyOf(0, 0, 1);
    buffer.PutNew(trajectory, out);
    out.StepDone();
  }
  EXPECT_THAT(DroppedIn(out), IsEmpty());
  store::v1::JobRow row;
  buffer.Save(&row);
  EXPECT_EQ(row.oldest_serial(), 1u);
  buffer.BeginStep(1, /*keeps_all=*/false, /*oldest=*/4, out);
  EXPECT_THAT(DroppedIn(out),
              ElementsAre(std::make_pair(1u, 2u), std::make_pair(2u, 3u), std::make_pair(3u, 4u)));
}

// Each row costs a delete in the turn's commit, so a rollback over many steps must name each row
// only once.
TEST(ExperienceBufferTest, RollBackDropsEachRowOnce) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  for (int step = 0; step < 3; ++step) {
    buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    for (uint32_t sample = 0; sample < 10; ++sample) {
      TrajectoryInfo trajectory = ReadyOf(0, sample, 1);
      buffer.PutNew(trajectory, out);
    }
    out.StepDone();
  }
  out.Take();
  out.RollBack(0);
  buffer.RollBack({}, /*spans_steps=*/false, {}, /*keeps_all=*/false, out);
  uint64_t rows = 0;
  for (const auto& [begin, end] : DroppedIn(out)) rows += end - begin;
  EXPECT_EQ(rows, 30u);
}

// A row without serials is, for example, that of a job that goes on from a checkpoint. A trajectory
// row with serial 0 would look like none.
TEST(ExperienceBufferTest, StartsSerialsAtOneIfTheJobRowHasNone) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  buffer.Restore(store::v1::JobRow());
  TrajectoryInfo trajectory = ReadyOf(0, 0, 1);
  buffer.PutNew(trajectory, out);
  EXPECT_EQ(trajectory.serial, 1u);
}

// Steps whose batches are dropped, as (begin, end).
std::vector<std::pair<int64_t, int64_t>> BatchesDroppedIn(EffectSink& out) {
  std::vector<std::pair<int64_t, int64_t>> dropped;
  for (const auto& drop : TakeAll<DropBatches>(out)) dropped.emplace_back(drop.begin, drop.end);
  return dropped;
}

TEST(ExperienceBufferTest, DropsABatchTogetherWithItsExperience) {
  for (const bool keeps_all : {false, true}) {
    EffectSink out = SinkAt(kEpoch);
    ExperienceBuffer buffer;
    for (uint32_t step = 0; step < 3; ++step) {
      buffer.BeginStep(2, keeps_all, ExperienceBuffer::kNoSerial, out);
      TrajectoryInfo trajectory = ReadyOf(0, 0, 1);
      trajectory.location.file = step + 1;
      buffer.PutNew(trajectory, out);
      if (step < 2) out.Take();
      out.StepDone();
    }
    const Effects effects = out.Take();
    for (const Effect& effect : effects) {
      const auto* const batches = std::get_if<DropBatches>(&effect);
      if (batches == nullptr) continue;
      EXPECT_FALSE(keeps_all);
      EXPECT_EQ(batches->begin, 1);
      EXPECT_EQ(batches->end, 2);
    }
    EXPECT_EQ(std::count_if(
                  effects.begin(), effects.end(),
                  [](const Effect& effect) { return std::holds_alternative<DropBatches>(effect); }),
              keeps_all ? 0 : 1);
  }
}

// The files that the experience log deletes: those below `end` that no kept step needs.
std::vector<uint32_t> FilesDroppedIn(EffectSink& out) {
  std::vector<uint32_t> dropped;
  for (const auto& drop : TakeAll<DropLogFiles>(out)) {
    for (uint32_t file = 1; file < drop.end; ++file) {
      if (!drop.needed.Contains(file)) dropped.push_back(file);
    }
  }
  return dropped;
}

// Puts one response per step, in the file with the step's number.
void PutStep(uint32_t file, ExperienceBuffer& buffer, EffectSink& out) {
  TrajectoryInfo trajectory = ReadyOf(file, 0, 1);
  trajectory.location.file = file;
  buffer.PutNew(trajectory, out);
}

// Step 3 has a late response in file 1. So it keeps file 1, and no file after it.
TEST(ExperienceBufferTest, AFileGoesWhenNoKeptStepNeedsIt) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  const std::vector<std::vector<uint32_t>> dropped = {{}, {}, {}, {}, {2}, {1, 2, 3}};
  for (uint32_t step = 1; step <= dropped.size(); ++step) {
    buffer.BeginStep(3, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    EXPECT_EQ(FilesDroppedIn(out), dropped[step - 1]) << "step " << step;
    PutStep(step, buffer, out);
    TrajectoryInfo late = ReadyOf(step, 1, 1);
    late.location.file = 1;
    if (step == 3) buffer.PutNew(late, out);
    out.StepDone();
  }
}

TEST(ExperienceBufferTest, AStepNeedsTheFilesOfItsColumns) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  TrajectoryInfo trajectory = ReadyOf(0, 0, 1);
  trajectory.location.file = 2;
  buffer.PutNew(trajectory, out);
  trajectory.columns[1].file = 4;
  buffer.Put(trajectory, out);
  PutStep(6, buffer, out);
  out.StepDone();
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  EXPECT_THAT(FilesDroppedIn(out), ElementsAre(1, 3, 5));
}

TEST(ExperienceBufferTest, RollBackDropsTheFilesOfRedoneSteps) {
  for (const bool keeps_all : {false, true}) {
    EffectSink out = SinkAt(kEpoch);
    ExperienceBuffer buffer;
    for (uint32_t step = 1; step <= 3; ++step) {
      buffer.BeginStep(50, keeps_all, ExperienceBuffer::kNoSerial, out);
      PutStep(step, buffer, out);
      out.StepDone();
    }
    out.Take();
    out.RollBack(1);
    buffer.RollBack({}, /*spans_steps=*/false, {}, keeps_all, out);
    // File 3 is the newest that a row names; payloads without a row yet may be there.
    const std::vector<uint32_t> dropped = FilesDroppedIn(out);
    if (keeps_all) EXPECT_THAT(dropped, ::testing::IsEmpty());
    if (!keeps_all) EXPECT_THAT(dropped, ElementsAre(2));
  }
}

// A controller that restarts knows from its rows what is needed, between any two steps: from the
// job's row, which may be as old as the step, and from the rows of the step's responses.
TEST(ExperienceBufferTest, DropsTheSameFilesAfterARestart) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  for (uint32_t step = 1; step <= 9; ++step) {
    buffer.BeginStep(3, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
    store::v1::JobRow row;
    buffer.Save(&row);
    PutStep(step, buffer, out);
    out.StepDone();
    ExperienceBuffer restarted;
    restarted.Restore(row);
    store::v1::TrajectoryRow found;
    found.set_file(step);
    restarted.NoteFound(step, found, /*current=*/false);
    EffectSink again = SinkAt(kEpoch, step);
    restarted.BeginStep(3, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, again);
    // No file of the two newest steps, or of the step that begins, is deleted.
    std::vector<uint32_t> expected;
    for (uint32_t file = 1; file + 2 <= step; ++file) expected.push_back(file);
    EXPECT_EQ(FilesDroppedIn(again), expected) << "after step " << step;
  }
}

// A store that cannot write a row would try for ever, and keep all jobs waiting.
TEST(ExperienceBufferTest, ABatchWhoseRowIsTooLargeIsNotPut) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  buffer.BeginStep(50, /*keeps_all=*/false, ExperienceBuffer::kNoSerial, out);
  out.Take();
  std::vector<TrajectoryInfo> all = {ReadyOf(0, 0, 1), ReadyOf(0, 1, 0)};
  all[0].finish_reason = std::string(1000, 'x');
  const absl::Status put = buffer.PutRow(ById(all), /*least=*/1, /*max_bytes=*/1000, out);
  EXPECT_TRUE(absl::IsResourceExhausted(put)) << put;
  EXPECT_TRUE(out.Take().empty());
  EXPECT_TRUE(buffer.PutRow(ById(all), /*least=*/1, /*max_bytes=*/2000, out).ok());
  EXPECT_EQ(TakeAll<PutBatch>(out).size(), 1u);
}

// With keep_experience `all` also of steps whose trajectory rows are gone already.
TEST(ExperienceBufferTest, RollBackDropsLaterBatches) {
  for (const bool keeps_all : {false, true}) {
    EffectSink out = SinkAt(kEpoch);
    ExperienceBuffer buffer;
    for (int step = 0; step < 6; ++step) {
      buffer.BeginStep(2, keeps_all, ExperienceBuffer::kNoSerial, out);
      if (step < 5) out.StepDone();  // the sixth step is in progress
    }
    out.Take();
    out.RollBack(2);
    buffer.RollBack({}, /*spans_steps=*/false, {}, keeps_all, out);
    EXPECT_THAT(BatchesDroppedIn(out), ElementsAre(std::make_pair(keeps_all ? 3 : 5, 7)));
    buffer.RollBack({}, /*spans_steps=*/false, {}, keeps_all, out);
    EXPECT_THAT(BatchesDroppedIn(out), ElementsAre(std::make_pair(3, 4)))
        << "the step in progress may have one";
  }
}

TEST(ExperienceBufferTest, TheRowOfABatchNamesWhatItWasMadeOf) {
  EffectSink out = SinkAt(kEpoch, 4);
  ExperienceBuffer buffer;
  std::vector<TrajectoryInfo> all = {ReadyOf(0, 0, 1), ReadyOf(0, 1, 0.5), ReadyOf(1, 0, 1)};
  all[0].policy_version = 7;
  all[0].location = {3, 40, 200};
  all[0].columns[1] = {3, 240, 50};
  TrajectoryInfo greedy = ReadyOf(0, 0, 0.25);
  greedy.id = TrajectoryId(v1::PURPOSE_BASELINE, 0, 0, 1);
  greedy.purpose = v1::PURPOSE_BASELINE;
  all.push_back(greedy);
  all.push_back(ReadyOf(2, 0, 1));
  all.back().failed = 1;
  BatchBuilt built;
  built.size = 2;
  built.column_hashes = {{all[0].id, {11, 12}}, {all[2].id, {13}}};
  buffer.batch().Built(built, kEpoch);
  ASSERT_TRUE(buffer.PutRow(ById(all), /*least=*/1, /*max_bytes=*/1 << 20, out).ok());
  const store::v1::BatchRow row = TakeAll<PutBatch>(out).at(0).row;
  EXPECT_EQ(row.step(), 5);
  EXPECT_EQ(row.incarnation(), 1u);
  ASSERT_EQ(row.entries_size(), 3) << "without the greedy one, and what has no reward";
  const TrajectoryInfo first = FromRow(row.entries(0).trajectory(), 0, 0);
  EXPECT_EQ(first.id, all[0].id);
  EXPECT_EQ(first.policy_version, 7u);
  EXPECT_EQ(first.scores.at("reward"), 1);
  EXPECT_EQ(first.location.offset, 40u);
  EXPECT_EQ(first.columns.at(1).offset, 240u);
  EXPECT_THAT(row.entries(0).column_hashes(), ElementsAre(11, 12));
  EXPECT_THAT(row.entries(1).column_hashes(), IsEmpty()) << "a filter left it out";
  EXPECT_THAT(row.entries(2).column_hashes(), ElementsAre(13));
  EXPECT_EQ(row.baselines().at(0), 0.25);
}

TEST(ExperienceBufferTest, ARestartRecallsWhatWasStoredForTheSamePrompt) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  const TrajectoryInfo stored = ReadyOf(1, 0, 0.5);
  buffer.NoteFound(9, ToRow(stored, 1, 1), /*current=*/true);
  buffer.NoteFound(10, ToRow(ReadyOf(1, 1, 0.5), 1, 1), /*current=*/false);
  TrajectoryInfo drawn = ReadyOf(1, 0, 0);
  EXPECT_EQ(buffer.found().Recall(drawn, 0)->scores.at("reward"), 0.5);
  EXPECT_EQ(buffer.found().Recall(drawn, 0)->serial, 9u);
  EXPECT_FALSE(buffer.found().Recall(ReadyOf(1, 1, 0), 0).has_value()) << "of another step";
  drawn.prompt_id = 7;
  EXPECT_FALSE(buffer.found().Recall(drawn, 0).has_value()) << "the data changed";
  TrajectoryInfo next = ReadyOf(2, 0, 0);
  buffer.PutNew(next, out);
  EXPECT_EQ(next.serial, 11u) << "the job's row may be older than its trajectories";
}

TEST(ExperienceBufferTest, ABatchLeavesOutWhatHasNoRewardAndGroupsThatLackTooMany) {
  EffectSink out = SinkAt(kEpoch, 2);
  ExperienceBuffer buffer;
  std::vector<TrajectoryInfo> all;
  for (uint64_t prompt_index : {0u, 1u, 2u}) {
    for (uint32_t sample : {0u, 1u}) all.push_back(ReadyOf(prompt_index, sample, 1));
  }
  all[3].failed = 1;  // prompt index 1 has one response left
  v1::JobSpec spec;
  buffer.Build(ById(all), spec, /*least=*/1, /*held_out=*/0, Recorded::kNot, out);
  EXPECT_EQ(TakeAll<BuildBatch>(out).at(0).trajectories.size(), 5u);
  buffer.Build(ById(all), spec, /*least=*/2, /*held_out=*/4, Recorded::kCompare, out);
  const BuildBatch batch = TakeAll<BuildBatch>(out).at(0);
  std::vector<uint64_t> prompt_indices;
  for (const TrajectoryInfo& trajectory : batch.trajectories) {
    prompt_indices.push_back(trajectory.prompt_index);
  }
  EXPECT_THAT(prompt_indices, ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(batch.step, 3);
  EXPECT_EQ(batch.held_out, 4u);
}

// The algorithm's new state counts once the update is done, because a batch may be lost before.
TEST(ExperienceBufferTest, AppliesAlgorithmStateOnlyWhenABatchIsConsumed) {
  EffectSink out = SinkAt(kEpoch);
  ExperienceBuffer buffer;
  BatchBuilt built;
  built.size = 4;
  built.algorithm["kl_coef"] = 0.1;
  buffer.batch().Built(built, kEpoch);
  EXPECT_THAT(buffer.algorithm(), IsEmpty());
  buffer.Consume();
  EXPECT_EQ(buffer.algorithm().at("kl_coef"), 0.1);
  built.algorithm["kl_coef"] = 0.9;
  built.column_hashes = {{ReadyOf(0, 0, 1).id, {11}}};
  buffer.batch().Built(built, kEpoch);
  buffer.EndWork(ById({ReadyOf(0, 0, 1)}), out);
  EXPECT_EQ(TakeAll<DropPayloads>(out).size(), 1u);
  buffer.Consume();
  EXPECT_THAT(buffer.algorithm(), IsEmpty()) << "that batch was never trained on";
  EXPECT_THAT(buffer.batch().column_hashes(), IsEmpty()) << "the next work has other responses";
}

}  // namespace
}  // namespace baton::controller
