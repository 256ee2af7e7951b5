#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/parallel/transition.h"
#include "workers/hybrid/hybrid_engine.h"

namespace baton::hybrid {

absl::StatusOr<HybridGroups> JoinHybridGroups(parallel::RankGroups& groups,
                                              const RankLayout& layout) {
  BATON_RETURN_IF_ERROR(CheckOneStage(layout));
  const parallel::GroupAddress& address = groups.address();
  if (address.tp != layout.tensor || address.dp != layout.data) {
    return absl::InvalidArgumentError(absl::StrCat("layout ", LayoutName(layout), ": the ranks are",
                                                   " tp ", address.tp, " x dp ", address.dp));
  }
  HybridGroups joined;
  const std::vector<int> micro = MicroDataRanks(layout, address.rank);
  const std::vector<int> tensor = GenerationTensorRanks(layout, address.rank);
  // The first rank gives a group its name.
  if (micro.size() > 1) {
    BATON_ASSIGN_OR_RETURN(
        joined.micro_data,
        groups.NewGroup(absl::StrCat("micro-DP ", LayoutName(layout), " ", micro[0]), micro));
  }
  if (tensor.size() > 1) {
    BATON_ASSIGN_OR_RETURN(
        joined.generation_tensor,
        groups.NewGroup(absl::StrCat("generation ", LayoutName(layout), " ", tensor[0]), tensor));
  }
  return joined;
}

absl::StatusOr<HybridGroups> JoinLedHybridGroups(parallel::RankGroups& groups,
                                                 const RankLayout& layout) {
  BATON_ASSIGN_OR_RETURN(HybridGroups joined, JoinHybridGroups(groups, layout));
  const std::vector<int> tensor = GenerationTensorRanks(layout, groups.address().rank);
  if (tensor.size() > 1) {
    BATON_ASSIGN_OR_RETURN(
        joined.control,
        groups.NewGroup(absl::StrCat("control ", LayoutName(layout), " ", tensor[0]), tensor));
  }
  return joined;
}

}  // namespace baton::hybrid
