#include "workers/engine/training/gradient_buckets.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/strings/match.h"

namespace baton::engine {
namespace {

/// Larger is finished earlier.
int64_t Depth(const std::string& name) {
  constexpr char kLayers[] = "model.layers.";
  if (absl::StartsWith(name, kLayers)) {
    return 1 + std::atoll(name.c_str() + sizeof(kLayers) - 1);
  }
  if (absl::StartsWith(name, "model.embed_tokens.")) return 0;
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  return IsHeadParameter(name) ? kLast : kLast - 1;
}

}  // namespace

bool IsHeadParameter(const std::string& name) { return !absl::StartsWith(name, "model."); }

std::vector<size_t> BackwardOrder(const std::vector<std::string>& names) {
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_tuple(-Depth(names[a]), names[a]) <
           std::make_tuple(-Depth(names[b]), names[b]);
  });
  return order;
}

std::vector<Bucket> MakeBuckets(const std::vector<int64_t>& sizes, int64_t min_elements) {
  std::vector<Bucket> buckets;
  int64_t element = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool full = !buckets.empty() &&
                      buckets.back().last_element - buckets.back().first_element >= min_elements;
    if (buckets.empty() || full) buckets.push_back({i, i, element, element});
    element += sizes[i];
    buckets.back().end = i + 1;
    buckets.back().last_element = element;
  }
  return buckets;
}

GradientBuckets::GradientBuckets(std::vector<Gradient> gradients, torch::Tensor flat,
                                 Communicator* group, int64_t bucket_bytes)
    : gradients_(std::move(gradients)), flat_(std::move(flat)), group_(group) {
  std::vector<int64_t> sizes;
  for (const Gradient& gradient : gradients_) sizes.push_back(gradient.parameter.numel());
  buckets_ = MakeBuckets(sizes, bucket_bytes / static_cast<int64_t>(flat_.element_size()));
  for (size_t b = 0; b < buckets_.size(); ++b) {
    bucket_of_.insert(bucket_of_.end(), buckets_[b].end - buckets_[b].begin, b);
  }
  for (size_t i = 0; i < gradients_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(gradients_[i].parameter);
    using torch::autograd::variable_list;
    auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const variable_list& outputs, const variable_list& /*inputs*/) {
          MarkReady(i);
          return outputs;
        });
    const uintptr_t key = accumulator->add_post_hook(std::move(hook));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

GradientBuckets::~GradientBuckets() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

void GradientBuckets::ExpectLastBackward() {
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.end - bucket.begin);
  expecting_ = true;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (IsHeadParameter(gradients_[i].name)) MarkReady(i);
  }
}

void GradientBuckets::MarkReady(size_t index) {
  if (!expecting_) return;
  --missing_[bucket_of_[index]];
  while (pending_.size() < buckets_.size() && missing_[pending_.size()] == 0) {
    StartNext();
    ++overlapped_;
  }
}

void GradientBuckets::StartNext() {
  const Bucket& bucket = buckets_[pending_.size()];
  pending_.push_back(group_->StartAllReduce(
      flat_.narrow(0, bucket.first_element, bucket.last_element - bucket.first_element),
      Reduction::kSum));
}

void GradientBuckets::Finish() {
  expecting_ = false;
  while (pending_.size() < buckets_.size()) StartNext();
  const std::vector<std::unique_ptr<PendingCollective>> pending = std::move(pending_);
  pending_.clear();
  for (const auto& collective : pending) collective->Wait();
}

}  // namespace baton::engine
