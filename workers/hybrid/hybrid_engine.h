// The 3D hybrid engine (HybridFlow, arXiv 2409.19256 §5): one group of ranks trains a policy and
// generates with it, in turn, under different tensor-parallel sizes.
//
// Training divides the model among t ranks; generation divides it among t_g ranks, and t_g divides
// t. The micro-DP group of a rank r is the t / t_g consecutive ranks of its training group that
// together hold the slice of generation rank r / (t / t_g). To generate, each rank gathers the
// slices of the other ranks of its micro-DP group. The generation model uses the trained parameters
// in place (CausalLM::Gather), so no parameter is held twice, and a rank receives (t / t_g - 1) / t
// of the model. To train again, the rank frees the received slices and the KV cache.
//
//   groups = JoinHybridGroups(rank_groups, layout)
//   engine = HybridEngine::Create(model, layout, rank, groups, options)
//   each step:  engine->ToGeneration(); engine->Generate(requests); engine->ToTraining();
//               trainer->Update(batch)           // batch from the responses of all replicas
//
// The planner and the formulas support pipeline stages; this engine runs one stage.
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
#include "sdk/common/parallel/rank_layout.h"
#include "workers/engine/generation/generator.h"
#include "workers/engine/model/model.h"
#include "workers/hybrid/replica.h"
#include "workers/hybrid/transition_plan.h"
#include "workers/parallel/rank_groups.h"

namespace baton::hybrid {

/// The groups of a rank for generation, in addition to its training groups. Null: a group of 1.
struct HybridGroups {
  std::unique_ptr<engine::Communicator> micro_data;
  std::unique_ptr<engine::Communicator> generation_tensor;
  /// The ranks of generation_tensor again, for the leader's announcements (replica.h). Null: there
  /// is no leader, and the caller gives every request to each rank.
  std::unique_ptr<engine::Communicator> control;
};

/// InvalidArgument unless `layout` is valid and has one stage.
[[nodiscard]] absl::Status CheckOneStage(const RankLayout& layout);

/// All ranks of `groups` call this together, in builds with Gloo. `layout` has tp = t and dp = d
/// ranks. InvalidArgument if it has not, or has pipeline stages; other errors as
/// RankGroups::NewGroup.
absl::StatusOr<HybridGroups> JoinHybridGroups(parallel::RankGroups& groups,
                                              const RankLayout& layout);
/// The same, with the group `control`.
absl::StatusOr<HybridGroups> JoinLedHybridGroups(parallel::RankGroups& groups,
                                                 const RankLayout& layout);

struct HybridOptions {
  engine::GeneratorOptions generator;
  engine::DecodeFunction decode;  ///< Empty: requests may have no stop strings.
  /// Interval of the leader's heartbeats (ReplicaLeader).
  absl::Duration keep_alive = absl::Seconds(2);
};

/// Bytes that are held now. Parameters that share memory are counted once.
struct HybridMemory {
  int64_t training_bytes = 0;    ///< The trained slice.
  int64_t generation_bytes = 0;  ///< Parameters of the generation model; 0 while training.
  /// Bytes of the trained slice that the generation model does not use: 0.
  int64_t redundant_bytes = 0;
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

/// Used by one thread at a time. All ranks of a layout make the same calls. After an error of a
/// collective (Unavailable, DeadlineExceeded) the group is unusable, and the process must end.
class HybridEngine {
 public:
  /// Begins in training. `model` is the trained model, with the tensor group of t ranks; `rank` is
  /// the rank within the layout. Model and groups outlive this. InvalidArgument: the layout does
  /// not fit them.
  static absl::StatusOr<std::unique_ptr<HybridEngine>> Create(engine::CausalLM* model,
                                                              const RankLayout& layout, int rank,
                                                              HybridGroups groups,
                                                              HybridOptions options);

  /// Gathers the generation model and reserves the KV cache. FailedPrecondition: it generates
  /// already. ResourceExhausted: this rank has too little memory, and goes on training as before;
  /// ranks of its micro-DP group that wait for its slice wait until their timeout.
  [[nodiscard]] absl::Status ToGeneration();

  /// Frees what ToGeneration took. FailedPrecondition: it trains already, or requests are live. A
  /// follower waits here until its leader calls this.
  [[nodiscard]] absl::Status ToTraining();

  bool generating() const { return generator_ != nullptr; }

  /// FailedPrecondition: the weights changed since ToGeneration, so the copies on other ranks are
  /// stale.
  [[nodiscard]] absl::Status CheckUnchanged() const;

  /// Runs the part of `batch` of this rank's replica to its end; the responses are in the batch's
  /// order. Every rank passes the whole batch. Replica r of n has the rows from size * r / n on, so
  /// the answers of one rank of each replica, in the replicas' order, are those of the whole batch.
  /// InvalidArgument names a request that cannot run; then no request ran. FailedPrecondition: in
  /// training, or as CheckUnchanged.
  absl::StatusOr<std::vector<HybridResponse>> Generate(
      const std::vector<engine::GenerateRequest>& batch);

  /// Null while training. For callers that add requests themselves: all ranks of a generation
  /// tensor group must add the same requests and make the same steps. With a leader, use only the
  /// leader's generator.
  engine::Generator* generator() const { return generator_.get(); }
  bool follows() const { return follower_ != nullptr; }
  const engine::CausalLM* generation_model() const { return generation_.get(); }

  /// The plan of this rank: what ToGeneration receives, holds at its peak, and holds twice.
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
  /// leader_ and follower_ are destroyed before what they use.
  std::unique_ptr<ReplicaLeader> leader_;
  std::unique_ptr<ReplicaFollower> follower_;
  /// libtorch's version counters of the trained parameters when they were gathered.
  std::vector<int64_t> versions_;
};

/// The tensors of a model as `layout` divides them. Each layer has one depth of the pipeline. The
/// embedding has the depth of the first layer; the last norm and the head have that of the last.
DividedModel DivideModel(const engine::CausalLM& model, const RankLayout& layout);

/// Bytes of the memory that these tensors keep alive, each counted once.
int64_t StorageBytes(absl::Span<const torch::Tensor> tensors);

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_HYBRID_ENGINE_H_
