#include "workers/hybrid/hybrid_engine.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/parallel/transition.h"

namespace baton::hybrid {
namespace {

using engine::CausalLM;
using engine::Communicator;
using torch::Tensor;

int SizeOf(const Communicator* group) { return group == nullptr ? 1 : group->size(); }

absl::Status CheckGroup(const char* name, const Communicator* group, size_t size, int rank) {
  const int have_rank = group == nullptr ? 0 : group->rank();
  if (SizeOf(group) == static_cast<int>(size) && have_rank == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", name, " group has this process as rank ",
                                                 have_rank, " of ", SizeOf(group),
                                                 "; the layout says ", rank, " of ", size));
}

/// "model.layers.12.mlp…" -> 12; the embedding -> 0; the last norm and the head -> the last layer.
int64_t DepthOf(absl::string_view name, int64_t layers) {
  constexpr absl::string_view kLayers = "model.layers.";
  if (name == "model.embed_tokens.weight") return 0;
  if (!absl::StartsWith(name, kLayers)) return layers - 1;
  const absl::string_view rest = name.substr(kLayers.size());
  int64_t depth = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find('.')), &depth) ? depth : layers - 1;
}

std::vector<Tensor> ParameterTensors(const CausalLM& model) {
  std::vector<Tensor> tensors;
  for (const auto& named : model.parameters()) tensors.push_back(named.second);
  return tensors;
}

}  // namespace

absl::Status CheckOneStage(const RankLayout& layout) {
  BATON_RETURN_IF_ERROR(layout.Validate());
  if (layout.pipeline == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pipeline: ", layout.pipeline, "; this engine runs models of one stage"));
}

HybridEngine::HybridEngine(CausalLM* model, const RankLayout& layout, int rank, HybridGroups groups,
                           HybridOptions options, RankTransition plan)
    : model_(model),
      layout_(layout),
      rank_(rank),
      groups_(std::move(groups)),
      options_(std::move(options)),
      plan_(std::move(plan)) {}

absl::StatusOr<std::unique_ptr<HybridEngine>> HybridEngine::Create(CausalLM* model,
                                                                   const RankLayout& layout,
                                                                   int rank, HybridGroups groups,
                                                                   HybridOptions options) {
  BATON_RETURN_IF_ERROR(CheckOneStage(layout));
  if (rank < 0 || rank >= layout.world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " is not one of the layout's ", layout.world_size()));
  }
  BATON_RETURN_IF_ERROR(
      CheckGroup("tensor", model->tensor_group(), layout.tensor, layout.PlaceOf(rank).tensor));
  BATON_RETURN_IF_ERROR(CheckGroup("micro-DP", groups.micro_data.get(), layout.micro_data(),
                                   layout.MicroDataRank(rank)));
  BATON_RETURN_IF_ERROR(CheckGroup("generation tensor", groups.generation_tensor.get(),
                                   layout.generation_tensor, layout.GenerationTensorRank(rank)));
  if (groups.control != nullptr) {
    BATON_RETURN_IF_ERROR(CheckGroup("control", groups.control.get(), layout.generation_tensor,
                                     layout.GenerationTensorRank(rank)));
  }
  BATON_ASSIGN_OR_RETURN(
      RankTransition plan,
      PlanRankTransition(DivideModel(*model, layout), layout, TransitionMethod::kHybrid, rank));
  return std::unique_ptr<HybridEngine>(new HybridEngine(model, layout, rank, std::move(groups),
                                                        std::move(options), std::move(plan)));
}

absl::Status HybridEngine::ToGeneration() {
  if (generating()) return absl::FailedPreconditionError("these ranks generate already");
  BATON_ASSIGN_OR_RETURN(generation_, CausalLM::Gather(*model_, groups_.micro_data.get(),
                                                       groups_.generation_tensor.get()));
  auto generator =
      engine::Generator::Create(generation_.get(), options_.decode, options_.generator);
  if (!generator.ok()) {
    generation_.reset();
    return generator.status();
  }
  generator_ = *std::move(generator);
  if (groups_.control != nullptr && groups_.control->rank() == 0) {
    leader_ = std::make_unique<ReplicaLeader>(groups_.control.get(), generator_.get(),
                                              options_.keep_alive);
  } else if (groups_.control != nullptr) {
    follower_ = std::make_unique<ReplicaFollower>(groups_.control.get(), generator_.get());
  }
  versions_.clear();
  for (const auto& named : model_->parameters()) {
    versions_.push_back(named.second._version());
  }
  return absl::OkStatus();
}

absl::Status HybridEngine::CheckUnchanged() const {
  for (size_t i = 0; i < versions_.size(); ++i) {
    const auto& [name, parameter] = model_->parameters()[i];
    if (parameter._version() != versions_[i]) {
      return absl::FailedPreconditionError(absl::StrCat(
          name, " was changed while these ranks generate; call ToTraining before an update"));
    }
  }
  return absl::OkStatus();
}

absl::Status HybridEngine::ToTraining() {
  if (!generating()) return absl::FailedPreconditionError("these ranks train already");
  absl::Status status;
  if (follower_ != nullptr) {
    status = follower_->WaitForEnd();
  } else if (!generator_->idle()) {
    return absl::FailedPreconditionError(
        "requests are live; finish or cancel them before the ranks train again");
  }
  if (leader_ != nullptr) status = leader_->End();
  follower_.reset();
  leader_.reset();
  generator_.reset();
  generation_.reset();
  return Annotate(status, "the end of generation");
}

namespace {

/// The rows of `batch` for the replica of this rank: contiguous, sizes at most one apart.
std::vector<engine::GenerateRequest> PartOfReplica(
    const RankLayout& layout, int rank, const std::vector<engine::GenerateRequest>& batch) {
  const int64_t size = static_cast<int64_t>(batch.size());
  const int replicas = layout.data * layout.micro_data();
  const int replica = layout.Replica(rank);
  return {batch.begin() + size * replica / replicas,
          batch.begin() + size * (replica + 1) / replicas};
}

}  // namespace

absl::StatusOr<std::vector<HybridResponse>> HybridEngine::Generate(
    const std::vector<engine::GenerateRequest>& batch) {
  if (!generating()) {
    return absl::FailedPreconditionError("these ranks train; call ToGeneration before");
  }
  if (follows())
    return absl::FailedPreconditionError("requests go to the rank that leads this one");
  BATON_RETURN_IF_ERROR(CheckUnchanged());
  const std::vector<engine::GenerateRequest> part = PartOfReplica(layout_, rank_, batch);
  std::vector<HybridResponse> responses(part.size());
  std::unordered_map<uint64_t, size_t> place;
  for (size_t i = 0; i < part.size(); ++i) {
    responses[i].id = part[i].id;
    place[part[i].id] = i;
    if (absl::Status status = generator_->Add(part[i]); !status.ok()) {
      for (size_t added = 0; added < i; ++added) generator_->Cancel(part[added].id);
      while (!generator_->idle()) BATON_RETURN_IF_ERROR(generator_->Step().status());
      return status;
    }
  }
  while (!generator_->idle()) {
    BATON_ASSIGN_OR_RETURN(const auto updates, generator_->Step());
    for (const engine::GenerateUpdate& update : updates) {
      HybridResponse& response = responses[place.at(update.id)];
      response.tokens.insert(response.tokens.end(), update.new_tokens.begin(),
                             update.new_tokens.end());
      response.log_probs.insert(response.log_probs.end(), update.new_log_probs.begin(),
                                update.new_log_probs.end());
      if (!update.finished) continue;
      response.finish_reason = update.finish_reason;
      response.error = update.error;
    }
  }
  return responses;
}

HybridMemory HybridEngine::memory() const {
  HybridMemory memory;
  std::vector<Tensor> all = ParameterTensors(*model_);
  memory.training_bytes = StorageBytes(all);
  if (!generating()) return memory;
  const std::vector<Tensor> gathered = ParameterTensors(*generation_);
  memory.generation_bytes = StorageBytes(gathered);
  all.insert(all.end(), gathered.begin(), gathered.end());
  memory.redundant_bytes = StorageBytes(all) - memory.generation_bytes;
  const engine::GeneratorStats stats = generator_->stats();
  memory.kv_cache_bytes = stats.total_blocks * stats.block_bytes;
  return memory;
}

DividedModel DivideModel(const CausalLM& model, const RankLayout& layout) {
  DividedModel divided;
  divided.depths = model.config().num_hidden_layers;
  const int64_t element_bytes = static_cast<int64_t>(torch::elementSize(model.dtype()));
  for (const engine::ParameterShard& shard : model.shards()) {
    DividedTensor tensor;
    tensor.name = shard.name;
    tensor.shape = shard.shape;
    tensor.element_bytes = element_bytes;
    tensor.depth = DepthOf(shard.name, divided.depths);
    const auto box = [&](int rank, int size) {
      return engine::ShardOf(model.config(), shard.name, shard.shape, rank, size).box;
    };
    for (int t = 0; t < layout.tensor; ++t) tensor.training.push_back(box(t, layout.tensor));
    for (int g = 0; g < layout.generation_tensor; ++g) {
      tensor.generation.push_back(box(g, layout.generation_tensor));
    }
    tensor.whole = layout.tensor > 1 && tensor.training[0] == relay::Box::Full(tensor.shape);
    divided.tensors.push_back(std::move(tensor));
  }
  return divided;
}

int64_t StorageBytes(absl::Span<const Tensor> tensors) {
  std::map<const void*, int64_t> storages;
  for (const Tensor& tensor : tensors) {
    storages[tensor.storage().data()] = static_cast<int64_t>(tensor.storage().nbytes());
  }
  int64_t bytes = 0;
  for (const auto& storage : storages) bytes += storage.second;
  return bytes;
}

}  // namespace baton::hybrid
