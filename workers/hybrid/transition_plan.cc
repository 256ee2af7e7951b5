#include "workers/hybrid/transition_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::hybrid {
namespace {

using relay::Box;

int64_t Elements(const DividedTensor& tensor) { return Box::Full(tensor.shape).volume(); }

void Add(const DividedTensor& tensor, int64_t elements, DividedBytes& bytes) {
  (tensor.whole ? bytes.whole : bytes.divided) += elements * tensor.element_bytes;
}

absl::Status Check(const DividedModel& model, const RankLayout& layout) {
  BATON_RETURN_IF_ERROR(layout.Validate());
  for (const DividedTensor& tensor : model.tensors) {
    if (static_cast<int>(tensor.training.size()) != layout.tensor ||
        static_cast<int>(tensor.generation.size()) != layout.generation_tensor) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name, ": has boxes for ", tensor.training.size(), " and ",
                       tensor.generation.size(), " tensor ranks, the layout has ", layout.tensor,
                       " and ", layout.generation_tensor));
    }
    if (tensor.depth < 0 || tensor.depth >= model.depths) {
      return absl::InvalidArgumentError(absl::StrCat(tensor.name, ": depth ", tensor.depth,
                                                     " is not in [0, ", model.depths, ")"));
    }
  }
  return absl::OkStatus();
}

/// Whether two boxes of one rank have a common element.
bool Overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.rank(); ++d) {
    if (std::max(a.begin[d], b.begin[d]) >= std::min(a.end[d], b.end[d])) return false;
  }
  return true;
}

/// The division of tensors among ranks by a transition method.
class Method {
 public:
  Method(const DividedModel& model, const RankLayout& layout, TransitionMethod method)
      : model_(model), layout_(layout), method_(method) {}

  /// The ranks whose boxes `rank` uses: itself first, then the ranks that it receives from.
  std::vector<int> Sources(int rank) const {
    std::vector<int> ranks = {rank};
    if (method_ == TransitionMethod::kHybrid) {
      for (int other : MicroDataRanks(layout_, rank)) {
        if (other != rank) ranks.push_back(other);
      }
      return ranks;
    }
    for (int other = 0; other < layout_.world_size(); ++other) {
      const bool same_copy = layout_.PlaceOf(other).data == layout_.PlaceOf(rank).data;
      if (other != rank && (method_ == TransitionMethod::kGatherAll || same_copy)) {
        ranks.push_back(other);
      }
    }
    return ranks;
  }

  /// The box of a tensor that `rank` trains.
  std::optional<Box> Held(const DividedTensor& tensor, int rank) const {
    if (method_ == TransitionMethod::kGatherAll) {
      const int64_t elements = Elements(tensor), ranks = layout_.world_size();
      return Box{{elements * rank / ranks}, {elements * (rank + 1) / ranks}};
    }
    const RankLayout::Place place = layout_.PlaceOf(rank);
    if (model_.StageOf(tensor.depth, layout_.pipeline) != place.stage) return std::nullopt;
    return tensor.training[place.tensor];
  }

  /// The box of a tensor that `rank` gathers.
  std::optional<Box> Needed(const DividedTensor& tensor, int rank) const {
    if (method_ == TransitionMethod::kGatherAll) return Box{{0}, {Elements(tensor)}};
    if (method_ == TransitionMethod::kGatherTensor) return Box::Full(tensor.shape);
    if (model_.StageOf(tensor.depth, layout_.generation_pipeline) !=
        layout_.GenerationStage(rank)) {
      return std::nullopt;
    }
    return tensor.generation[layout_.GenerationTensorRank(rank)];
  }

 private:
  const DividedModel& model_;
  const RankLayout& layout_;
  const TransitionMethod method_;
};

/// Covers `needed` with boxes of the sources, in their order; boxes of other ranks are received.
absl::Status Gather(const DividedModel& model, const Method& method,
                    const std::vector<int>& sources, int index, const Box& needed,
                    RankTransition& transition) {
  const DividedTensor& tensor = model.tensors[index];
  std::vector<Box> missing;
  if (needed.volume() > 0) missing.push_back(needed);
  for (size_t s = 0; s < sources.size() && !missing.empty(); ++s) {
    const std::optional<Box> held = method.Held(tensor, sources[s]);
    if (!held) continue;
    for (size_t m = 0; m < missing.size();) {
      if (!Overlap(missing[m], *held)) {
        ++m;
        continue;
      }
      const Box common = *relay::Intersect(missing[m], *held);
      if (s > 0) {
        transition.receives.push_back({sources[s], index, common});
        Add(tensor, common.volume(), transition.received);
      }
      std::vector<Box> rest = relay::Subtract(missing[m], common);
      missing.erase(missing.begin() + static_cast<int64_t>(m));
      missing.insert(missing.end(), rest.begin(), rest.end());
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(tensor.name, ": rank ", sources[0], " needs ",
                                                    missing[0].ToString(),
                                                    ", which no rank of its group has"));
}

}  // namespace

int DividedModel::StageOf(int64_t depth, int stages) const {
  int stage = static_cast<int>(depth * stages / depths);
  while ((stage + 1) * depths / stages <= depth) ++stage;  // Bounds of stages are rounded down.
  return stage;
}

absl::StatusOr<RankTransition> PlanRankTransition(const DividedModel& model,
                                                  const RankLayout& layout, TransitionMethod method,
                                                  int rank) {
  BATON_RETURN_IF_ERROR(Check(model, layout));
  if (rank < 0 || rank >= layout.world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " is not one of the layout's ", layout.world_size()));
  }
  const Method boxes(model, layout, method);
  const std::vector<int> sources = boxes.Sources(rank);
  RankTransition transition;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const DividedTensor& tensor = model.tensors[i];
    const std::optional<Box> held = boxes.Held(tensor, rank);
    const std::optional<Box> needed = boxes.Needed(tensor, rank);
    if (held) {
      std::vector<Box> beside = {*held};
      if (method == TransitionMethod::kHybrid && needed) beside = relay::Subtract(*held, *needed);
      for (const Box& box : beside) Add(tensor, box.volume(), transition.redundant);
    }
    if (!needed) continue;
    Add(tensor, needed->volume(), transition.peak);
    BATON_RETURN_IF_ERROR(Gather(model, boxes, sources, static_cast<int>(i), *needed, transition));
  }
  return transition;
}

DividedBytes ModelBytes(const DividedModel& model) {
  DividedBytes bytes;
  for (const DividedTensor& tensor : model.tensors) Add(tensor, Elements(tensor), bytes);
  return bytes;
}

}  // namespace baton::hybrid
