// Against numbers worked out by hand, on a device that reaches round ones: 100 TFLOP/s, 1 TB/s of
// memory, 100 GB/s in a node, 10 GB/s between nodes.
#include "sdk/planner/placement/simulators.h"

#include "gtest/gtest.h"

namespace baton::placement {
namespace {

Setting RoundSetting() {
  Setting s;
  s.device.name = "round";
  s.device.bf16_flops = 100e12 / kComputeEfficiency;
  s.device.fp32_flops = 10e12 / kComputeEfficiency;
  s.device.memory_bytes = 80e9;
  s.device.memory_bandwidth = 1e12 / kMemoryEfficiency;
  s.device.node_bandwidth = 100e9 / kLinkEfficiency;
  s.device.network_bandwidth = 10e9 / kLinkEfficiency;
  s.device.devices_per_node = 8;
  return s;
}

RankLayout Layout(int p, int t, int d, int pg = 1, int tg = 1) {
  RankLayout l;
  l.pipeline = p;
  l.tensor = t;
  l.data = d;
  l.generation_pipeline = pg;
  l.generation_tensor = tg;
  return l;
}

const PlannedModel& Llama7b() { return *FindModel("llama-7b"); }
constexpr double kParameters = 6738415616;
constexpr double kForward = 28162100559872;  // model_cost_test.cc: 2048 tokens
constexpr double kHead = 536870912000;

TEST(TrainingMemory, MatchesTheFormulaForOneLayout) {
  const Memory m = TrainingMemory(RoundSetting(), Llama7b(), Layout(2, 4, 2));
  EXPECT_DOUBLE_EQ(m.weights, 1684603904);    // 2 bytes x P / 8
  EXPECT_DOUBLE_EQ(m.gradients, 3369207808);  // 4 bytes x P / 8
  EXPECT_DOUBLE_EQ(m.optimizer, 5053811712);  // 12 bytes x P / 8 / 2
  // Inputs of 16 layers of 2 micro-batches; one layer, 2048 x 4096 x (10 + 24 / 4); logits and
  // their gradient, 2 x 2048 x 32000 x 4 / 4.
  EXPECT_DOUBLE_EQ(m.activations, 536870912.0 + 134217728.0 + 131072000.0);
  EXPECT_DOUBLE_EQ(m.resident(), 1684603904.0 + 3369207808.0 + 5053811712.0);
}

TEST(TrainingMemory, Float32HasNoMasterWeights) {
  Setting s = RoundSetting();
  s.workload.bytes = 4;
  const Memory m = TrainingMemory(s, Llama7b(), Layout(1, 1, 4));
  EXPECT_DOUBLE_EQ(m.weights, 4 * kParameters);
  EXPECT_DOUBLE_EQ(m.optimizer, 2 * kParameters);  // 8 / 4
}

TEST(TrainingMemory, StoredActivationsAreThoseOfAllLayers) {
  Setting s = RoundSetting();
  s.workload.bytes = 4;
  s.workload.recomputes = false;
  s.workload.micro_batch_tokens = 4096;  // two sequences of 2048
  const Memory m = TrainingMemory(s, Llama7b(), Layout(1, 2, 4));
  // 32 layers, 4096 x 4096 x (10 + 24 / 2) x 2; logits and their gradient, 2 x 4096 x 32000 x 4
  // / 2.
  EXPECT_DOUBLE_EQ(m.activations, 23622320128.0 + 524288000.0);
  s.workload.micro_batch_tokens = 100;  // a sequence is never cut
  EXPECT_DOUBLE_EQ(TrainingMemory(s, Llama7b(), Layout(1, 2, 4)).activations,
                   (23622320128.0 + 524288000.0) / 2);
}

TEST(ScoringMemory, IsWeightsAndOnePass) {
  const Memory m = ScoringMemory(RoundSetting(), Llama7b(), Layout(1, 2, 4));
  EXPECT_DOUBLE_EQ(m.weights, kParameters);
  EXPECT_DOUBLE_EQ(m.gradients + m.optimizer, 0);
  EXPECT_DOUBLE_EQ(m.activations, 2048.0 * 4096 * (10 + 12) + 2048.0 * 32000 * 4 / 2);
  PlannedModel reward = Llama7b();
  reward.scalar_head = true;
  EXPECT_DOUBLE_EQ(ScoringMemory(RoundSetting(), reward, Layout(1, 2, 4)).activations,
                   2048.0 * 4096 * (10 + 12));
}

TEST(TrainingSeconds, DataParallelAcrossNodes) {
  // An update of 128 sequences, 8 a rank, 4 forwards each; P x 15/16 x (4 + 2) bytes at 10 GB/s,
  // one ring a node.
  const double work = 8 * 4 * kForward / 100e12;
  const double exchange = kParameters * 15 / 16 * 6 / 10e9 + 2 * kNetworkLatency;
  EXPECT_NEAR(TrainingSeconds(RoundSetting(), Llama7b(), Layout(1, 1, 16)), 8 * (work + exchange),
              1e-9);
}

TEST(TrainingSeconds, RingsOfANodeShareItsNetwork) {
  // Eight rings of an eighth each cross together what one whole ring does.
  const double work =
      64 * (4 * kForward / 8 / 100e12 + 32 * 6 * (kNodeLatency + 2 * 7.0 / 8 * 16777216 / 100e9));
  const double exchange = kParameters / 8 / 2 * 6 * 8 / 10e9 + 2 * kNetworkLatency;
  EXPECT_NEAR(TrainingSeconds(RoundSetting(), Llama7b(), Layout(1, 8, 2)), 8 * (work + exchange),
              1e-9);
  // Within a node they do not.
  const double near = kParameters / 4 / 2 * 6 / 100e9 + 2 * kNodeLatency;
  const double near_work =
      64 * (4 * kForward / 4 / 100e12 + 32 * 6 * (kNodeLatency + 2 * 3.0 / 4 * 16777216 / 100e9));
  EXPECT_NEAR(TrainingSeconds(RoundSetting(), Llama7b(), Layout(1, 4, 2)), 8 * (near_work + near),
              1e-9);
}

TEST(TrainingSeconds, PipelineHasABubbleAndTheSlowestStagesPace) {
  const double slot =
      4 * ((kForward - kHead) / 2 + kHead) / 100e12 + 2 * (kNodeLatency + 16777216 / 100e9);
  EXPECT_NEAR(TrainingSeconds(RoundSetting(), Llama7b(), Layout(2, 1, 1)), 8 * (128 + 1) * slot,
              1e-9);
}

TEST(TrainingSeconds, TheSlowestRankCountsAndEpochsRepeat) {
  Setting s = RoundSetting();
  s.workload.mini_batch = 100;  // 11 updates
  s.workload.epochs = 2;
  const double exchange = kParameters * 2 / 3 * 6 / 100e9 + 2 * kNodeLatency;
  EXPECT_NEAR(TrainingSeconds(s, Llama7b(), Layout(1, 1, 3)),
              22 * (34 * 4 * kForward / 100e12 + exchange), 1e-9);
}

TEST(ScoringSeconds, CountsOneForwardPassOfAShare) {
  EXPECT_NEAR(ScoringSeconds(RoundSetting(), Llama7b(), Layout(1, 1, 16)), 64 * kForward / 100e12,
              1e-9);
}

TEST(Generation, DecodingIsBoundByMemory) {
  Setting s = RoundSetting();
  s.workload.generated = 64;
  const Generation g = SimulateGeneration(s, Llama7b(), Layout(1, 1, 1), 100e9);
  ASSERT_TRUE(g.fits);
  EXPECT_EQ(g.waves, 1);
  // Weights, and 64 caches of 1536 tokens on average, once a token at 1 TB/s.
  EXPECT_NEAR(g.step_seconds, (2 * kParameters + 64 * 1536 * 524288.0) / 1e12, 1e-12);
  EXPECT_NEAR(g.decode_seconds, 1024 * g.step_seconds, 1e-9);
  EXPECT_NEAR(g.prefill_seconds, 64 * 13806172372992.0 / 100e12, 1e-9);
  EXPECT_EQ(g.reshard_seconds, 0);
  EXPECT_NEAR(g.seconds, g.decode_seconds + g.prefill_seconds, 1e-9);
  EXPECT_DOUBLE_EQ(g.kv_bytes, 64 * 2048 * 524288.0);
}

TEST(Generation, GeneratesInWavesIfNotAllSequencesFit) {
  Setting s = RoundSetting();
  s.workload.generated = 64;
  const double sequence = 2048 * 524288.0;
  const Generation g = SimulateGeneration(s, Llama7b(), Layout(1, 1, 1), 32.5 * sequence);
  EXPECT_EQ(g.waves, 2);
  EXPECT_NEAR(g.decode_seconds, 2 * 1024 * (2 * kParameters + 32 * 1536 * 524288.0) / 1e12, 1e-9);
  EXPECT_FALSE(SimulateGeneration(s, Llama7b(), Layout(1, 1, 1), 0.99 * sequence).fits);
}

TEST(Generation, ManySequencesAreBoundByComputation) {
  Setting s = RoundSetting();
  s.device.memory_bandwidth = 1e18;
  s.workload.generated = 64;
  const Generation g = SimulateGeneration(s, Llama7b(), Layout(1, 1, 1), 100e9);
  EXPECT_NEAR(g.step_seconds, 64 * (2 * 6607077376.0 + 4 * 32 * 4096.0 * 1536) / 100e12, 1e-12);
}

TEST(Generation, ReshardsWhatAHybridEngineLacks) {
  // p t = 8 ranks hold an eighth each; 4 replicas need a half: 3/8 of the weights arrive.
  const RankLayout layout = Layout(1, 8, 1, 1, 2);
  const Generation g = SimulateGeneration(RoundSetting(), Llama7b(), layout, 60e9);
  EXPECT_DOUBLE_EQ(g.extra_bytes, 3 * kParameters / 8 * 2);
  EXPECT_NEAR(g.reshard_seconds, kNodeLatency + 3 * kParameters / 8 * 2 / 100e9, 1e-12);
  EXPECT_NEAR(GenerationMinimum(RoundSetting(), Llama7b(), layout),
              3 * kParameters / 8 * 2 + 2048 * 524288.0 / 2, 1e-3);
}

// The search is exact because more memory never makes generation longer.
TEST(Generation, MoreMemoryIsNeverSlower) {
  Setting s = RoundSetting();
  for (const int generated : {1, 7, 100, 1000}) {
    s.workload.generated = generated;
    for (const auto& layout : {Layout(1, 1, 1), Layout(2, 4, 1, 1, 4), Layout(1, 2, 2, 1, 1)}) {
      double before = 1e300;
      for (double bytes = 1e9; bytes < 3e12; bytes *= 1.07) {
        const Generation g = SimulateGeneration(s, Llama7b(), layout, bytes);
        if (!g.fits) continue;
        EXPECT_LE(g.seconds, before * (1 + 1e-12)) << generated << " " << bytes;
        before = g.seconds;
      }
      EXPECT_LT(before, 1e300);
    }
  }
}

TEST(Calibration, ScalesEachSimulator) {
  Setting s = RoundSetting();
  const RankLayout layout = Layout(1, 4, 2, 1, 2);
  const double training = TrainingSeconds(s, Llama7b(), layout);
  const double scoring = ScoringSeconds(s, Llama7b(), layout);
  const Generation before = SimulateGeneration(s, Llama7b(), layout, 60e9);
  s.calibration = {2, 3, 4};
  EXPECT_DOUBLE_EQ(TrainingSeconds(s, Llama7b(), layout), 2 * training);
  EXPECT_DOUBLE_EQ(ScoringSeconds(s, Llama7b(), layout), 3 * scoring);
  const Generation after = SimulateGeneration(s, Llama7b(), layout, 60e9);
  EXPECT_DOUBLE_EQ(after.decode_seconds, 4 * before.decode_seconds);
  EXPECT_DOUBLE_EQ(after.reshard_seconds, before.reshard_seconds);
}

}  // namespace
}  // namespace baton::placement
