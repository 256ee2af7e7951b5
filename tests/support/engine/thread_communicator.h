// Ranks of one process, each on a thread: groups for tests, without a transport.
#ifndef BATON_TESTS_SUPPORT_ENGINE_THREAD_COMMUNICATOR_H_
#define BATON_TESTS_SUPPORT_ENGINE_THREAD_COMMUNICATOR_H_

#include <torch/torch.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "workers/engine/model/communicator.h"

namespace baton::engine::testing {

/// The point where the ranks of one group meet.
class MeetingPoint {
 public:
  explicit MeetingPoint(int size) : size_(size), tensors_(size) {}

  /// Returns every rank's tensor (copies), once all have come.
  std::vector<torch::Tensor> Exchange(int rank, const torch::Tensor& mine) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !leaving_; });
    tensors_[rank] = mine.detach().clone();
    if (++arrived_ == size_) leaving_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return leaving_; });
    const std::vector<torch::Tensor> all = tensors_;
    if (--arrived_ == 0) leaving_ = false;
    changed_.notify_all();
    return all;
  }

 private:
  const int size_;
  std::mutex mu_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool leaving_ = false;
  std::vector<torch::Tensor> tensors_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(int rank, int size, MeetingPoint* point)
      : rank_(rank), size_(size), point_(point) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<PendingCollective> StartAllReduce(torch::Tensor tensor,
                                                    Reduction reduction) override {
    torch::NoGradGuard no_grad;
    const std::vector<torch::Tensor> all = point_->Exchange(rank_, tensor);
    torch::Tensor result = all[0].clone();
    for (int r = 1; r < size_; ++r) {
      result = reduction == Reduction::kSum ? result + all[r] : torch::maximum(result, all[r]);
    }
    tensor.copy_(result);
    struct Done : PendingCollective {
      void Wait() override {}
    };
    return std::make_unique<Done>();
  }
  void AllGather(torch::Tensor mine, torch::Tensor all) override {
    torch::NoGradGuard no_grad;
    all.copy_(torch::cat(point_->Exchange(rank_, mine)));
  }
  void Broadcast(torch::Tensor tensor, int root) override {
    torch::NoGradGuard no_grad;
    tensor.copy_(point_->Exchange(rank_, tensor)[root]);
  }
  CollectiveBytes bytes() const override { return {}; }

 private:
  const int rank_;
  const int size_;
  MeetingPoint* const point_;
};

/// Runs `body` on `size` threads, each with its end of one group.
inline void RunRanks(int size, const std::function<void(Communicator&)>& body) {
  MeetingPoint point(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(rank, size, &point);
      body(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// As above, for tp x dp ranks, rank = dp_rank * tp + tp_rank: `body(tensor group, data group)`.
inline void RunGrid(int tp, int dp, const std::function<void(Communicator&, Communicator&)>& body) {
  std::vector<std::unique_ptr<MeetingPoint>> tensor_points, data_points;
  for (int d = 0; d < dp; ++d) tensor_points.push_back(std::make_unique<MeetingPoint>(tp));
  for (int t = 0; t < tp; ++t) data_points.push_back(std::make_unique<MeetingPoint>(dp));
  std::vector<std::thread> threads;
  for (int d = 0; d < dp; ++d) {
    for (int t = 0; t < tp; ++t) {
      threads.emplace_back([&, d, t] {
        ThreadCommunicator tensor_group(t, tp, tensor_points[d].get());
        ThreadCommunicator data_group(d, dp, data_points[t].get());
        body(tensor_group, data_group);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_THREAD_COMMUNICATOR_H_
