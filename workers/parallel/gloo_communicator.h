// A group of ranks on libtorch's Gloo backend. Internal to rank_groups.
#ifndef BATON_WORKERS_PARALLEL_GLOO_COMMUNICATOR_H_
#define BATON_WORKERS_PARALLEL_GLOO_COMMUNICATOR_H_

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "workers/engine/model/communicator.h"
#include "workers/parallel/counting_device.h"

namespace baton::parallel {

class GlooCommunicator : public engine::Communicator {
 public:
  struct Options {
    std::string name;  ///< For errors: "rank 3, tensor group".
    int rank = 0, size = 1;
    absl::Duration timeout;
  };
  /// Blocks until all ranks have come. Throws what c10d throws.
  GlooCommunicator(Options options, const c10::intrusive_ptr<c10d::Store>& store,
                   const std::shared_ptr<gloo::transport::Device>& device);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::unique_ptr<engine::PendingCollective> StartAllReduce(torch::Tensor tensor,
                                                            engine::Reduction reduction) override;
  void AllGather(torch::Tensor mine, torch::Tensor all) override;
  void Broadcast(torch::Tensor tensor, int root) override;
  engine::CollectiveBytes bytes() const override;
  std::shared_ptr<const TransportBytes> counter() const { return bytes_; }

 private:
  const Options options_;
  const std::shared_ptr<TransportBytes> bytes_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

/// The status of an exception out of c10d about `what`, `elapsed` after it began.
absl::Status StatusOfC10d(const std::exception& error, const std::string& what,
                          absl::Duration elapsed, absl::Duration timeout);

}  // namespace baton::parallel

#endif  // BATON_WORKERS_PARALLEL_GLOO_COMMUNICATOR_H_
