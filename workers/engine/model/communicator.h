// Collectives among the ranks of one group, as the engine needs them. The engine declares them
// and links no transport; workers/parallel implements them on libtorch's c10d.
//
// Every rank of a group makes the same calls in the same order with tensors of the same shape and
// dtype. Tensors are contiguous; empty ones do nothing. Calls may throw CollectiveError; a group
// that has failed once stays unusable.
#ifndef BATON_WORKERS_ENGINE_MODEL_COMMUNICATOR_H_
#define BATON_WORKERS_ENGINE_MODEL_COMMUNICATOR_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace baton::engine {

/// The exception of a collective where a Status cannot be returned (inside a model's layers and
/// their gradients). The engine's public entry points answer `status`, which names rank and
/// operation: DeadlineExceeded, Unavailable (a rank is gone) or Internal.
class CollectiveError : public std::runtime_error {
 public:
  explicit CollectiveError(absl::Status status)
      : std::runtime_error(std::string(status.message())), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

/// A collective under way. Its tensor must not be touched before Wait returns.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void Wait() = 0;  ///< Once. Throws CollectiveError.
};

/// Payload bytes that this rank moved over the group's transport, message headers not counted.
struct CollectiveBytes {
  int64_t sent = 0;
  int64_t received = 0;
};

enum class Reduction { kSum, kMax };

/// One rank's end of a group. One thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// `tensor` becomes the sum (or maximum) over the ranks: the same bits on each.
  virtual std::unique_ptr<PendingCollective> StartAllReduce(torch::Tensor tensor,
                                                            Reduction reduction) = 0;
  void AllReduce(torch::Tensor tensor, Reduction reduction = Reduction::kSum) {
    if (tensor.numel() > 0) StartAllReduce(std::move(tensor), reduction)->Wait();
  }
  /// mine [n] -> all [size n], in order of rank. They share no memory.
  virtual void AllGather(torch::Tensor mine, torch::Tensor all) = 0;
  /// `tensor` becomes that of rank `root`.
  virtual void Broadcast(torch::Tensor tensor, int root) = 0;

  virtual CollectiveBytes bytes() const = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_COMMUNICATOR_H_
