#include "sdk/parallel/transfer_protocol.h"

namespace baton {
namespace {

struct Named {
  TransferProtocol protocol;
  absl::string_view name;
};

constexpr Named kNames[] = {
    {TransferProtocol::kOneToAll, "ONE_TO_ALL"},
    {TransferProtocol::k3d, "3D_PROTO"},
    {TransferProtocol::k3dAllMicroDp, "3D_ALL_MICRO_DP"},
    {TransferProtocol::k3dPipelineOnly, "3D_PP_ONLY"},
    {TransferProtocol::kData, "DP_PROTO"},
    {TransferProtocol::kAllToAll, "ALL_TO_ALL"},
};

}  // namespace

absl::StatusOr<TransferProtocol> ParseTransferProtocol(absl::string_view name) {
  for (const Named& named : kNames) {
    if (named.name == name) return named.protocol;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("transfer protocol \"", name,
                   "\" is not ONE_TO_ALL, 3D_PROTO, 3D_ALL_MICRO_DP, 3D_PP_ONLY, DP_PROTO or "
                   "ALL_TO_ALL"));
}

absl::string_view TransferProtocolName(TransferProtocol protocol) {
  for (const Named& named : kNames) {
    if (named.protocol == protocol) return named.name;
  }
  return "";
}

namespace transfer_internal {

absl::Status CheckRanks(const RankLayout& layout, size_t outputs) {
  if (static_cast<int64_t>(outputs) == layout.world_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(outputs, " ranks' parts for a layout of ", layout.world_size(), " ranks"));
}

}  // namespace transfer_internal

}  // namespace baton
