#include "workers/hybrid/hybrid_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/engine/generator.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/workers/hybrid.h"
#include "workers/engine/training/trainer.h"

namespace baton::hybrid {
namespace {

using engine::CausalLM;
using engine::Communicator;
using engine::GenerateRequest;
using testing::Ends;
using ::testing::HasSubstr;
using testing::RunLayout;
using torch::Tensor;

/// t in {2, 4}, t_g in {1, 2}, d in {1, 2}.
const std::vector<RankLayout> kLayouts = {{1, 2, 1, 1, 1}, {1, 2, 1, 1, 2}, {1, 2, 2, 1, 1},
                                          {1, 2, 2, 1, 2}, {1, 4, 1, 1, 1}, {1, 4, 1, 1, 2},
                                          {1, 4, 2, 1, 1}, {1, 4, 2, 1, 2}};

/// Two queries to a key head; vocabulary 13 and intermediate size 11, which no rank count divides.
ModelConfig Config(bool tied = true) {
  ModelConfig config = engine::testing::SharedConfig(tied);
  config.num_attention_heads = 8;
  return config;
}

std::unique_ptr<CausalLM> Model(Communicator* group, bool tied = true,
                                torch::Dtype dtype = torch::kFloat64) {
  return engine::testing::MakeSharedModel(Config(tied), group, dtype);
}

HybridOptions Options() {
  HybridOptions options;
  options.generator.kv_cache_bytes = 1 << 20;
  return options;
}

std::unique_ptr<HybridEngine> Engine(CausalLM* model, const RankLayout& layout, Ends& ends) {
  auto engine = HybridEngine::Create(model, layout, ends.rank, std::move(ends.hybrid), Options());
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

/// Eleven requests, which no number of replicas divides; greedy, or drawn.
std::vector<GenerateRequest> Requests(double temperature) {
  std::vector<GenerateRequest> requests;
  for (uint64_t id = 1; id <= 11; ++id) {
    const auto first = static_cast<int32_t>(id % 13);
    requests.push_back(engine::Request(id, {first, 3, 9}, 5 + static_cast<int64_t>(id % 4), 0));
    requests.back().params.temperature = temperature;
  }
  return requests;
}

std::vector<engine::TrainSequence> Batch(int step) {
  std::mt19937 rng(static_cast<uint32_t>(step) + 5);
  std::vector<engine::TrainSequence> batch(6);
  for (engine::TrainSequence& s : batch) {
    s.prompt_length = 2;
    for (int t = 0; t < 9; ++t) s.tokens.push_back(static_cast<int32_t>(rng() % 13));
  }
  return batch;
}

std::unique_ptr<engine::Trainer> Trainer(CausalLM* model, const Ends& ends) {
  OptimizerSpec spec;
  spec.lr = 0.02;
  auto trainer = engine::Trainer::Create(model, spec, ends.data.get());
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

/// Expects that `generation` has exactly the bits of its slice of `whole`, each once.
void ExpectSliceOf(const CausalLM& whole, const CausalLM& generation, const RankLayout& layout,
                   int rank) {
  std::map<std::string, Tensor> expected;
  for (const auto& [name, tensor] : whole.parameters()) expected[name] = tensor;
  std::map<std::string, int64_t> elements;
  for (size_t i = 0; i < generation.shards().size(); ++i) {
    const engine::ParameterShard& shard = generation.shards()[i];
    EXPECT_TRUE(torch::equal(generation.parameters()[i].second,
                             engine::SliceOf(expected.at(shard.name), shard.box)))
        << shard.name << " " << shard.box.ToString();
    elements[shard.name] += shard.box.volume();
  }
  for (const DividedTensor& tensor : DivideModel(whole, layout).tensors) {
    EXPECT_EQ(elements[tensor.name], tensor.generation[layout.GenerationTensorRank(rank)].volume())
        << tensor.name;
  }
}

// Bit for bit, and the trained slice where the trainer has it.
TEST(HybridEngineTest, GenerationWeightsAreTheSliceOfTheWholeModel) {
  for (bool tied : {true, false}) {
    const auto whole = Model(nullptr, tied);
    for (const RankLayout& layout : kLayouts) {
      SCOPED_TRACE(LayoutName(layout));
      RunLayout(layout, [&](Ends& ends) {
        const auto model = Model(ends.tensor.get(), tied);
        const auto engine = Engine(model.get(), layout, ends);
        ASSERT_TRUE(engine->ToGeneration().ok());
        const CausalLM& generation = *engine->generation_model();
        ExpectSliceOf(*whole, generation, layout, ends.rank);
        EXPECT_EQ(generation.slices(), layout.micro_data());
        size_t shared = 0;
        for (const auto& mine : model->parameters()) {
          for (const auto& theirs : generation.parameters()) {
            shared +=
                mine.first == theirs.first && mine.second.data_ptr() == theirs.second.data_ptr();
          }
        }
        EXPECT_EQ(shared, model->parameters().size());
      });
    }
  }
}

TEST(HybridEngineTest, ABatchIsGeneratedAsByOneProcess) {
  for (double temperature : {0.0, 0.8}) {
    const std::vector<GenerateRequest> requests = Requests(temperature);
    const auto whole = Model(nullptr, temperature == 0);
    const engine::Responses expected = engine::RunAll(whole.get(), requests, {});
    for (const RankLayout& layout : kLayouts) {
      SCOPED_TRACE(LayoutName(layout));
      std::vector<std::vector<HybridResponse>> answers(layout.world_size());
      RunLayout(layout, [&](Ends& ends) {
        const auto model = Model(ends.tensor.get(), temperature == 0);
        const auto engine = Engine(model.get(), layout, ends);
        ASSERT_TRUE(engine->ToGeneration().ok());
        auto responses = engine->Generate(requests);
        ASSERT_TRUE(responses.ok()) << responses.status();
        answers[ends.rank] = *std::move(responses);
      });
      std::map<int, std::vector<HybridResponse>> replicas;
      for (int rank = 0; rank < layout.world_size(); ++rank) {
        replicas[layout.Replica(rank)] = answers[rank];
      }
      std::vector<HybridResponse> collected;
      for (const auto& [replica, responses] : replicas) {
        collected.insert(collected.end(), responses.begin(), responses.end());
      }
      ASSERT_EQ(collected.size(), requests.size());
      for (size_t i = 0; i < requests.size(); ++i) {
        const HybridResponse& response = collected[i];
        const engine::Response& want = expected.at(requests[i].id);
        EXPECT_EQ(response.id, requests[i].id);
        EXPECT_EQ(response.tokens, want.tokens);
        EXPECT_EQ(response.finish_reason, want.finish_reason);
        ASSERT_EQ(response.log_probs.size(), want.log_probs.size());
        for (size_t t = 0; t < want.log_probs.size(); ++t) {
          EXPECT_NEAR(response.log_probs[t], want.log_probs[t], 1e-6);
        }
      }
    }
  }
}

std::vector<Tensor> Copies(const CausalLM& model) {
  std::vector<Tensor> copies;
  for (const auto& named : model.parameters()) copies.push_back(named.second.detach().clone());
  return copies;
}

// Two updates, with generation before, between and after, or without.
TEST(HybridEngineTest, GenerationLeavesTrainingAsItIs) {
  for (torch::Dtype dtype : {torch::kFloat64, torch::kFloat32}) {
    for (const RankLayout& layout : kLayouts) {
      SCOPED_TRACE(LayoutName(layout));
      std::vector<std::vector<Tensor>> results[2];
      for (const bool generates : {false, true}) {
        results[generates].resize(layout.world_size());
        RunLayout(layout, [&](Ends& ends) {
          const auto model = Model(ends.tensor.get(), true, dtype);
          const auto trainer = Trainer(model.get(), ends);
          const auto engine = Engine(model.get(), layout, ends);
          const auto generate = [&] {
            if (!generates) return;
            ASSERT_TRUE(engine->ToGeneration().ok());
            ASSERT_TRUE(engine->Generate(Requests(1)).ok());
            ASSERT_TRUE(engine->ToTraining().ok());
          };
          for (int step = 0; step < 2; ++step) {
            generate();
            ASSERT_TRUE(trainer->Update(Batch(step), {}, {}).ok());
          }
          generate();
          results[generates][ends.rank] = Copies(*model);
        });
      }
      const auto untouched = Model(nullptr, true, dtype);
      for (int rank = 0; rank < layout.world_size(); ++rank) {
        ASSERT_EQ(results[0][rank].size(), results[1][rank].size());
        for (size_t i = 0; i < results[0][rank].size(); ++i) {
          EXPECT_TRUE(torch::equal(results[0][rank][i], results[1][rank][i]));
        }
      }
      EXPECT_FALSE(torch::equal(results[0][0][0].narrow(0, 0, 1),
                                untouched->parameters()[0].second.narrow(0, 0, 1)))
          << "nothing was trained";
    }
  }
}

// Weights that were gathered before an update are not used after it: all ranks of a replica have
// the weights that one process has.
TEST(HybridEngineTest, EveryTransitionGathersTheNewWeights) {
  const RankLayout layout{1, 4, 1, 1, 2};
  std::mutex mu;
  std::map<std::string, std::vector<std::pair<relay::Box, Tensor>>> parts;
  std::vector<std::unique_ptr<CausalLM>> models(4);
  RunLayout(layout, [&](Ends& ends) {
    models[ends.rank] = Model(ends.tensor.get());
    CausalLM& model = *models[ends.rank];
    const auto trainer = Trainer(&model, ends);
    const auto engine = Engine(&model, layout, ends);
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(trainer->Update(Batch(step), {}, {}).ok());
      ASSERT_TRUE(engine->ToGeneration().ok());
      if (step == 0) ASSERT_TRUE(engine->ToTraining().ok());
    }
    const std::lock_guard<std::mutex> lock(mu);
    for (size_t i = 0; i < engine->generation_model()->shards().size(); ++i) {
      const engine::ParameterShard& shard = engine->generation_model()->shards()[i];
      parts[shard.name].emplace_back(
          shard.box, engine->generation_model()->parameters()[i].second.detach().clone());
    }
  });
  // Each slice of a trainer is in two replicas.
  for (const auto& model : models) {
    for (size_t i = 0; i < model->shards().size(); ++i) {
      int found = 0;
      for (const auto& [box, tensor] : parts.at(model->shards()[i].name)) {
        if (!(box == model->shards()[i].box)) continue;
        ++found;
        EXPECT_TRUE(torch::equal(tensor, model->parameters()[i].second));
      }
      EXPECT_EQ(found, model->shards()[i].whole() ? 4 : 2) << model->shards()[i].name;
    }
  }
}

// Bytes by the storages that tensors share, against the plan; what was gathered is really gone.
TEST(HybridEngineTest, MemoryIsTakenAndGivenBack) {
  for (const RankLayout& layout : kLayouts) {
    SCOPED_TRACE(LayoutName(layout));
    RunLayout(layout, [&](Ends& ends) {
      const auto model = Model(ends.tensor.get());
      const auto engine = Engine(model.get(), layout, ends);
      const HybridMemory before = engine->memory();
      int64_t trained = 0;
      for (const auto& named : model->parameters()) trained += named.second.nbytes();
      EXPECT_EQ(before.training_bytes, trained);
      EXPECT_EQ(before.parameter_bytes(), trained);
      EXPECT_EQ(before.kv_cache_bytes, 0);

      ASSERT_TRUE(engine->ToGeneration().ok());
      const HybridMemory during = engine->memory();
      const RankTransition& plan = engine->plan();
      EXPECT_EQ(during.generation_bytes, plan.peak.divided + plan.peak.whole);
      EXPECT_EQ(during.generation_bytes, trained + plan.received.divided);
      EXPECT_EQ(during.redundant_bytes, 0);
      EXPECT_EQ(during.parameter_bytes(), during.generation_bytes);
      EXPECT_GT(during.kv_cache_bytes, (1 << 20) - (1 << 13));
      std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> gathered;
      for (const auto& [name, theirs] : engine->generation_model()->parameters()) {
        bool mine = false;
        for (const auto& named : model->parameters()) {
          mine = mine || named.second.data_ptr() == theirs.data_ptr();
        }
        if (!mine) gathered.emplace_back(theirs.getIntrusivePtr());
      }
      EXPECT_EQ(gathered.empty(), layout.micro_data() == 1);

      ASSERT_TRUE(engine->ToTraining().ok());
      EXPECT_EQ(engine->memory().parameter_bytes(), trained);
      EXPECT_EQ(engine->memory().generation_bytes, 0);
      EXPECT_EQ(engine->memory().kv_cache_bytes, 0);
      EXPECT_EQ(engine->generation_model(), nullptr);
      for (const auto& weak : gathered) EXPECT_TRUE(weak.expired());
    });
  }
}

// Over real sockets: what comes in is the plan's, to the byte, though sizes do not divide.
TEST(HybridEngineTest, ReceivesTheBytesOfThePlan) {
  const auto server = parallel::StoreServer::Start("127.0.0.1");
  ASSERT_TRUE(server.ok()) << server.status();
  uint64_t group_epoch = 0;
  for (const RankLayout& layout :
       {RankLayout{1, 4, 1, 1, 1}, RankLayout{1, 4, 1, 1, 2}, RankLayout{1, 2, 2, 1, 1}}) {
    SCOPED_TRACE(LayoutName(layout));
    ++group_epoch;
    const auto whole = Model(nullptr);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      ranks.emplace_back([&, rank] {
        parallel::GroupAddress address;
        address.store = (*server)->address();
        address.group_epoch = group_epoch;
        address.rank = rank;
        address.tp = layout.tensor;
        address.dp = layout.data;
        const auto groups = parallel::RankGroups::Join(address);
        ASSERT_TRUE(groups.ok()) << groups.status();
        auto hybrid = JoinHybridGroups(**groups, layout);
        ASSERT_TRUE(hybrid.ok()) << hybrid.status();
        const auto model = Model((*groups)->tensor_group());
        const auto engine =
            HybridEngine::Create(model.get(), layout, rank, *std::move(hybrid), Options());
        ASSERT_TRUE(engine.ok()) << engine.status();
        const int64_t before = (*groups)->bytes().received;
        ASSERT_TRUE((*engine)->ToGeneration().ok());
        const int64_t received = (*groups)->bytes().received - before;
        EXPECT_EQ(received, (*engine)->plan().received.divided);
        EXPECT_GT(received, 0);
        ExpectSliceOf(*whole, *(*engine)->generation_model(), layout, rank);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

TEST(HybridEngineTest, StatesAndRequestsThatDoNotFitAreRefused) {
  const RankLayout layout{1, 2, 1, 1, 1};
  RunLayout(layout, [&](Ends& ends) {
    const auto model = Model(ends.tensor.get());
    const auto engine = Engine(model.get(), layout, ends);
    EXPECT_EQ(engine->ToTraining().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(engine->Generate(Requests(0)).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(engine->generator(), nullptr);
    ASSERT_TRUE(engine->ToGeneration().ok());
    EXPECT_EQ(engine->ToGeneration().code(), absl::StatusCode::kFailedPrecondition);

    std::vector<GenerateRequest> bad = Requests(0);
    bad[ends.rank == 0 ? 4 : 9].prompt = {77};  // In each rank's part, behind others.
    const auto refused = engine->Generate(bad);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr(ends.rank == 0 ? "request 5" : "request 10"));
    EXPECT_TRUE(engine->Generate(Requests(0)).ok()) << "its requests were left behind";

    ASSERT_TRUE(engine->generator()->Add(engine::Request(50, {1}, 3, 0)).ok());
    EXPECT_THAT(std::string(engine->ToTraining().message()), HasSubstr("requests are live"));
    EXPECT_TRUE(engine->generator()->Cancel(50));
    ASSERT_TRUE(engine->generator()->Step().ok());
    EXPECT_TRUE(engine->ToTraining().ok());
  });
}

// The neighbours' slices would be those of another step.
TEST(HybridEngineTest, AnUpdateWhileGeneratingIsNoticed) {
  const RankLayout layout{1, 2, 2, 1, 1};
  RunLayout(layout, [&](Ends& ends) {
    const auto model = Model(ends.tensor.get());
    const auto trainer = Trainer(model.get(), ends);
    const auto engine = Engine(model.get(), layout, ends);
    ASSERT_TRUE(engine->ToGeneration().ok());
    ASSERT_TRUE(trainer->Update(Batch(0), {}, {}).ok());
    const auto refused = engine->Generate(Requests(0));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("was changed while"));
    ASSERT_TRUE(engine->ToTraining().ok());
    ASSERT_TRUE(engine->ToGeneration().ok());
    EXPECT_TRUE(engine->Generate(Requests(0)).ok());
  });
}

TEST(HybridEngineTest, ReportsALostNeighbour) {
  const auto server = parallel::StoreServer::Start("127.0.0.1");
  ASSERT_TRUE(server.ok()) << server.status();
  const RankLayout layout{1, 2, 1, 1, 1};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      parallel::GroupAddress address;
      address.store = (*server)->address();
      address.rank = rank;
      address.tp = 2;
      address.timeout = absl::Seconds(10);
      const auto groups = parallel::RankGroups::Join(address);
      ASSERT_TRUE(groups.ok()) << groups.status();
      auto hybrid = JoinHybridGroups(**groups, layout);
      ASSERT_TRUE(hybrid.ok()) << hybrid.status();
      if (rank == 1) return;
      const auto model = Model((*groups)->tensor_group());
      const auto engine =
          HybridEngine::Create(model.get(), layout, rank, *std::move(hybrid), Options());
      ASSERT_TRUE(engine.ok()) << engine.status();
      const absl::Status status = (*engine)->ToGeneration();
      EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0, group \"micro-DP"));
      EXPECT_FALSE((*engine)->generating());
      EXPECT_EQ((*engine)->memory().parameter_bytes(), (*engine)->memory().training_bytes);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// The generation model goes back when there is no room for its cache, and training can go on.
TEST(HybridEngineTest, ACacheThatDoesNotFitLeavesTraining) {
  const RankLayout layout{1, 2, 1, 1, 1};
  RunLayout(layout, [&](Ends& ends) {
    const auto model = Model(ends.tensor.get());
    HybridOptions options;
    options.generator.kv_cache_bytes = 1;
    auto engine = HybridEngine::Create(model.get(), layout, ends.rank, std::move(ends.hybrid),
                                       std::move(options));
    ASSERT_TRUE(engine.ok());
    EXPECT_FALSE((*engine)->ToGeneration().ok());
    EXPECT_FALSE((*engine)->generating());
    EXPECT_EQ((*engine)->generation_model(), nullptr);
    EXPECT_EQ((*engine)->memory().generation_bytes, 0);
  });
}

TEST(HybridEngineTest, LayoutsThatDoNotFitAreRefused) {
  RunLayout({1, 2, 1, 1, 1}, [&](Ends& ends) {
    const auto model = Model(ends.tensor.get());
    const auto fault = [&](const RankLayout& layout, int rank) {
      return std::string(
          HybridEngine::Create(model.get(), layout, rank, {}, {}).status().message());
    };
    EXPECT_THAT(fault({2, 2, 1, 1, 1}, ends.rank), HasSubstr("runs models of one stage"));
    EXPECT_THAT(fault({1, 2, 1, 1, 1}, 2), HasSubstr("rank 2 is not one of the layout's 2"));
    EXPECT_THAT(fault({1, 4, 1, 1, 1}, ends.rank), HasSubstr("the tensor group has"));
    EXPECT_THAT(fault({1, 2, 1, 1, 1}, ends.rank), HasSubstr("the micro-DP group has"));
    EXPECT_THAT(fault({1, 2, 1, 1, 2}, ends.rank), HasSubstr("the generation tensor group has"));
  });
}

}  // namespace
}  // namespace baton::hybrid
