// The sum of gradients over a group, made while the backward pass is still running.
//
// The gradients lie in one flat buffer, in the order in which a backward pass finishes them, cut
// into buckets. A bucket's all-reduce starts when the last of its gradients is there and all
// buckets before it have started, so every rank starts them in the same order.
#ifndef BATON_WORKERS_ENGINE_TRAINING_GRADIENT_BUCKETS_H_
#define BATON_WORKERS_ENGINE_TRAINING_GRADIENT_BUCKETS_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// Indices of `names` in the order in which a decoder's backward pass finishes their gradients:
/// heads, last norm, layers from the last to the first, embedding; by name within each.
std::vector<size_t> BackwardOrder(const std::vector<std::string>& names);

/// A head's parameters get their gradients before the body's backward pass begins.
bool IsHeadParameter(const std::string& name);

/// Tensors [begin, end) of a buffer that are reduced together, and their elements.
struct Bucket {
  size_t begin = 0, end = 0;
  int64_t first_element = 0, last_element = 0;  ///< [first_element, last_element)
};

/// Consecutive tensors of `sizes` elements; each bucket but the last has at least `min_elements`.
std::vector<Bucket> MakeBuckets(const std::vector<int64_t>& sizes, int64_t min_elements);

/// One thread at a time. Throws CollectiveError.
class GradientBuckets {
 public:
  struct Gradient {
    std::string name;
    torch::Tensor parameter;  ///< A leaf; autograd adds to its grad(), a slice of the buffer.
  };

  /// `flat`: the gradients one after the other (more may follow). `group` outlives this.
  GradientBuckets(std::vector<Gradient> gradients, torch::Tensor flat, Communicator* group,
                  int64_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// The next backward pass is the last one that adds to the gradients of the body, each once;
  /// those of heads are there already.
  void ExpectLastBackward();

  /// Starts what has not started (all, if no backward pass was expected), waits for everything.
  /// Afterwards the buffer holds the sums, and the next step may begin.
  void Finish();

  /// Buckets that started before Finish, ever.
  int64_t overlapped() const { return overlapped_; }
  int64_t buckets() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  void MarkReady(size_t index);
  void StartNext();

  const std::vector<Gradient> gradients_;
  const torch::Tensor flat_;
  Communicator* const group_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  ///< Bucket of each gradient.
  /// Autograd's accumulators and the hooks on them.
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;

  bool expecting_ = false;
  std::vector<size_t> missing_;  ///< Gradients of each bucket that are not there.
  std::vector<std::unique_ptr<PendingCollective>> pending_;  ///< One for each started bucket.
  int64_t overlapped_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_GRADIENT_BUCKETS_H_
