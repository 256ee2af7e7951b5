#include "workers/engine/training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

std::string ParameterFault(const AdamW::Parameters& parameters) {
  if (parameters.empty()) return "the model has no parameters";
  const torch::Tensor& first = parameters.front().second;
  for (const auto& [name, p] : parameters) {
    if (p.scalar_type() != torch::kFloat32 && p.scalar_type() != torch::kFloat64) {
      return absl::StrCat("parameter ", name, " is ", torch::toString(p.scalar_type()),
                          "; training needs float32 (load the model with that dtype)");
    }
    if (!p.is_leaf()) return absl::StrCat("parameter ", name, " is not a leaf");
    if (p.scalar_type() != first.scalar_type() || p.device() != first.device()) {
      return absl::StrCat("parameter ", name, " differs from ", parameters.front().first,
                          " in dtype or device");
    }
  }
  return "";
}

absl::Status CheckState(const std::vector<TensorPart>& state, int64_t step) {
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step ", step, " is negative"));
  for (const TensorPart& part : state) {
    if (!torch::isfinite(part.tensor).all().item<bool>()) {
      return absl::InvalidArgumentError(absl::StrCat(part.shard.name, " is not finite"));
    }
    if (absl::StartsWith(part.shard.name, "exp_avg_sq.") && part.tensor.numel() > 0 &&
        part.tensor.min().item<double>() < 0) {
      return absl::InvalidArgumentError(absl::StrCat(part.shard.name, " has a negative square"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LrSchedule> CheckAdamW(const AdamW::Parameters& parameters,
                                      const OptimizerSpec& spec) {
  std::vector<std::string> errors;
  const absl::Status options = ToStatus(CheckMembers(OptimizerOptionTable(), spec));
  const auto schedule = LrSchedule::Create(spec.lr_schedule, spec.lr, spec.min_lr_ratio,
                                           spec.lr_warmup_steps, spec.total_steps);
  // Options that are out of bounds alone make a bad schedule as well: they are said once.
  if (const absl::Status& status = options.ok() ? schedule.status() : options; !status.ok()) {
    errors.emplace_back(status.message());
  }
  if (std::string fault = ParameterFault(parameters); !fault.empty()) errors.push_back(fault);
  if (!errors.empty()) return absl::InvalidArgumentError(absl::StrJoin(errors, "; "));
  return *schedule;
}

absl::StatusOr<AdamW> AdamW::Create(const Parameters& parameters, const OptimizerSpec& spec) {
  BATON_ASSIGN_OR_RETURN(const LrSchedule schedule, CheckAdamW(parameters, spec));
  AdamW optimizer(spec, schedule);
  optimizer.Attach(parameters);
  return optimizer;
}

void AdamW::Attach(const Parameters& parameters) {
  torch::NoGradGuard no_grad;
  int64_t total = 0;
  for (const auto& named : parameters) total += named.second.numel();
  gradients_ = torch::zeros({total}, parameters.front().second.options().requires_grad(false));
  int64_t offset = 0;
  for (const auto& [name, parameter] : parameters) {
    torch::Tensor p = parameter;
    p.set_requires_grad(true);
    torch::Tensor gradient = gradients_.narrow(0, offset, p.numel()).view(p.sizes());
    offset += p.numel();
    p.mutable_grad() = gradient;
    slots_.push_back({name, p, gradient, torch::zeros_like(gradient), torch::zeros_like(gradient)});
  }
}

void AdamW::ZeroGradients() {
  gradients_.zero_();
  // Someone may have put another tensor there (or none): autograd must add to ours.
  for (Slot& slot : slots_) {
    if (!slot.parameter.grad().is_same(slot.gradient))
      slot.parameter.mutable_grad() = slot.gradient;
  }
}

absl::StatusOr<double> AdamW::GradientNorm() const {
  const double norm = std::sqrt(SquaredNorm(gradients_).item<double>());
  if (std::isfinite(norm)) return norm;
  for (const Slot& slot : slots_) {
    if (!torch::isfinite(slot.gradient).all().item<bool>()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the gradient of ", slot.name, " is not finite"));
    }
  }
  return absl::FailedPreconditionError("the norm of the gradient overflows");
}

torch::Tensor SquaredNorm(const torch::Tensor& tensor) {
  torch::NoGradGuard no_grad;
  // Elements that are converted at once: what stays in a core's cache, or fills a device.
  const int64_t chunk = tensor.is_cpu() ? int64_t{1} << 17 : int64_t{1} << 25;
  const torch::Tensor flat = tensor.reshape({-1});
  torch::Tensor sum = torch::zeros({}, flat.options().dtype(torch::kFloat64));
  for (int64_t begin = 0; begin < flat.numel(); begin += chunk) {
    const torch::Tensor part =
        flat.narrow(0, begin, std::min(chunk, flat.numel() - begin)).to(torch::kFloat64);
    sum += part.dot(part);
  }
  return sum;
}

double ClipScale(const OptimizerSpec& spec, double gradient_norm) {
  if (spec.grad_clip <= 0) return 1;
  return std::min(1.0, spec.grad_clip / (gradient_norm + 1e-6));
}

void DecayWeights(const OptimizerSpec& spec, double lr, const torch::Tensor& parameter,
                  torch::Tensor elements) {
  const bool decays = parameter.dim() > 1 || spec.decay_norms_and_biases;
  if (decays && spec.weight_decay != 0) elements.mul_(1 - lr * spec.weight_decay);
}

void AdamWUpdate(const OptimizerSpec& spec, double lr, int64_t t, torch::Tensor parameter,
                 const torch::Tensor& gradient, torch::Tensor exp_avg, torch::Tensor exp_avg_sq) {
  const double correction1 = 1 - std::pow(spec.beta1, static_cast<double>(t));
  const double correction2_sqrt = std::sqrt(1 - std::pow(spec.beta2, static_cast<double>(t)));
  exp_avg.lerp_(gradient, 1 - spec.beta1);
  exp_avg_sq.mul_(spec.beta2).addcmul_(gradient, gradient, 1 - spec.beta2);
  const torch::Tensor denominator = exp_avg_sq.sqrt().div_(correction2_sqrt).add_(spec.eps);
  parameter.addcdiv_(exp_avg, denominator, -lr / correction1);
}

void AdamW::Step(double gradient_norm, double lr) {
  torch::NoGradGuard no_grad;
  const double scale = ClipScale(spec_, gradient_norm);
  if (scale < 1) gradients_.mul_(scale);
  for (Slot& slot : slots_) {
    DecayWeights(spec_, lr, slot.parameter, slot.parameter);
    AdamWUpdate(spec_, lr, step_ + 1, slot.parameter, slot.gradient, slot.exp_avg, slot.exp_avg_sq);
  }
  ++step_;
}

NamedTensors AdamW::State() const {
  NamedTensors state;
  for (const Slot& slot : slots_) {
    state.emplace_back(absl::StrCat("exp_avg.", slot.name), slot.exp_avg);
    state.emplace_back(absl::StrCat("exp_avg_sq.", slot.name), slot.exp_avg_sq);
  }
  return state;
}

absl::Status SaveAdamWState(const std::string& path, NamedTensors state, int64_t step) {
  try {
    state.emplace_back("step", torch::full({1}, step, torch::kInt64));
    BATON_ASSIGN_OR_RETURN(const WeightsImage image,
                           WeightsImage::Create(state, {}, {{"format", "baton.adamw.v1"}}));
    return image.WriteFile(path);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("saving the optimizer to ", path, ": ", e.what()));
  }
}

absl::StatusOr<int64_t> LoadAdamWState(const std::string& path, std::vector<TensorPart> state) {
  try {
    BATON_ASSIGN_OR_RETURN(const auto file, relay::SafetensorsFile::Open(path));
    const torch::Tensor step = torch::zeros({1}, torch::kInt64);
    state.push_back(WholeParts({{"step", step}}).front());
    // Moments of another precision would load, rounded, and the run would quietly differ.
    for (const TensorPart& part : state) {
      BATON_ASSIGN_OR_RETURN(const relay::DType want, FromTorchDtype(part.tensor.scalar_type()));
      const auto* entry = file->view().Find(part.shard.name);
      if (entry != nullptr && entry->dtype != want) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": ", part.shard.name, " is ", relay::DTypeName(entry->dtype),
                         ", this trainer needs ", relay::DTypeName(want)));
      }
    }
    BATON_RETURN_IF_ERROR(Annotate(LoadParts(file->view(), state), path));
    state.pop_back();
    BATON_RETURN_IF_ERROR(Annotate(CheckState(state, step.item<int64_t>()), path));
    return step.item<int64_t>();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("loading the optimizer from ", path, ": ", e.what()));
  }
}

absl::Status AdamW::Save(const std::string& path) const {
  return SaveAdamWState(path, State(), step_);
}

absl::Status AdamW::Load(const std::string& path) {
  NamedTensors loaded;  // apart, so that a bad file changes nothing
  for (const auto& [name, tensor] : State()) loaded.emplace_back(name, torch::empty_like(tensor));
  BATON_ASSIGN_OR_RETURN(step_, LoadAdamWState(path, WholeParts(loaded)));
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].exp_avg.copy_(loaded[2 * i].second);
    slots_[i].exp_avg_sq.copy_(loaded[2 * i + 1].second);
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
