#include "workers/hybrid/transition_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/sdk/transition.h"

namespace baton::hybrid {
namespace {

using relay::Box;
using ::testing::HasSubstr;

/// [r n / size, (r + 1) n / size) of dimension `cut`; all of it for -1.
std::vector<Box> Slices(const std::vector<int64_t>& shape, int cut, int size) {
  std::vector<Box> slices(size, Box::Full(shape));
  for (int r = 0; r < size && cut >= 0; ++r) {
    slices[r].begin[cut] = shape[cut] * r / size;
    slices[r].end[cut] = shape[cut] * (r + 1) / size;
  }
  return slices;
}

DividedTensor Tensor(const RankLayout& layout, std::vector<int64_t> shape, int cut, int64_t depth) {
  DividedTensor tensor;
  tensor.name = absl::StrCat("tensor of depth ", depth);
  tensor.shape = shape;
  tensor.depth = depth;
  tensor.whole = cut < 0;
  tensor.training = Slices(shape, cut, layout.tensor);
  tensor.generation = Slices(shape, cut, layout.generation_tensor);
  return tensor;
}

/// A model that divides evenly: one depth for each stage, rows and columns of as many as ranks.
DividedModel EvenModel(const RankLayout& layout) {
  const int64_t n = layout.world_size();
  DividedModel model;
  model.depths = layout.pipeline;
  for (int64_t depth = 0; depth < model.depths; ++depth) {
    model.tensors.push_back(Tensor(layout, {n, 3}, 0, depth));
    model.tensors.push_back(Tensor(layout, {2, n}, 1, depth));
    model.tensors.push_back(Tensor(layout, {n}, -1, depth));
  }
  return model;
}

/// Sizes that no number of ranks divides, five depths.
DividedModel UnevenModel(const RankLayout& layout) {
  DividedModel model;
  model.depths = 5;
  for (int64_t depth = 0; depth < model.depths; ++depth) {
    model.tensors.push_back(Tensor(layout, {67, 2}, 0, depth));
    model.tensors.push_back(Tensor(layout, {3, 71}, 1, depth));
    model.tensors.push_back(Tensor(layout, {3}, -1, depth));
  }
  return model;
}

/// Every layout of `ranks` ranks with every generation layout.
std::vector<RankLayout> LayoutsOf(int ranks) {
  std::vector<RankLayout> layouts;
  for (int p = 1; p <= ranks; ++p) {
    for (int t = 1; p * t <= ranks; ++t) {
      if (ranks % (p * t) != 0) continue;
      for (int p_g = 1; p_g <= p; ++p_g) {
        for (int t_g = 1; t_g <= t; ++t_g) {
          if (p % p_g == 0 && t % t_g == 0) layouts.push_back({p, t, ranks / (p * t), p_g, t_g});
        }
      }
    }
  }
  return layouts;
}

std::vector<RankTransition> Plan(const DividedModel& model, const RankLayout& layout,
                                 TransitionMethod method) {
  std::vector<RankTransition> all(layout.world_size());
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    auto plan = PlanRankTransition(model, layout, method, rank);
    EXPECT_TRUE(plan.ok()) << LayoutName(layout) << " rank " << rank << ": " << plan.status();
    if (plan.ok()) all[rank] = *std::move(plan);
  }
  return all;
}

/// All of few ranks; of many the first, the last and some between, of several copies and stages.
std::vector<int> RanksToCheck(int ranks) {
  std::set<int> chosen = {0, ranks / 3, ranks / 2, 2 * ranks / 3, ranks - 1};
  for (int rank = 0; ranks <= 12 && rank < ranks; ++rank) chosen.insert(rank);
  return {chosen.begin(), chosen.end()};
}

// Exact to the byte for every layout of 1 to 64 ranks.
TEST(TransitionPlanTest, BytesAreThoseOfTheFormula) {
  int layouts = 0;
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const RankLayout& layout : LayoutsOf(ranks)) {
      ++layouts;
      const DividedModel model = EvenModel(layout);
      const int64_t bytes = ModelBytes(model).divided;
      ASSERT_EQ(bytes, int64_t{4} * 5 * ranks * layout.pipeline);
      for (TransitionMethod method : kTransitionMethods) {
        // The others do not depend on the generation layout.
        if (method != TransitionMethod::kHybrid && layout.micro_data() > 1) continue;
        const TransitionFractions formula = TransitionFormula(layout, method);
        for (const int rank : RanksToCheck(ranks)) {
          const auto plan = PlanRankTransition(model, layout, method, rank);
          ASSERT_TRUE(plan.ok()) << plan.status();
          const auto whole = static_cast<double>(bytes);
          ASSERT_DOUBLE_EQ(static_cast<double>(plan->received.divided), formula.received * whole)
              << LayoutName(layout) << " " << TransitionMethodName(method) << " rank " << rank;
          ASSERT_DOUBLE_EQ(static_cast<double>(plan->peak.divided), formula.peak * whole);
          ASSERT_DOUBLE_EQ(static_cast<double>(plan->redundant.divided), formula.redundant * whole);
        }
      }
    }
  }
  EXPECT_GT(layouts, 2000);
}

/// A rank's parts of each tensor after the transition cover the box that it needs, exactly, and no
/// element is received twice.
void ExpectFilled(const DividedModel& model, int rank, const std::vector<Box>& held,
                  const std::vector<Box>& needed, const RankTransition& transition) {
  std::vector<std::vector<Box>> parts(model.tensors.size());
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (held[i].rank() > 0) parts[i].push_back(held[i]);
  }
  for (const Receive& receive : transition.receives) {
    ASSERT_NE(receive.from, rank);
    parts[receive.tensor].push_back(receive.box);
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (needed[i].rank() == 0) {
      EXPECT_LE(parts[i].size(), 1U) << "received and not needed";
      continue;
    }
    int64_t elements = 0;
    std::vector<Box> missing;
    if (needed[i].volume() > 0) missing.push_back(needed[i]);
    for (const Box& box : parts[i]) {
      std::vector<Box> rest;
      for (const Box& part : missing) {
        for (Box& left : relay::Subtract(part, box)) rest.push_back(std::move(left));
      }
      missing = std::move(rest);
      const auto inside = relay::Intersect(box, needed[i]);
      elements += inside ? inside->volume() : 0;
    }
    EXPECT_EQ(elements, needed[i].volume()) << model.tensors[i].name << ": an element twice";
    EXPECT_TRUE(missing.empty()) << model.tensors[i].name << " lacks " << missing[0].ToString();
  }
}

// Box by box: a training shard lies in the rank's generation shard, and with what is received it
// is that shard, each element once. Sizes divide by nothing.
TEST(TransitionPlanTest, HybridFillsTheGenerationShardAroundTheTrainingShard) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const RankLayout& layout : LayoutsOf(ranks)) {
      const DividedModel model = UnevenModel(layout);
      for (const int rank : RanksToCheck(ranks)) {
        const auto plan = PlanRankTransition(model, layout, TransitionMethod::kHybrid, rank);
        ASSERT_TRUE(plan.ok()) << plan.status();
        const RankLayout::Place place = layout.PlaceOf(rank);
        std::vector<Box> held(model.tensors.size()), needed(model.tensors.size());
        for (size_t i = 0; i < model.tensors.size(); ++i) {
          const DividedTensor& tensor = model.tensors[i];
          const auto in = [&](int stage, int stages) {
            return tensor.depth >= stage * model.depths / stages &&
                   tensor.depth < (stage + 1) * model.depths / stages;
          };
          if (in(place.stage, layout.pipeline)) held[i] = tensor.training[place.tensor];
          if (in(layout.GenerationStage(rank), layout.generation_pipeline)) {
            needed[i] = tensor.generation[layout.GenerationTensorRank(rank)];
          }
          ASSERT_TRUE(held[i].rank() == 0 || needed[i].Contains(held[i]))
              << LayoutName(layout) << " rank " << rank << " " << tensor.name;
        }
        ASSERT_EQ(plan->redundant.divided, 0);
        ASSERT_EQ(plan->redundant.whole, 0);
        ExpectFilled(model, rank, held, needed, *plan);
        ASSERT_FALSE(HasFailure()) << LayoutName(layout) << " rank " << rank;
      }
    }
  }
}

// Senders hold what they send; gathered whole, nothing is missing.
TEST(TransitionPlanTest, WholeModelsAreGatheredOnce) {
  for (const RankLayout& layout :
       {RankLayout{1, 4, 2, 1, 2}, RankLayout{2, 3, 2, 1, 1}, RankLayout{5, 1, 1, 1, 1}}) {
    const DividedModel model = UnevenModel(layout);
    const auto all = Plan(model, layout, TransitionMethod::kGatherAll);
    const auto copy = Plan(model, layout, TransitionMethod::kGatherTensor);
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      std::vector<Box> flat_held, flat, held, whole;
      for (const DividedTensor& tensor : model.tensors) {
        const int64_t n = Box::Full(tensor.shape).volume();
        flat_held.push_back(
            {{n * rank / layout.world_size()}, {n * (rank + 1) / layout.world_size()}});
        flat.push_back({{0}, {n}});
        const bool mine =
            model.StageOf(tensor.depth, layout.pipeline) == layout.PlaceOf(rank).stage;
        held.push_back(mine ? tensor.training[layout.PlaceOf(rank).tensor] : Box{});
        whole.push_back(Box::Full(tensor.shape));
      }
      ExpectFilled(model, rank, flat_held, flat, all[rank]);
      ExpectFilled(model, rank, held, whole, copy[rank]);
      for (const Receive& receive : copy[rank].receives) {
        const RankLayout::Place from = layout.PlaceOf(receive.from);
        EXPECT_EQ(from.data, layout.PlaceOf(rank).data);
        EXPECT_TRUE(model.tensors[receive.tensor].training[from.tensor].Contains(receive.box));
      }
    }
  }
}

// 1-4-1 to 1-2: rank 1 trains rows 2 and 3 of 8, generates with rows 0 to 3, and lacks rank 0's.
TEST(TransitionPlanTest, ASmallCaseByHand) {
  const RankLayout layout{1, 4, 1, 1, 2};
  DividedModel model;
  model.tensors = {Tensor(layout, {8, 5}, 0, 0), Tensor(layout, {5}, -1, 0)};
  const auto plan = Plan(model, layout, TransitionMethod::kHybrid);
  ASSERT_EQ(plan[1].receives.size(), 1U);
  EXPECT_EQ(plan[1].receives[0].from, 0);
  EXPECT_EQ(plan[1].receives[0].box, (Box{{0, 0}, {2, 5}}));
  EXPECT_EQ(plan[1].received.divided, 2 * 5 * 4);
  EXPECT_EQ(plan[1].peak.divided, 4 * 5 * 4);
  EXPECT_EQ(plan[1].received.whole, 0);
  EXPECT_EQ(plan[1].peak.whole, 5 * 4);
  // All whole tensors too are divided among ranks under gather_all.
  EXPECT_EQ(Plan(model, layout, TransitionMethod::kGatherAll)[3].received.whole, 3 * 4);
}

TEST(TransitionPlanTest, FaultsAreNamed) {
  const RankLayout layout{1, 4, 1, 1, 2};
  DividedModel model;
  model.tensors = {Tensor(layout, {8, 5}, 0, 0)};
  EXPECT_EQ(PlanRankTransition(model, layout, TransitionMethod::kHybrid, 4).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto fault = [&](const RankLayout& l) {
    return std::string(
        PlanRankTransition(model, l, TransitionMethod::kHybrid, 0).status().message());
  };
  EXPECT_THAT(fault({1, 4, 1, 1, 3}), HasSubstr("generation_tensor: 3 does not divide tensor (4)"));
  EXPECT_THAT(fault({1, 2, 1, 1, 1}), HasSubstr("has boxes for 4 and 2 tensor ranks"));
  model.tensors[0].training[1] = model.tensors[0].training[0];
  EXPECT_THAT(fault(layout), HasSubstr("rank 0 needs [2:4, 0:5], which no rank of its group has"));
  model.tensors[0].depth = 1;
  EXPECT_THAT(fault(layout), HasSubstr("depth 1 is not in [0, 1)"));
}

}  // namespace
}  // namespace baton::hybrid
