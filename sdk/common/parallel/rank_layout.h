// The arrangement of the ranks of a role: pipeline x tensor x data parallel for training, and, with
// the 3D hybrid engine (HybridFlow, arXiv 2409.19256 §5), smaller pipeline and tensor sizes for
// generation on the same ranks.
#ifndef BATON_SDK_COMMON_PARALLEL_RANK_LAYOUT_H_
#define BATON_SDK_COMMON_PARALLEL_RANK_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {

/// A plain value. rank = (data * pipeline + stage) * tensor + tensor rank: one copy of the model
/// is consecutive ranks, and so is a tensor group.
///
/// Generation: stage s and tensor rank r of training hold generation stage s / (p / p_g) and
/// tensor rank r / (t / t_g). The p t / (p_g t_g) = d_g ranks with the same of both are a micro-DP
/// group: together they have the parameters of one generation shard. A generation replica is one
/// rank of each micro-DP group, the same one of each.
struct RankLayout {
  int pipeline = 1;             ///< p
  int tensor = 1;               ///< t
  int data = 1;                 ///< d
  int generation_pipeline = 1;  ///< p_g; divides p.
  int generation_tensor = 1;    ///< t_g; divides t.

  struct Place {
    int data = 0, stage = 0, tensor = 0;
  };

  int world_size() const { return pipeline * tensor * data; }
  /// Generation replicas that one copy of the model makes, d_g.
  int micro_data() const { return pipeline * tensor / (generation_pipeline * generation_tensor); }
  Place PlaceOf(int rank) const {
    return {rank / (pipeline * tensor), rank / tensor % pipeline, rank % tensor};
  }
  int GenerationStage(int rank) const {
    return PlaceOf(rank).stage / (pipeline / generation_pipeline);
  }
  int GenerationTensorRank(int rank) const {
    return PlaceOf(rank).tensor / (tensor / generation_tensor);
  }
  /// Place within the micro-DP group, which is also the generation replica within the copy.
  int MicroDataRank(int rank) const {
    const int stages = pipeline / generation_pipeline, slices = tensor / generation_tensor;
    const Place place = PlaceOf(rank);
    return place.stage % stages * slices + place.tensor % slices;
  }
  /// Generation replica in [0, d d_g).
  int Replica(int rank) const { return PlaceOf(rank).data * micro_data() + MicroDataRank(rank); }

  /// InvalidArgument naming every size that is below 1 or does not divide.
  [[nodiscard]] absl::Status Validate() const {
    std::vector<std::string> faults;
    const auto check = [&](const char* name, int size, int of, const char* of_name) {
      if (size < 1) faults.push_back(absl::StrCat(name, ": ", size, " is below 1"));
      if (size >= 1 && of >= 1 && of % size != 0) {
        faults.push_back(
            absl::StrCat(name, ": ", size, " does not divide ", of_name, " (", of, ")"));
      }
    };
    check("pipeline", pipeline, 0, "");
    check("tensor", tensor, 0, "");
    check("data", data, 0, "");
    check("generation_pipeline", generation_pipeline, pipeline, "pipeline");
    check("generation_tensor", generation_tensor, tensor, "tensor");
    if (faults.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  }
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_PARALLEL_RANK_LAYOUT_H_
