#include "workers/parallel/gloo_communicator.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/clock.h"

namespace baton::parallel {
namespace {

using engine::CollectiveError;
using torch::Tensor;

/// Runs `call`, whose failure becomes a CollectiveError.
template <typename Call>
auto Guarded(const std::string& what, absl::Time since, absl::Duration timeout, Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw CollectiveError(StatusOfC10d(error, what, BootNow() - since, timeout));
  }
}

class PendingWork : public engine::PendingCollective {
 public:
  PendingWork(c10::intrusive_ptr<c10d::Work> work, std::string what, absl::Duration timeout)
      : work_(std::move(work)), what_(std::move(what)), timeout_(timeout) {}
  void Wait() override {
    Guarded(what_, since_, timeout_,
            [&] { return work_->wait(absl::ToChronoMilliseconds(timeout_)); });
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const std::string what_;
  const absl::Duration timeout_;
  const absl::Time since_ = BootNow();
};

}  // namespace

absl::Status StatusOfC10d(const std::exception& error, const std::string& what,
                          absl::Duration elapsed, absl::Duration timeout) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string reason =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // Gloo's timeouts have no type of their own; the clock tells them.
  if (elapsed >= timeout * 0.9) {
    return absl::DeadlineExceededError(absl::StrCat(what, ": not done after ",
                                                    absl::FormatDuration(timeout),
                                                    "; a rank is late or lost (", reason, ")"));
  }
  return absl::UnavailableError(absl::StrCat(what, ": another rank is gone (", reason, ")"));
}

GlooCommunicator::GlooCommunicator(Options options, const c10::intrusive_ptr<c10d::Store>& store,
                                   const std::shared_ptr<gloo::transport::Device>& device)
    : options_(std::move(options)), bytes_(std::make_shared<TransportBytes>()) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options_.timeout));
  gloo->devices.push_back(CountBytes(device, bytes_));
  gloo->threads = 2;
  group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, options_.rank, options_.size, gloo);
}

std::unique_ptr<engine::PendingCollective> GlooCommunicator::StartAllReduce(
    Tensor tensor, engine::Reduction reduction) {
  const std::string what =
      absl::StrCat(options_.name, ": all-reduce of ", tensor.numel(), " elements");
  return Guarded(what, BootNow(), options_.timeout, [&] {
    std::vector<Tensor> tensors = {std::move(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp =
        reduction == engine::Reduction::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    return std::make_unique<PendingWork>(group_->allreduce(tensors, options), what,
                                         options_.timeout);
  });
}

void GlooCommunicator::AllGather(Tensor mine, Tensor all) {
  if (all.numel() == 0) return;
  const std::string what =
      absl::StrCat(options_.name, ": all-gather of ", all.numel(), " elements");
  Guarded(what, BootNow(), options_.timeout, [&] {
    const Tensor flat = all.view({-1});
    std::vector<std::vector<Tensor>> outputs(1);
    for (int r = 0; r < options_.size; ++r) {
      outputs[0].push_back(flat.narrow(0, r * mine.numel(), mine.numel()));
    }
    std::vector<Tensor> inputs = {mine.view({-1})};
    return group_->allgather(outputs, inputs)->wait(absl::ToChronoMilliseconds(options_.timeout));
  });
}

void GlooCommunicator::Broadcast(Tensor tensor, int root) {
  if (tensor.numel() == 0) return;
  const std::string what =
      absl::StrCat(options_.name, ": broadcast of ", tensor.numel(), " elements from rank ", root);
  Guarded(what, BootNow(), options_.timeout, [&] {
    std::vector<Tensor> tensors = {std::move(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return group_->broadcast(tensors, options)->wait(absl::ToChronoMilliseconds(options_.timeout));
  });
}

engine::CollectiveBytes GlooCommunicator::bytes() const {
  return {bytes_->sent.load(), bytes_->received.load()};
}

}  // namespace baton::parallel
