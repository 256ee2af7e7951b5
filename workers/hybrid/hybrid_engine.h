// The 3D hybrid engine (HybridFlow, arXiv 2409.19256 §5): one group of ranks trains a policy and
// generates with it, in turn, under different tensor-parallel sizes.
//
// Training divides the model among t ranks, generation among t_g, which divides t. Rank r of a
// training group is in the micro-DP group of the t / t_g consecutive ranks that together have the
// slice of generation rank r / (t / t_g). To generate, each gathers its neighbours' slices within
// that group, around its own: the generation model uses the trained parameters where they lie
// (CausalLM::Gather), so no parameter is held twice, and (t / t_g - 1) / t of the model are
// received. To train again, the neighbours' slices and the KV cache are given back.
//
//   groups = JoinHybridGroups(rank_groups, layout)
//   engine = HybridEngine::Create(model, layout, rank, groups, options)
//   each step:  engine->ToGeneration(); engine->Generate(requests); engine->ToTraining();
//               trainer->Update(batch)           // batch from the responses of all replicas
//
// The planner and the formulas know pipeline stages; this engine runs one.
#ifndef BATON_WORKERS_HYBRID_HYBRID_ENGINE_H_
#define BATON_WORKERS_HYBRID_HYBRID_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "sdk/parallel/rank_layout.h"
#include "workers/engine/generator.h"
#include "workers/engine/model.h"
#include "workers/hybrid/replica.h"
#include "workers/hybrid/transition_plan.h"
#include "workers/parallel/rank_groups.h"

namespace baton::hybrid {

/// What a rank generates with, beside the groups it trains with. Null: a group of 1.
struct HybridGroups {
  std::unique_ptr<engine::Communicator> micro_data;
  std::unique_ptr<engine::Communicator> generation_tensor;
  /// The ranks of generation_tensor once more, where the first of them leads (replica.h). Null:
  /// each rank is told of every request.
  std::unique_ptr<engine::Communicator> control;
};

/// InvalidArgument unless `layout` is valid and has one stage.
[[nodiscard]] absl::Status CheckOneStage(const RankLayout& layout);

/// All ranks of `groups` call this; in builds with Gloo. `layout`: of tp = t and dp = d ranks.
/// InvalidArgument if it is not, or has pipeline stages; else as RankGroups::NewGroup.
absl::StatusOr<HybridGroups> JoinHybridGroups(parallel::RankGroups& groups,
                                              const RankLayout& layout);
/// The same, with `control`.
absl::StatusOr<HybridGroups> JoinLedHybridGroups(parallel::RankGroups& groups,
                                                 const RankLayout& layout);

struct HybridOptions {
  engine::GeneratorOptions generator;
  engine::DecodeFunction decode;                 ///< Empty: requests may have no stop strings.
  absl::Duration keep_alive = absl::Seconds(2);  ///< ReplicaLeader.
};

/// Bytes that are held now, by the memory that parameters really share.
struct HybridMemory {
  int64_t training_bytes = 0;    ///< The trained slice.
  int64_t generation_bytes = 0;  ///< Parameters of the generation model; 0 while training.
  int64_t redundant_bytes = 0;   ///< Of the trained slice, outside the generation model: 0.
  int64_t kv_cache_bytes = 0;

  int64_t parameter_bytes() const {
    return generation_bytes > 0 ? generation_bytes + redundant_bytes : training_bytes;
  }
};

struct HybridResponse {
  uint64_t id = 0;  ///< The request's.
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;  ///< One per token, under the full softmax.
  std::string finish_reason;
  absl::Status error;  ///< As GenerateUpdate's.
};

/// One thread at a time. All ranks of a layout make the same calls. An error of a collective
/// (Unavailable, DeadlineExceeded) leaves the group unusable: the process ends.
class HybridEngine {
 public:
  /// In training. `model`: the trained one, with the tensor group of t ranks; `rank`: of the
  /// layout. Model and groups outlive this. InvalidArgument: a layout that does not fit them.
  static absl::StatusOr<std::unique_ptr<HybridEngine>> Create(engine::CausalLM* model,
                                                              const RankLayout& layout, int rank,
                                                              HybridGroups groups,
                                                              HybridOptions options);

  /// Gathers the generation model and reserves the KV cache. FailedPrecondition: generating
  /// already. ResourceExhausted: no memory on this rank, which then trains as before; neighbours
  /// that wait for its slice do so until their timeout.
  [[nodiscard]] absl::Status ToGeneration();

  /// Gives back what ToGeneration took. FailedPrecondition: training already, or requests are live.
  /// Where ranks are led, they wait here for their leader to call this.
  [[nodiscard]] absl::Status ToTraining();

  bool generating() const { return generator_ != nullptr; }

  /// FailedPrecondition: weights were changed since ToGeneration, unknown to the neighbours.
  [[nodiscard]] absl::Status CheckUnchanged() const;

  /// Runs this rank's part of `batch`, by 3D_ALL_MICRO_DP, to its end; in the batch's order.
  /// Every rank passes the whole batch, and ThreeDAllMicroDp::Collect of their answers has all
  /// responses in its order. InvalidArgument names the request that cannot run: then none did.
  /// FailedPrecondition: in training, or as CheckUnchanged.
  absl::StatusOr<std::vector<HybridResponse>> Generate(
      const std::vector<engine::GenerateRequest>& batch);

  /// Null while training. For callers that feed requests themselves: all ranks of a generation
  /// tensor group must add the same ones and step alike. Where they are led, only the leader's is
  /// to be touched.
  engine::Generator* generator() const { return generator_.get(); }
  bool follows() const { return follower_ != nullptr; }
  const engine::CausalLM* generation_model() const { return generation_.get(); }

  /// Of this rank: what ToGeneration receives, holds at its peak, and holds twice.
  const RankTransition& plan() const { return plan_; }
  HybridMemory memory() const;

 private:
  HybridEngine(engine::CausalLM* model, const RankLayout& layout, int rank, HybridGroups groups,
               HybridOptions options, RankTransition plan);

  engine::CausalLM* const model_;
  const RankLayout layout_;
  const int rank_;
  const HybridGroups groups_;
  const HybridOptions options_;
  const RankTransition plan_;
  std::unique_ptr<engine::CausalLM> generation_;
  std::unique_ptr<engine::Generator> generator_;
  std::unique_ptr<ReplicaLeader> leader_;  ///< These two end before what they use.
  std::unique_ptr<ReplicaFollower> follower_;
  std::vector<int64_t> versions_;  ///< libtorch's, of the trained parameters as gathered.
};

/// The tensors of a model as `layout` divides them. A layer is one place of the pipeline; the
/// embedding goes with the first, the last norm and the head with the last.
DividedModel DivideModel(const engine::CausalLM& model, const RankLayout& layout);

/// Bytes of the memory that these tensors keep alive, each counted once.
int64_t StorageBytes(absl::Span<const torch::Tensor> tensors);

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_HYBRID_ENGINE_H_
