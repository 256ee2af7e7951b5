#include "workers/engine/training/sharded_adamw.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::engine {

using torch::Tensor;

absl::StatusOr<std::unique_ptr<ShardedAdamW>> ShardedAdamW::Create(
    const ModelConfig& config, const std::vector<TensorPart>& parameters, const OptimizerSpec& spec,
    const ShardedAdamWOptions& options) {
  AdamW::Parameters named;
  for (const TensorPart& part : parameters) named.emplace_back(part.shard.name, part.tensor);
  BATON_ASSIGN_OR_RETURN(const LrSchedule schedule, CheckAdamW(named, spec));
  std::unique_ptr<ShardedAdamW> optimizer(new ShardedAdamW(config, spec, schedule, options));
  optimizer->Attach(parameters);
  return optimizer;
}

int ShardedAdamW::data_ranks() const {
  return options_.data_group == nullptr ? 1 : options_.data_group->size();
}
int ShardedAdamW::data_rank() const {
  return options_.data_group == nullptr ? 0 : options_.data_group->rank();
}

void ShardedAdamW::Attach(const std::vector<TensorPart>& parameters) {
  torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  int64_t total = 0;
  for (const TensorPart& part : parameters) {
    names.push_back(part.shard.name);
    total += part.tensor.numel();
  }
  part_size_ = (total + data_ranks() - 1) / data_ranks();
  const auto options = parameters.front().tensor.options().requires_grad(false);
  gradients_ = torch::zeros({part_size_ * data_ranks()}, options);
  exp_avg_ = torch::zeros({part_size_}, options);
  exp_avg_sq_ = torch::zeros({part_size_}, options);
  int64_t offset = 0;
  std::vector<GradientBuckets::Gradient> gradients;
  for (size_t i : BackwardOrder(names)) {
    Tensor parameter = parameters[i].tensor;
    parameter.set_requires_grad(true);
    const Tensor gradient = gradients_.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    parameter.mutable_grad() = gradient;
    slots_.push_back({parameters[i].shard, parameter, gradient, offset});
    gradients.push_back({names[i], parameter});
    offset += parameter.numel();
  }
  if (data_ranks() > 1) {
    buckets_ = std::make_unique<GradientBuckets>(std::move(gradients), gradients_,
                                                 options_.data_group, options_.bucket_bytes);
  }
}

void ShardedAdamW::ZeroGradients() {
  gradients_.zero_();
  for (Slot& slot : slots_) {
    if (!slot.parameter.grad().is_same(slot.gradient)) {
      slot.parameter.mutable_grad() = slot.gradient;
    }
  }
}

void ShardedAdamW::ExpectLastBackward() {
  if (buckets_) buckets_->ExpectLastBackward();
}

void ShardedAdamW::ReduceGradients() {
  if (buckets_) buckets_->Finish();
}

absl::StatusOr<double> ShardedAdamW::GradientNorm() const {
  // The sums are the same on every rank, so all ranks decide alike.
  std::vector<Tensor> of_slots;
  for (const Slot& slot : slots_) of_slots.push_back(SquaredNorm(slot.gradient));
  const Tensor squares = torch::stack(of_slots).to(torch::kCPU);
  Tensor sums = torch::zeros({2}, torch::kFloat64);  // Sums over slices, and over whole parameters.
  for (size_t i = 0; i < slots_.size(); ++i) {
    sums[slots_[i].shard.whole() ? 1 : 0] += squares[static_cast<int64_t>(i)];
  }
  if (options_.tensor_group != nullptr) {
    Tensor slices = sums.narrow(0, 0, 1).to(gradients_.device());
    options_.tensor_group->AllReduce(slices);
    sums.narrow(0, 0, 1).copy_(slices);
  }
  const double norm = std::sqrt(sums.sum().item<double>());
  if (std::isfinite(norm)) return norm;
  for (const Slot& slot : slots_) {
    if (!torch::isfinite(slot.gradient).all().item<bool>()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the gradient of ", slot.shard.name, " is not finite"));
    }
  }
  return absl::FailedPreconditionError("a gradient of another rank is not finite");
}

void ShardedAdamW::ForEachSlotInPart(
    const std::function<void(size_t slot, int64_t from, int64_t at, int64_t size)>& visit) const {
  const int64_t begin = data_rank() * part_size_, end = begin + part_size_;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int64_t offset = slots_[i].offset;
    const int64_t first = std::max(begin, offset);
    const int64_t last = std::min(end, offset + slots_[i].parameter.numel());
    if (first < last) visit(i, first - offset, first - begin, last - first);
  }
}

void ShardedAdamW::CopyIntoPart(const std::vector<Tensor>& tensors, Tensor part) const {
  ForEachSlotInPart([&](size_t slot, int64_t from, int64_t at, int64_t size) {
    part.narrow(0, at, size).copy_(tensors[slot].detach().reshape({-1}).narrow(0, from, size));
  });
}

Tensor ShardedAdamW::GatherParts(const Tensor& part) const {
  if (data_ranks() == 1) return part;
  Tensor all = torch::empty_like(gradients_);
  options_.data_group->AllGather(part, all);
  return all;
}

void ShardedAdamW::Step(double gradient_norm, double lr) {
  torch::NoGradGuard no_grad;
  const Tensor gradient = gradients_.narrow(0, data_rank() * part_size_, part_size_);
  const double scale = ClipScale(spec_, gradient_norm);
  if (scale < 1) gradient.mul_(scale);
  std::vector<Tensor> parameters;
  for (const Slot& slot : slots_) parameters.push_back(slot.parameter);
  Tensor weights = torch::zeros_like(exp_avg_);
  CopyIntoPart(parameters, weights);
  ForEachSlotInPart([&](size_t slot, int64_t, int64_t at, int64_t size) {
    DecayWeights(spec_, lr, slots_[slot].parameter, weights.narrow(0, at, size));
  });
  AdamWUpdate(spec_, lr, step_ + 1, weights, gradient, exp_avg_, exp_avg_sq_);
  // The gradients have served: their buffer takes the new weights.
  if (data_ranks() > 1) {
    options_.data_group->AllGather(weights, gradients_);
  } else {
    gradients_.copy_(weights);
  }
  for (Slot& slot : slots_) slot.parameter.detach().copy_(slot.gradient);
  ++step_;
}

absl::Status ShardedAdamW::Save(const std::string& path) const {
  NamedTensors state;
  try {
    torch::NoGradGuard no_grad;
    for (const auto& [name, part] :
         {std::make_pair("exp_avg.", exp_avg_), std::make_pair("exp_avg_sq.", exp_avg_sq_)}) {
      const Tensor flat = GatherParts(part);
      if (data_rank() != 0) continue;
      for (const Slot& slot : slots_) {
        const Tensor local =
            flat.narrow(0, slot.offset, slot.parameter.numel()).view(slot.parameter.sizes());
        state.emplace_back(absl::StrCat(name, slot.shard.name),
                           options_.tensor_group == nullptr
                               ? local
                               : GatherWhole(local, slot.shard, config_, *options_.tensor_group));
      }
    }
  } catch (const CollectiveError& error) {
    return Annotate(error.status(), "gathering the optimizer's state");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("gathering the optimizer's state: ", error.what()));
  }
  const bool first = options_.tensor_group == nullptr || options_.tensor_group->rank() == 0;
  if (data_rank() != 0 || !first) return absl::OkStatus();
  return SaveAdamWState(path, std::move(state), step_);
}

absl::Status ShardedAdamW::Load(const std::string& path) {
  std::vector<TensorPart> state;
  for (const char* name : {"exp_avg.", "exp_avg_sq."}) {
    for (const Slot& slot : slots_) {
      TensorPart part{slot.shard, torch::empty_like(slot.gradient)};
      part.shard.name = absl::StrCat(name, slot.shard.name);
      state.push_back(std::move(part));
    }
  }
  BATON_ASSIGN_OR_RETURN(step_, LoadAdamWState(path, state));
  std::vector<Tensor> first, second;
  for (size_t i = 0; i < slots_.size(); ++i) {
    first.push_back(state[i].tensor);
    second.push_back(state[slots_.size() + i].tensor);
  }
  CopyIntoPart(first, exp_avg_);
  CopyIntoPart(second, exp_avg_sq_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const ModelConfig& config,
                                                         const std::vector<TensorPart>& parameters,
                                                         const OptimizerSpec& spec,
                                                         ShardedAdamWOptions options) {
  const auto alone = [](Communicator* group) { return group == nullptr || group->size() == 1; };
  if (alone(options.tensor_group)) options.tensor_group = nullptr;
  if (alone(options.data_group)) options.data_group = nullptr;
  if (options.tensor_group == nullptr && options.data_group == nullptr) {
    AdamW::Parameters named;
    for (const TensorPart& part : parameters) named.emplace_back(part.shard.name, part.tensor);
    BATON_ASSIGN_OR_RETURN(AdamW adamw, AdamW::Create(named, spec));
    return std::unique_ptr<Optimizer>(std::make_unique<AdamW>(std::move(adamw)));
  }
  BATON_ASSIGN_OR_RETURN(auto sharded, ShardedAdamW::Create(config, parameters, spec, options));
  return std::unique_ptr<Optimizer>(std::move(sharded));
}

}  // namespace baton::engine
