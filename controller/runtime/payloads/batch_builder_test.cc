#include "controller/runtime/payloads/batch_builder.h"

#include <cmath>
#include <tuple>

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/raw_values.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Column Floats(const std::string& name, const std::vector<float>& values) {
  v1::Column column;
  column.set_name(name);
  column.set_dtype(v1::DATA_TYPE_FLOAT32);
  column.set_per_token(true);
  column.set_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return column;
}

std::vector<float> Read(const v1::Trajectory& trajectory, const std::string& name) {
  for (const v1::Column& column : trajectory.columns()) {
    if (column.name() == name) return RawValues<float>(column.data());
  }
  return {};
}

v1::Dataflow Graph(const std::string& text) {
  v1::Dataflow graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}

SharedPayloads Shared(const std::vector<v1::Trajectory>& trajectories) {
  SharedPayloads shared;
  for (const v1::Trajectory& one : trajectories) {
    shared.push_back(std::make_shared<const v1::Trajectory>(one));
  }
  return shared;
}

// The batch of payloads that are all in memory, which its entries hold.
absl::StatusOr<BuiltBatch> MakeBatch(const v1::Dataflow& dataflow, const BuildBatch& ask,
                                     const SharedPayloads& payloads) {
  BATON_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(dataflow, ask));
  std::vector<std::shared_ptr<const PackedPayload>> packed;
  for (const auto& payload : payloads) {
    packed.push_back(std::make_shared<const PackedPayload>(*payload));
    builder.Add(*payload, packed.back());
  }
  BATON_ASSIGN_OR_RETURN(BuiltBatch built, builder.Finish());
  for (BatchEntry& entry : built.entries) {
    entry.payload = std::make_shared<const v1::Trajectory>(entry.cached.lock()->Unpack());
  }
  return built;
}

// Two responses of two tokens to one prompt.
BuildBatch TwoResponses() {
  BuildBatch ask;
  ask.step = 4;
  for (uint32_t sample = 0; sample < 2; ++sample) {
    TrajectoryInfo& info = ask.trajectories.emplace_back();
    info.sample = sample;
    info.tokens = 2;
    info.scores = {{"reward", sample == 0 ? 1.0 : 0.0}, {"cost", sample == 0 ? 2.0 : 4.0}};
  }
  return ask;
}

TEST(BatchBuilderTest, GivesBothCriticsTheirReturns) {
  const v1::Dataflow graph = Graph(R"(advantage { estimator: "gae" options {
    fields { key: "use_cost" value { bool_value: true } }
    fields { key: "lambda_lr" value { number_value: 0 } }
    fields { key: "whiten_advantages" value { bool_value: false } } } })");
  std::vector<v1::Trajectory> payloads(2);
  for (v1::Trajectory& payload : payloads) {
    *payload.add_columns() = Floats("rollout_log_prob", {-1, -1});
    *payload.add_columns() = Floats("values", {0.5F, 0.25F});
    *payload.add_columns() = Floats("cost_values", {3, 1});
  }
  const auto batch = MakeBatch(graph, TwoResponses(), Shared(payloads));
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->entries.size(), 2u);
  // gamma = lam = 1: every return is the response's own reward, or cost; lambda 1.
  EXPECT_THAT(Read(batch->entries[0].Whole(), "returns"), ElementsAre(1, 1));
  EXPECT_THAT(Read(batch->entries[0].Whole(), "cost_returns"), ElementsAre(2, 2));
  EXPECT_THAT(Read(batch->entries[1].Whole(), "cost_returns"), ElementsAre(4, 4));
  EXPECT_THAT(Read(batch->entries[0].Whole(), "advantages"),
              ElementsAre((0.5F - -1) / 2, (0.75F - 1) / 2));
  EXPECT_THAT(Read(batch->entries[0].Whole(), "cost_values"), ElementsAre(3, 1));
  payloads[1].mutable_columns()->RemoveLast();
  EXPECT_THAT(std::string(MakeBatch(graph, TwoResponses(), Shared(payloads)).status().message()),
              HasSubstr("cost_values is missing"));
}

// The hash of a column changes exactly when its reader would notice a difference.
TEST(BatchBuilderTest, EachColumnOfTheBatchHasItsHash) {
  const v1::Dataflow graph = Graph(R"(advantage { estimator: "grpo" })");
  std::vector<v1::Trajectory> payloads(2);
  for (v1::Trajectory& payload : payloads) {
    *payload.add_columns() = Floats("rollout_log_prob", {-1, -2});
  }
  BuildBatch ask = TwoResponses();
  ask.trajectories[0].id = 7;
  ask.trajectories[1].id = 8;
  const auto hashes = [&] {
    const auto batch = MakeBatch(graph, ask, Shared(payloads));
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->event.column_hashes.size(), batch->entries.size());
    return batch->event.column_hashes.at(ask.trajectories[0].id);
  };
  const std::vector<uint64_t> first = hashes();
  ASSERT_EQ(first.size(), 2u) << "the log-probs, and the advantages";
  EXPECT_EQ(hashes(), first);
  *payloads[0].mutable_columns(0) = Floats("rollout_log_prob", {-1, -2.5F});
  EXPECT_NE(hashes()[0], first[0]);
  EXPECT_EQ(hashes()[1], first[1]) << "the other column";
  *payloads[0].mutable_columns(0) = Floats("old_log_prob", {-1, -2});
  EXPECT_NE(hashes()[0], first[0]) << "another column of the same numbers";
}

// In memory the columns of two scores are in the order in which they were answered; read from the
// log, in the order of their nodes.
TEST(BatchBuilderTest, TheHashesDoNotDependOnTheOrderOfTheColumns) {
  const v1::Dataflow graph = Graph(R"(advantage { estimator: "grpo" })");
  const v1::Column log_probs = Floats("rollout_log_prob", {-1, -2});
  const v1::Column first = Floats("ref_log_prob", {-3, -4}), second = Floats("values", {5, 6});
  BuildBatch ask = TwoResponses();
  ask.trajectories[0].id = 7;
  ask.trajectories[1].id = 8;
  std::vector<v1::Trajectory> payloads(2);
  for (const auto& column : {log_probs, first, second}) *payloads[0].add_columns() = column;
  for (const auto& column : {log_probs, second, first}) *payloads[1].add_columns() = column;
  const auto batch = MakeBatch(graph, ask, Shared(payloads));
  ASSERT_TRUE(batch.ok()) << batch.status();
  const std::vector<uint64_t>& one = batch->event.column_hashes.at(7);
  const std::vector<uint64_t>& other = batch->event.column_hashes.at(8);
  ASSERT_EQ(one.size(), 4u);
  ASSERT_EQ(other.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(one[i], other[i]) << i;
  EXPECT_NE(one[3], other[3]) << "their advantages differ";
}

TEST(BatchBuilderTest, LogProbsOfTheActorGoBeforeThoseOfTheRollout) {
  const v1::Dataflow graph = Graph(R"(advantage { estimator: "rloo" options {
    fields { key: "use_kl_in_reward" value { bool_value: true } }
    fields { key: "kl_coef" value { number_value: 0.5 } } } })");
  std::vector<v1::Trajectory> payloads(2);
  for (v1::Trajectory& payload : payloads) {
    *payload.add_columns() = Floats("rollout_log_prob", {-9, -1});
    *payload.add_columns() = Floats("ref_log_prob", {-2, -2});
  }
  auto batch = MakeBatch(graph, TwoResponses(), Shared(payloads));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->event.metrics.count("rollout_corr/k3_kl"), 0u);
  EXPECT_NEAR(batch->event.metrics.at("actor/reward_kl_penalty"), (-7.0 + 1) / 2, 1e-6);
  for (v1::Trajectory& payload : payloads)
    *payload.add_columns() = Floats("old_log_prob", {-1, -1});
  batch = MakeBatch(graph, TwoResponses(), Shared(payloads));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_NEAR(batch->event.metrics.at("actor/reward_kl_penalty"), 1, 1e-6);
  EXPECT_NEAR(batch->event.metrics.at("rollout_corr/log_prob_abs_diff"), (8.0 + 0) / 2, 1e-6);
  EXPECT_THAT(Read(batch->entries[0].Whole(), "rollout_log_prob"), ElementsAre(-9, -1));
}

// Nothing is known about a response without a reward: the others of its group are compared only
// with each other.
TEST(BatchBuilderTest, ComparesAnIncompleteGroupAmongItsRemainingResponses) {
  const v1::Dataflow graph = Graph(R"(advantage { estimator: "grpo" })");
  BuildBatch ask;
  for (const auto& [prompt_index, sample, reward] :
       {std::tuple{0, 0, 1.0}, {0, 1, 0.0}, {0, 3, 1.0}, {1, 0, 4.0}, {1, 1, 2.0}}) {
    TrajectoryInfo& info = ask.trajectories.emplace_back();
    info.prompt_index = static_cast<uint64_t>(prompt_index);
    info.sample = static_cast<uint32_t>(sample);
    info.tokens = 2;
    info.scores = {{"reward", reward}};
  }
  std::vector<v1::Trajectory> payloads(5);
  for (v1::Trajectory& payload : payloads) {
    *payload.add_columns() = Floats("rollout_log_prob", {-1, -1});
  }
  const auto batch = MakeBatch(graph, ask, Shared(payloads));
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->entries.size(), 5u);
  // 1, 0, 1: mean 2/3, standard deviation (n - 1) sqrt(1/3). 4, 2: mean 3, sqrt(2).
  const double third = 1.0 / 3, deviation = std::sqrt(third) + 1e-6;
  const std::vector<double> expected = {third / deviation, -2 * third / deviation,
                                        third / deviation, 1 / (std::sqrt(2.0) + 1e-6),
                                        -1 / (std::sqrt(2.0) + 1e-6)};
  for (size_t i = 0; i < 5; ++i) {
    const auto advantages = Read(batch->entries[i].Whole(), "advantages");
    ASSERT_EQ(advantages.size(), 1u);
    EXPECT_NEAR(advantages[0], expected[i], 1e-6) << i;
  }
}

DataSet ThreeTexts() {
  DataSet texts;
  for (const char* response : {"one", "two", "three"}) {
    Example& example = texts.examples.emplace_back();
    example.prompt = "count: ";
    example.response = response;
  }
  return texts;
}

v1::DataSpec TwoAStep() {
  v1::DataSpec data;
  data.set_seed(7);
  data.set_shuffle(true);
  data.set_pretrain_batch_size(2);
  return data;
}

void AddPretraining(const v1::DataSpec& data, const DataSet& texts, int64_t step,
                    BatchEntries* batch) {
  EXPECT_TRUE(Pretraining(data, std::make_shared<DataSet>(texts), step).AddSome(1000, batch));
}

// Each slice has as many as are asked for, and all slices together are the whole.
TEST(AddPretraining, AddsTextsInSlices) {
  v1::DataSpec data = TwoAStep();
  data.set_pretrain_batch_size(1000);
  BatchEntries whole, sliced;
  AddPretraining(data, ThreeTexts(), 5, &whole);
  Pretraining texts(data, std::make_shared<DataSet>(ThreeTexts()), 5);
  for (size_t slice = 1; slice <= 4; ++slice) {
    EXPECT_EQ(texts.AddSome(300, &sliced), slice == 4);
    EXPECT_EQ(sliced.size(), std::min<size_t>(300 * slice, 1000));
  }
  ASSERT_EQ(whole.size(), 1000u);
  for (size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(sliced[i].Whole().SerializeAsString(), whole[i].Whole().SerializeAsString()) << i;
  }
  // A number that no spec may have: a slice is as short as any other.
  data.set_pretrain_batch_size(2'000'000'000);
  Pretraining poison(data, std::make_shared<DataSet>(ThreeTexts()), 5);
  sliced.clear();
  EXPECT_FALSE(poison.AddSome(300, &sliced));
  EXPECT_EQ(sliced.size(), 300u);
}

TEST(AddPretraining, TakesEveryTextOnceAnEpochAfterWhatIsThere) {
  std::map<std::string, int> seen;
  for (int64_t step = 1; step <= 3; ++step) {
    BatchEntries batch = {{std::make_shared<const v1::Trajectory>(), {}}};
    AddPretraining(TwoAStep(), ThreeTexts(), step, &batch);
    ASSERT_EQ(batch.size(), 3u);
    EXPECT_EQ(batch[0].payload->response_text(), "");
    for (size_t i = 1; i < 3; ++i) {
      const v1::Trajectory text = batch[i].Whole();
      EXPECT_EQ(text.prompt_text(), "count: ");
      EXPECT_EQ(text.step(), static_cast<uint64_t>(step));
      EXPECT_EQ(text.columns_size(), 0) << "what has no tokens is text";
      ++seen[text.response_text()];
    }
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"one", 2}, {"two", 2}, {"three", 2}}));
}

TEST(AddPretraining, KeepsAConversationTogether) {
  DataSet texts;
  for (const char* role : {"system", "user"}) {
    v1::ChatMessage& message = texts.examples.emplace_back().messages.emplace_back();
    message.set_role(role);
    message.set_content("count");
  }
  texts.examples[0].messages.push_back(texts.examples[1].messages[0]);
  texts.examples.pop_back();
  v1::DataSpec data;
  data.set_pretrain_batch_size(1);
  BatchEntries batch;
  AddPretraining(data, texts, 1, &batch);
  ASSERT_EQ(batch.size(), 1u);
  const v1::Trajectory text = batch[0].Whole();
  ASSERT_EQ(text.messages_size(), 2);
  EXPECT_EQ(text.messages(0).role(), "system");
  EXPECT_EQ(text.messages(1).content(), "count");
}

TEST(AddPretraining, RebuildsABatchWithTheSameTexts) {
  BatchEntries first, again;
  AddPretraining(TwoAStep(), ThreeTexts(), 5, &first);
  AddPretraining(TwoAStep(), ThreeTexts(), 5, &again);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first[i].Whole().DebugString(), again[i].Whole().DebugString());
  }
  AddPretraining(TwoAStep(), DataSet(), 5, &again);
  EXPECT_EQ(again.size(), 2u);
}

}  // namespace
}  // namespace baton::controller
