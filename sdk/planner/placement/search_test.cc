#include "sdk/planner/placement/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/planner/placement/unbeaten.h"

namespace baton::placement {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNever = std::numeric_limits<double>::infinity();

Role MakeRole(const std::string& name, const PlannedModel& model) {
  Role role;
  role.name = name;
  role.model = model;
  role.generates = name == "actor";
  role.scores = name != "actor";
  role.trains = name == "actor" || name == "critic";
  role.model.scalar_head = name == "critic" || name == "reward_model" || name == "cost";
  return role;
}

Problem Ppo(const char* model, int devices, const char* device = "a100-80g") {
  Problem p;
  p.setting.device = *FindDevice(device);
  p.devices = devices;
  p.max_pipeline = 4;
  for (const char* role : {"actor", "critic", "reference", "reward_model"}) {
    p.roles.push_back(MakeRole(role, *FindModel(model)));
  }
  return p;
}

// The whole space, one plan after the other: every way to give each role a pool, each pool a size
// and each role a layout; sums and maxima as the header defines them.
class BruteForce {
 public:
  explicit BruteForce(const Problem& problem) : p_(problem), pool_of_(problem.roles.size()) {}

  double Least() {
    AssignPools(0, 0);
    return least_;
  }
  int64_t plans() const { return plans_; }

 private:
  static bool Divides(int64_t a, int64_t b) { return b % a == 0; }

  static bool Above(int size, int most) { return most > 0 && size > most; }

  std::vector<int> Sizes() const {
    const int node = p_.setting.device.devices_per_node;
    std::vector<int> out;
    for (int n = 1; n <= p_.devices; ++n) {
      const bool power = (n & (n - 1)) == 0;
      if ((n < node && power) || n % node == 0) out.push_back(n);
    }
    return out;
  }

  std::vector<RankLayout> Layouts(const Role& role, int n) const {
    std::vector<RankLayout> out;
    for (int p = 1; p <= n; ++p) {
      for (int t = 1; t <= n; ++t) {
        for (int pg = 1; pg <= p; ++pg) {
          for (int tg = 1; tg <= t; ++tg) {
            if (!Divides(p * t, n) || !Divides(p, role.model.num_hidden_layers) ||
                !Divides(pg, p) || !Divides(tg, t) || !Divides(t, role.model.num_attention_heads) ||
                !Divides(t, role.model.num_key_value_heads) ||
                t > p_.setting.device.devices_per_node ||
                (p_.max_pipeline > 0 && p > p_.max_pipeline) ||
                (!role.generates && (pg > 1 || tg > 1)) || Above(t, role.max_tensor) ||
                Above(n / p / t, role.max_data) || Above(tg, role.max_generation_tensor)) {
              continue;
            }
            RankLayout l;
            l.pipeline = p;
            l.tensor = t;
            l.data = n / p / t;
            l.generation_pipeline = pg;
            l.generation_tensor = tg;
            out.push_back(l);
          }
        }
      }
    }
    return out;
  }

  void AssignPools(size_t role, int pools) {
    if (role == p_.roles.size()) {
      sizes_.assign(static_cast<size_t>(pools), 0);
      AssignSizes(0, p_.devices);
      return;
    }
    for (int pool = 0; pool <= pools; ++pool) {
      pool_of_[role] = pool;
      AssignPools(role + 1, std::max(pools, pool + 1));
    }
  }

  void AssignSizes(size_t pool, int left) {
    if (pool == sizes_.size()) {
      layouts_.assign(p_.roles.size(), {});
      AssignLayouts(0);
      return;
    }
    for (const int n : Sizes()) {
      if (n > left) continue;
      sizes_[pool] = n;
      AssignSizes(pool + 1, left - n);
    }
  }

  void AssignLayouts(size_t role) {
    if (role == p_.roles.size()) {
      least_ = std::min(least_, Cost());
      ++plans_;
      return;
    }
    for (const RankLayout& l :
         Layouts(p_.roles[role], sizes_[static_cast<size_t>(pool_of_[role])])) {
      layouts_[role] = l;
      AssignLayouts(role + 1);
    }
  }

  double Cost() const {
    double generation = 0, preparation = 0, training = 0;
    const double usable = kUsableMemory * p_.setting.device.memory_bytes;
    for (size_t pool = 0; pool < sizes_.size(); ++pool) {
      double resident = 0, working = 0, scores = 0, trains = 0, generates = 0;
      for (size_t r = 0; r < p_.roles.size(); ++r) {
        if (pool_of_[r] != static_cast<int>(pool)) continue;
        const Role& role = p_.roles[r];
        const Memory m = role.trains ? TrainingMemory(p_.setting, role.model, layouts_[r])
                                     : ScoringMemory(p_.setting, role.model, layouts_[r]);
        resident += m.weights + m.gradients + m.optimizer;
        working = std::max(working, m.activations);
        if (role.scores) scores += ScoringSeconds(p_.setting, role.model, layouts_[r]);
        if (role.trains) trains += TrainingSeconds(p_.setting, role.model, layouts_[r]);
      }
      if (resident + working > usable) return kNever;
      for (size_t r = 0; r < p_.roles.size(); ++r) {
        if (pool_of_[r] != static_cast<int>(pool) || !p_.roles[r].generates) continue;
        const Generation g =
            SimulateGeneration(p_.setting, p_.roles[r].model, layouts_[r], usable - resident);
        if (!g.fits) return kNever;
        generates += g.seconds;
      }
      generation = std::max(generation, generates);
      preparation = std::max(preparation, scores);
      training = std::max(training, trains);
    }
    return generation + preparation + training;
  }

  const Problem& p_;
  std::vector<int> pool_of_, sizes_;
  std::vector<RankLayout> layouts_;
  double least_ = kNever;
  int64_t plans_ = 0;
};

void ExpectAsBruteForce(const Problem& problem, int* fitting) {
  BruteForce brute(problem);
  const double least = brute.Least();
  const auto result = Search(problem);
  if (std::isinf(least)) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
    return;
  }
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->best().seconds, least, 1e-12 * least) << brute.plans() << " plans";
  ++*fitting;
}

TEST(Search, FindsWhatBruteForceFindsForPpo) {
  int fitting = 0;
  for (const int devices : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const double memory : {80e9, 141e9, 400e9}) {
      Problem p = Ppo("llama-7b", devices);
      p.setting.device.memory_bytes = memory;
      SCOPED_TRACE(testing::Message() << devices << " devices, " << memory);
      ExpectAsBruteForce(p, &fitting);
    }
  }
  EXPECT_GE(fitting, 12);
}

// Random models, batches, links and memory; nodes of 2, 3 or 4.
TEST(Search, FindsWhatBruteForceFindsInRandomWorlds) {
  std::mt19937 rng(11);
  const auto any = [&](std::vector<int> of) { return of[rng() % of.size()]; };
  int fitting = 0;
  for (int round = 0; round < 150; ++round) {
    Problem p;
    p.setting.device = *FindDevice("a100-80g");
    p.setting.device.devices_per_node = any({2, 3, 4});
    p.setting.device.network_bandwidth = any({1, 10, 100}) * 1e9;
    p.setting.device.memory_bytes = any({1, 2, 4, 8, 16, 64}) * 1e9;
    p.setting.workload.generated = any({1, 9, 64, 500});
    p.setting.workload.sequences = any({1, 8, 64});
    p.setting.workload.mini_batch = any({1, 8, 64});
    p.setting.workload.bytes = any({2, 4});
    p.devices = any({1, 2, 3, 4, 5, 6, 7, 8, 9});
    p.max_pipeline = any({0, 1, 2});
    const int roles = any({1, 2, 3, 4, 5});
    const char* const names[] = {"actor", "critic", "reference", "reward_model", "cost"};
    for (int r = 0; r < roles; ++r) {
      PlannedModel m;
      m.hidden_size = any({256, 512, 1024});
      m.num_attention_heads = any({4, 8});
      m.num_key_value_heads = any({2, 4});
      m.head_dim = m.hidden_size / m.num_attention_heads;
      m.num_hidden_layers = any({3, 4, 6});
      m.intermediate_size = 4 * m.hidden_size;
      m.vocab_size = any({1000, 50000});
      p.roles.push_back(MakeRole(names[r], m));
      p.roles.back().max_tensor = any({0, 0, 1, 2});
      p.roles.back().max_data = any({0, 0, 1, 3});
      p.roles.back().max_generation_tensor = any({0, 1});
    }
    if (roles == 5) p.devices = std::min(p.devices, 5);  // brute force is slow
    SCOPED_TRACE(testing::Message() << "round " << round);
    ExpectAsBruteForce(p, &fitting);
  }
  EXPECT_GE(fitting, 75);
}

#ifdef BATON_SANITIZED
constexpr int kDeviceStride = 9;  // a sanitizer takes many times as long
#else
constexpr int kDeviceStride = 1;
#endif

TEST(Search, MoreDevicesNeverMakeAWorsePlan) {
  for (const char* model : {"qwen2.5-0.5b", "llama-13b"}) {
    double before = kNever;
    for (int devices = 1; devices <= 160; devices += kDeviceStride) {
      const auto result = Search(Ppo(model, devices));
      if (!result.ok()) {
        EXPECT_EQ(before, kNever) << devices;
        continue;
      }
      EXPECT_LE(result->best().seconds, before * (1 + 1e-12)) << model << " " << devices;
      EXPECT_LE(result->best().devices(), devices);
      before = result->best().seconds;
    }
    EXPECT_LT(before, kNever);
  }
}

TEST(Search, APlanCostsWhatItsReevaluationSays) {
  const Problem p = Ppo("llama-34b", 96);
  const auto result = Search(p);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->candidates.size(), 15);
  double before = 0;
  for (const Candidate& candidate : result->candidates) {
    if (!candidate.plan) continue;
    EXPECT_GE(candidate.plan->seconds, before);
    before = candidate.plan->seconds;
    const auto again = Evaluate(p, candidate.plan->pools);
    ASSERT_TRUE(again.ok());
    EXPECT_DOUBLE_EQ(again->seconds, candidate.plan->seconds);
    EXPECT_EQ(candidate.why.empty(), &candidate == &result->candidates[0]);
  }
}

TEST(Search, AStageIsTheSumWithinAPoolAndTheLongestPool) {
  const Problem p = Ppo("llama-7b", 32);
  Restriction split;
  split.partitions = {*NamedPartition("split", p.roles)};
  const auto result = Search(p, split);
  ASSERT_TRUE(result.ok());
  const Plan& plan = result->best();
  ASSERT_EQ(plan.pools.size(), 2);
  const PoolPlan &first = plan.pools[0], &second = plan.pools[1];
  EXPECT_DOUBLE_EQ(second.stages[kPreparation], second.roles[0].scoring + second.roles[1].scoring);
  EXPECT_DOUBLE_EQ(plan.stages[kPreparation],
                   std::max(first.roles[1].scoring, second.stages[kPreparation]));
  EXPECT_DOUBLE_EQ(plan.stages[kTraining],
                   std::max(first.roles[0].training, second.roles[0].training));
  EXPECT_DOUBLE_EQ(plan.stages[kGeneration], first.roles[0].generation->seconds);
  EXPECT_DOUBLE_EQ(plan.seconds, plan.stages[0] + plan.stages[1] + plan.stages[2]);
}

TEST(Search, KeepsToPoolsWrittenByHand) {
  const Problem p = Ppo("llama-7b", 32);
  RankLayout layout;
  layout.tensor = 4;
  layout.data = 4;
  layout.generation_tensor = 2;
  Restriction hand;
  hand.pools = {{{0, 2}, 16, {layout, std::nullopt}}, {{1, 3}, 8, {}}};
  const auto result = Search(p, hand);
  ASSERT_TRUE(result.ok()) << result.status();
  const Plan& plan = result->best();
  EXPECT_EQ(plan.pools[0].devices, 16);
  EXPECT_EQ(plan.pools[1].devices, 8);
  EXPECT_EQ(plan.pools[0].roles[0].layout.data, 4);
  EXPECT_EQ(plan.pools[0].roles[0].layout.generation_tensor, 2);

  hand.pools[1].devices = 24;
  EXPECT_EQ(Search(p, hand).status().message(), "the pools have 40 devices or more; there are 32");
  hand.pools[1].devices = 8;
  hand.pools[0].layouts[0]->data = 3;
  EXPECT_THAT(std::string(Search(p, hand).status().message()),
              HasSubstr("actor: pp 1 x tp 4 x dp 3 are 12 ranks; its pool has 16 devices"));
  Problem limited = p;
  limited.roles[0].max_generation_tensor = 1;
  hand.pools[0].layouts[0]->data = 4;
  EXPECT_THAT(std::string(Search(limited, hand).status().message()),
              HasSubstr("actor: generation_tp 2 is above 1"));
  limited.roles[0].max_tensor = 2;
  EXPECT_THAT(std::string(Search(limited, hand).status().message()),
              HasSubstr("actor: tp 4 is above 2"));
  hand.pools[0].layouts.clear();
  hand.pools[0].devices = 1;
  EXPECT_THAT(std::string(Search(p, hand).status().message()),
              HasSubstr("pool actor+reference lacks"));
}

TEST(Search, RefusesALayoutThatTheModelCannotTake) {
  Problem p = Ppo("llama-7b", 8);
  p.max_pipeline = 0;
  for (Role& role : p.roles) role.model.num_key_value_heads = 2;
  RankLayout layout;
  Restriction hand;
  const auto refusal = [&](int pipeline, int tensor, int data) {
    layout.pipeline = pipeline;
    layout.tensor = tensor;
    layout.data = data;
    hand.pools = {{{0, 1, 2, 3}, 8, {layout, std::nullopt, std::nullopt, std::nullopt}}};
    return std::string(Search(p, hand).status().message());
  };
  EXPECT_THAT(refusal(1, 4, 2), HasSubstr("actor: tp 4 does not divide the model's key heads (2)"));
  EXPECT_THAT(refusal(8, 1, 1), ::testing::Not(HasSubstr("does not divide")));
  p.roles[0].model.num_hidden_layers = 30;
  EXPECT_THAT(refusal(8, 1, 1), HasSubstr("actor: pp 8 does not divide the model's layers (30)"));
}

TEST(Search, SaysWhyOthersLost) {
  const Problem p = Ppo("llama-13b", 8);
  const auto result = Search(p);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(PartitionText(p, result->candidates[0].partition),
            "actor+critic+reference+reward_model");
  const Candidate& apart = result->candidates.back();
  EXPECT_FALSE(apart.plan.has_value());
  EXPECT_THAT(apart.why, HasSubstr("does not fit: needs"));
  const Candidate& slower = result->candidates[1];
  ASSERT_TRUE(slower.plan.has_value());
  EXPECT_THAT(slower.why, AllOf(HasSubstr("generation +"), HasSubstr("training -")));
}

TEST(Search, SaysHowMuchIsMissing) {
  const auto result = Search(Ppo("llama-70b", 8));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  // tp 8: 18 bytes a parameter of two models (68.98 and 68.71 billion) and 2 of the other two, by
  // 8: 344.2 GB; 2.97 GB to work (80 x 2048 x 8192 x 2, 2048 x 8192 x 13, 2048 x 32000); 72 are
  // usable.
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("nothing fits on 8 x a100-80g"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("devices are needed"));
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("on 8 they lack 275.2 GB a device"));
}

TEST(Search, RefusesInvalidProblems) {
  Problem p = Ppo("llama-7b", 0);
  EXPECT_THAT(std::string(Search(p).status().message()), HasSubstr("devices: 0 is not in"));
  p.devices = 8;
  p.roles[1].generates = true;
  EXPECT_THAT(std::string(Search(p).status().message()), HasSubstr("one role may generate"));
  p.roles[1].model.num_attention_heads = 0;
  EXPECT_THAT(std::string(Search(p).status().message()),
              HasSubstr("model of role critic: num_attention_heads: 0 is below 1"));
}

// HybridFlow's fig. 12: colocation wins on few devices, pools apart on many (docs/placement.md).
TEST(Search, ColocatesOnFewDevicesAndSplitsOnMany) {
  for (const int devices : {32, 64, 96, 128}) {
    const Problem p = Ppo("llama-34b", devices);
    const auto result = Search(p);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->best().pools.size(), devices <= 64 ? 1 : 2) << devices;
  }
}

TEST(PoolSizes, ArePowersOfTwoThenNodes) {
  EXPECT_THAT(PoolSizes(7, 8), ElementsAre(1, 2, 4));
  EXPECT_THAT(PoolSizes(40, 8), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40));
  EXPECT_THAT(PoolSizes(7, 3), ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(PoolSizes(40, 1).back(), 40);
  EXPECT_EQ(PoolSizes(1024, 8).size(), 3 + 16 + 8 + 8 + 8);
}

TEST(AllPartitions, CountsAreBellNumbers) {
  EXPECT_EQ(AllPartitions(1).size(), 1);
  EXPECT_EQ(AllPartitions(4).size(), 15);
  EXPECT_EQ(AllPartitions(5).size(), 52);
  EXPECT_THAT(AllPartitions(3).front(), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(AllPartitions(3).back(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(NamedPartition, KnowsColocateSplitAndStandalone) {
  const std::vector<Role> roles = Ppo("llama-7b", 1).roles;
  EXPECT_THAT(*NamedPartition("colocate", roles), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(*NamedPartition("split", roles), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_EQ(NamedPartition("standalone", roles)->size(), 4);
  EXPECT_EQ(NamedPartition("both", roles).status().code(), absl::StatusCode::kNotFound);
}

TEST(Search, StopsAtItsWorkLimit) {
  Problem problem = Ppo("llama-7b", 16);
  const auto free = Search(problem);
  ASSERT_TRUE(free.ok()) << free.status();
  ASSERT_GT(free->work, 1);
  problem.max_work = free->work;
  const auto just = Search(problem);
  ASSERT_TRUE(just.ok()) << just.status();
  EXPECT_EQ(just->best().seconds, free->best().seconds);
  EXPECT_EQ(just->work, free->work);
  for (const int64_t most : {int64_t{1}, free->work / 2, free->work - 1}) {
    problem.max_work = most;
    const absl::Status stopped = Search(problem).status();
    EXPECT_EQ(stopped.code(), absl::StatusCode::kOutOfRange) << stopped;
    EXPECT_THAT(
        std::string(stopped.message()),
        HasSubstr(absl::StrCat("4 roles on 16 devices need a longer search than is allowed (", most,
                               " comparisons)")));
  }
  // The search does not go on to say what is missing, either.
  Problem none = Ppo("llama-70b", 1);
  none.max_work = 1;
  EXPECT_EQ(Search(none).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(KeepUnbeaten, DropsWhatAnotherEqualsOrBeats) {
  using Pair = std::array<int, 2>;
  std::vector<Pair> items = {{3, 1}, {1, 3}, {2, 2}, {2, 3}, {1, 3}, {3, 3}};
  WorkBudget budget(0);
  KeepUnbeaten(
      &items, [](const Pair& p) { return p; }, &budget);
  EXPECT_THAT(items, ElementsAre(Pair{1, 3}, Pair{2, 2}, Pair{3, 1}));
}

}  // namespace
}  // namespace baton::placement
