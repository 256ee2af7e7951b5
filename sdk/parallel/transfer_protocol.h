// The transfer protocols of HybridFlow (arXiv 2409.19256, Table 3): how one input of a role's
// method becomes the inputs of its ranks, and the outputs of its ranks one output.
//
// Each protocol is a pair of pure functions, Distribute and Collect, over a layout. Inputs and
// outputs of ranks are vectors with one entry per rank. Where Distribute splits a batch, Collect
// gives it back in its order, whatever its size: collect(distribute(batch)) = batch. Where every
// rank gets the same, whatever is collected is that input again.
//
// They take rows of any type: ids, lengths or payloads, so that a controller which knows ids alone
// and a worker which has the bytes use the same functions. Collect answers InvalidArgument when
// there is not one output for each rank.
#ifndef BATON_SDK_PARALLEL_TRANSFER_PROTOCOL_H_
#define BATON_SDK_PARALLEL_TRANSFER_PROTOCOL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/parallel/rank_layout.h"

namespace baton {

enum class TransferProtocol {
  kOneToAll,        ///< ONE_TO_ALL
  k3d,              ///< 3D_PROTO
  k3dAllMicroDp,    ///< 3D_ALL_MICRO_DP
  k3dPipelineOnly,  ///< 3D_PP_ONLY
  kData,            ///< DP_PROTO
  kAllToAll,        ///< ALL_TO_ALL
};

/// By the paper's names, given above. InvalidArgument lists them.
absl::StatusOr<TransferProtocol> ParseTransferProtocol(absl::string_view name);
absl::string_view TransferProtocolName(TransferProtocol protocol);

template <typename T>
using PerRank = std::vector<T>;

namespace transfer_internal {

absl::Status CheckRanks(const RankLayout& layout, size_t outputs);

/// Part `index` of `parts` of `batch`: contiguous, sizes at most one apart.
template <typename T>
std::vector<T> Part(const std::vector<T>& batch, int index, int parts) {
  const int64_t size = static_cast<int64_t>(batch.size());
  return {batch.begin() + size * index / parts, batch.begin() + size * (index + 1) / parts};
}

template <typename T>
void Append(std::vector<T> rows, std::vector<T>& all) {
  for (T& row : rows) all.push_back(std::move(row));
}

/// The rank that answers for data rank `data`: last stage, tensor rank 0.
inline int AnswersFor(const RankLayout& layout, int data) {
  return layout.RankOf({data, layout.pipeline - 1, 0});
}

}  // namespace transfer_internal

/// ONE_TO_ALL: the same for every rank; every rank's answer.
struct OneToAll {
  template <typename T>
  static PerRank<T> Distribute(const RankLayout& layout, const T& input) {
    return PerRank<T>(layout.world_size(), input);
  }
  template <typename T>
  static absl::StatusOr<PerRank<T>> Collect(const RankLayout& layout, PerRank<T> outputs) {
    if (auto status = transfer_internal::CheckRanks(layout, outputs.size()); !status.ok()) {
      return status;
    }
    return outputs;
  }
};

/// 3D_PROTO: the batch is split among data ranks, whose stages and tensor ranks all get their
/// part; the last stage's tensor rank 0 answers.
struct ThreeD {
  template <typename T>
  static PerRank<std::vector<T>> Distribute(const RankLayout& layout, const std::vector<T>& batch) {
    PerRank<std::vector<T>> inputs;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      inputs.push_back(transfer_internal::Part(batch, layout.PlaceOf(rank).data, layout.data));
    }
    return inputs;
  }
  template <typename T>
  static absl::StatusOr<std::vector<T>> Collect(const RankLayout& layout,
                                                PerRank<std::vector<T>> outputs) {
    if (auto status = transfer_internal::CheckRanks(layout, outputs.size()); !status.ok()) {
      return status;
    }
    std::vector<T> batch;
    for (int d = 0; d < layout.data; ++d) {
      transfer_internal::Append(std::move(outputs[transfer_internal::AnswersFor(layout, d)]),
                                batch);
    }
    return batch;
  }
};

/// 3D_ALL_MICRO_DP: the batch is split among the generation replicas, whose ranks all get their
/// part; the last generation stage's tensor rank 0 answers.
struct ThreeDAllMicroDp {
  template <typename T>
  static PerRank<std::vector<T>> Distribute(const RankLayout& layout, const std::vector<T>& batch) {
    const int replicas = layout.data * layout.micro_data();
    PerRank<std::vector<T>> inputs;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      inputs.push_back(transfer_internal::Part(batch, layout.Replica(rank), replicas));
    }
    return inputs;
  }
  template <typename T>
  static absl::StatusOr<std::vector<T>> Collect(const RankLayout& layout,
                                                PerRank<std::vector<T>> outputs) {
    if (auto status = transfer_internal::CheckRanks(layout, outputs.size()); !status.ok()) {
      return status;
    }
    std::vector<std::vector<T>> parts(layout.data * layout.micro_data());
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const bool answers = layout.GenerationStage(rank) == layout.generation_pipeline - 1 &&
                           layout.GenerationTensorRank(rank) == 0;
      if (answers) parts[layout.Replica(rank)] = std::move(outputs[rank]);
    }
    std::vector<T> batch;
    for (std::vector<T>& part : parts) transfer_internal::Append(std::move(part), batch);
    return batch;
  }
};

/// 3D_PP_ONLY: the same for every rank; each stage answers with its data rank 0, tensor rank 0:
/// what is collected has one entry per stage.
struct ThreeDPipelineOnly {
  template <typename T>
  static PerRank<T> Distribute(const RankLayout& layout, const T& input) {
    return PerRank<T>(layout.world_size(), input);
  }
  template <typename T>
  static absl::StatusOr<std::vector<T>> Collect(const RankLayout& layout, PerRank<T> outputs) {
    if (auto status = transfer_internal::CheckRanks(layout, outputs.size()); !status.ok()) {
      return status;
    }
    std::vector<T> stages;
    for (int s = 0; s < layout.pipeline; ++s) {
      stages.push_back(std::move(outputs[layout.RankOf({0, s, 0})]));
    }
    return stages;
  }
};

/// DP_PROTO: every data rank gets equally many rows. The last rows of a batch that does not divide
/// are followed by its first ones again, whose answers are left out.
struct DataSplit {
  template <typename T>
  static PerRank<std::vector<T>> Distribute(const RankLayout& layout, const std::vector<T>& batch) {
    std::vector<T> padded = batch;
    const size_t parts = static_cast<size_t>(layout.data);
    while (padded.size() % parts != 0)
      padded.push_back(batch[(padded.size() - batch.size()) % batch.size()]);
    return ThreeD::Distribute(layout, padded);
  }
  /// `batch_size`: of the batch that was distributed.
  template <typename T>
  static absl::StatusOr<std::vector<T>> Collect(const RankLayout& layout,
                                                PerRank<std::vector<T>> outputs,
                                                size_t batch_size) {
    auto padded = ThreeD::Collect(layout, std::move(outputs));
    if (!padded.ok()) return padded;
    if (padded->size() < batch_size) {
      return absl::InvalidArgumentError(absl::StrCat("the ranks answered with ", padded->size(),
                                                     " rows for a batch of ", batch_size));
    }
    padded->erase(padded->begin() + static_cast<int64_t>(batch_size), padded->end());
    return padded;
  }
};

/// ALL_TO_ALL: each rank's input is given; every rank's answer.
struct AllToAll {
  template <typename T>
  static absl::StatusOr<PerRank<T>> Distribute(const RankLayout& layout, PerRank<T> inputs) {
    return OneToAll::Collect(layout, std::move(inputs));
  }
  template <typename T>
  static absl::StatusOr<PerRank<T>> Collect(const RankLayout& layout, PerRank<T> outputs) {
    return OneToAll::Collect(layout, std::move(outputs));
  }
};

}  // namespace baton

#endif  // BATON_SDK_PARALLEL_TRANSFER_PROTOCOL_H_
