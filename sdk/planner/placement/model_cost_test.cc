#include "sdk/planner/placement/model_cost.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/planner/placement/device_catalogue.h"

namespace baton::placement {
namespace {

// The sizes of the published checkpoints.
TEST(ModelCost, CountsTheParametersOfPublishedModels) {
  EXPECT_EQ(ParameterCount(*FindModel("llama-7b")), 6738415616);
  EXPECT_EQ(ParameterCount(*FindModel("llama-13b")), 13015864320);
  EXPECT_EQ(ParameterCount(*FindModel("llama-33b")), 32528943616);
  EXPECT_EQ(ParameterCount(*FindModel("llama-34b")), 33743970304);
  EXPECT_EQ(ParameterCount(*FindModel("llama-70b")), 68976648192);
  EXPECT_EQ(ParameterCount(*FindModel("qwen2.5-0.5b")), 494032768);
  EXPECT_EQ(ParameterCount(*FindModel("qwen2.5-1.5b")), 1543714304);
  EXPECT_EQ(ParameterCount(*FindModel("qwen2.5-7b")), 7615616512);
  EXPECT_EQ(ParameterCount(*FindModel("qwen2.5-72b")), 72706203648);
  EXPECT_EQ(FindModel("llama-8t"), nullptr);
}

TEST(ModelCost, AScalarHeadIsOneRow) {
  PlannedModel critic = *FindModel("llama-7b");
  critic.scalar_head = true;
  EXPECT_EQ(ParameterCount(critic), 6738415616 - 31999 * 4096);
  PlannedModel tied = *FindModel("qwen2.5-0.5b");
  tied.scalar_head = true;  // the embedding stays, the head is new
  EXPECT_EQ(ParameterCount(tied), 494032768 + 896);
}

TEST(ModelCost, CountsProducts) {
  const PlannedModel& m = *FindModel("llama-7b");
  // Without the embedding (32000 x 4096) and 65 norms of 4096.
  EXPECT_EQ(MatrixParameters(m), 6738415616 - 131072000 - 65 * 4096);
  // 2 x 6,607,077,376 x 2048 + 2 x 32 x 4096 x 2048^2.
  EXPECT_DOUBLE_EQ(ForwardFlops(m, 2048), 27062588932096.0 + 1099511627776.0);
  EXPECT_DOUBLE_EQ(HeadFlops(m, 2048), 536870912000.0);
  EXPECT_DOUBLE_EQ(DecodeFlops(m, 1536), 2 * 6607077376.0 + 4 * 32 * 4096.0 * 1536);
  // A tied head multiplies as any other does.
  const PlannedModel& tied = *FindModel("qwen2.5-0.5b");
  EXPECT_EQ(MatrixParameters(tied),
            24 * (2 * 896 * 896 + 2 * 896 * 128 + 3 * 896 * 4864) + 151936 * 896);
}

TEST(ModelCost, CachesKeysAndValues) {
  EXPECT_DOUBLE_EQ(KvBytes(*FindModel("llama-7b"), 2), 524288);   // 2 x 32 x 4096 x 2
  EXPECT_DOUBLE_EQ(KvBytes(*FindModel("llama-70b"), 2), 327680);  // 2 x 80 x 8 x 128 x 2
}

TEST(ModelCost, NamesWhatIsWrong) {
  PlannedModel m = *FindModel("llama-70b");
  EXPECT_EQ(Fault(m), "");
  m.num_key_value_heads = 7;
  EXPECT_EQ(Fault(m), "num_key_value_heads: 7 does not divide num_attention_heads (64)");
  m.num_hidden_layers = 0;
  EXPECT_EQ(Fault(m), "num_hidden_layers: 0 is below 1");
}

TEST(DeviceCatalogue, EveryDeviceIsWhole) {
  for (const Device& d : KnownDevices()) {
    SCOPED_TRACE(d.name);
    EXPECT_EQ(FindDevice(d.name), &d);
    EXPECT_GE(d.bf16_flops, d.fp32_flops);
    EXPECT_GT(d.memory_bytes, 1e9);
    EXPECT_GT(d.memory_bandwidth, d.node_bandwidth);
    EXPECT_GT(d.network_bandwidth, 1e9);
    EXPECT_GE(d.devices_per_node, 1);
    EXPECT_FALSE(d.source.empty());
  }
  EXPECT_EQ(FindDevice("a100"), nullptr);
}

}  // namespace
}  // namespace baton::placement
