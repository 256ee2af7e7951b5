#include "sdk/common/parallel/transition.h"

#include "absl/strings/str_cat.h"

namespace baton {

absl::string_view TransitionMethodName(TransitionMethod method) {
  switch (method) {
    case TransitionMethod::kGatherAll:
      return "gather_all";
    case TransitionMethod::kGatherTensor:
      return "gather_tp";
    case TransitionMethod::kHybrid:
      return "hybrid";
  }
  return "";
}

std::vector<int> MicroDataRanks(const RankLayout& layout, int rank) {
  std::vector<int> ranks;
  for (int other = 0; other < layout.world_size(); ++other) {
    if (layout.PlaceOf(other).data == layout.PlaceOf(rank).data &&
        layout.GenerationStage(other) == layout.GenerationStage(rank) &&
        layout.GenerationTensorRank(other) == layout.GenerationTensorRank(rank)) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

std::vector<int> GenerationTensorRanks(const RankLayout& layout, int rank) {
  std::vector<int> ranks;
  for (int other = 0; other < layout.world_size(); ++other) {
    if (layout.Replica(other) == layout.Replica(rank) &&
        layout.GenerationStage(other) == layout.GenerationStage(rank)) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

std::string LayoutName(const RankLayout& layout) {
  return absl::StrCat(layout.pipeline, "-", layout.tensor, "-", layout.data, "_",
                      layout.generation_pipeline, "-", layout.generation_tensor, "-",
                      layout.micro_data(), "-", layout.data);
}

}  // namespace baton
