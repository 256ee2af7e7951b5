#include "controller/runtime/calls/asio_executors.h"

#include <chrono>
#include <utility>

#include "absl/time/time.h"
#include "boost/asio/basic_waitable_timer.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/strand.hpp"
#include "sdk/common/base/clock.h"
#include "sdk/common/process/low_priority.h"

namespace baton::controller {
namespace {

class AsioStrand : public Executor {
 public:
  AsioStrand(Gate* gate, boost::asio::thread_pool* pool)
      : gate_(gate), strand_(boost::asio::make_strand(pool->get_executor())) {}

  void Post(Work work) override { gate_->Post(strand_, std::move(work)); }

  void PostAfter(absl::Duration delay, Work work) override {
    auto timer = std::make_shared<boost::asio::basic_waitable_timer<BootClock>>(
        strand_, absl::ToChronoNanoseconds(delay));
    // The timer owns everything that it needs, because this executor may be destroyed before it
    // fires.
    timer->async_wait([gate = gate_, strand = strand_, timer,
                       work = std::move(work)](const boost::system::error_code&) mutable {
      gate->Post(strand, std::move(work));
    });
  }

 private:
  Gate* const gate_;
  const boost::asio::strand<boost::asio::thread_pool::executor_type> strand_;
};

}  // namespace

std::unique_ptr<Executor> NewAsioStrand(Gate* gate, boost::asio::thread_pool* pool) {
  return std::make_unique<AsioStrand>(gate, pool);
}

AsioExecutors::AsioExecutors(const Options& options, Gate* gate, boost::asio::thread_pool* disk)
    : options_(options),
      gate_(gate),
      disk_(disk),
      strands_(static_cast<size_t>(options.strand_threads)),
      readers_(static_cast<size_t>(options.reader_threads)),
      data_readers_(gate, options.data_threads, options.large_data_bytes) {
  LowerPoolPriority(options.reader_threads,
                    [this](auto work) { boost::asio::post(readers_, std::move(work)); });
}

std::unique_ptr<Executor> AsioExecutors::NewStrand() { return NewAsioStrand(gate_, &strands_); }

std::unique_ptr<Executor> AsioExecutors::NewDiskStrand() { return NewAsioStrand(gate_, disk_); }

void AsioExecutors::PostRead(Executor::Work work) {
  gate_->Post(readers_.get_executor(), std::move(work));
}

void AsioExecutors::PostDataRead(const std::string& job, std::function<uint64_t()> bytes,
                                 Executor::Work work) {
  const std::string project = options_.project_of == nullptr ? job : options_.project_of(job);
  data_readers_.Post(project, std::move(bytes), std::move(work));
}

void AsioExecutors::Join() {
  strands_.join();
  readers_.join();
  data_readers_.Join();
}

}  // namespace baton::controller
