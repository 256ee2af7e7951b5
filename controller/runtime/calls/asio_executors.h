// The executors of a controller: thread pools of Boost.Asio.
#ifndef BATON_CONTROLLER_RUNTIME_CALLS_ASIO_EXECUTORS_H_
#define BATON_CONTROLLER_RUNTIME_CALLS_ASIO_EXECUTORS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "boost/asio/thread_pool.hpp"
#include "controller/ports/executor.h"
#include "controller/runtime/calls/data_readers.h"
#include "controller/runtime/calls/gate.h"

namespace baton::controller {

/// Runs one piece of work at a time on the pool, through the gate. Both outlive the strand.
std::unique_ptr<Executor> NewAsioStrand(Gate* gate, boost::asio::thread_pool* pool);

/// All work goes through the gate: work that is posted after the gate is closed is dropped.
class AsioExecutors : public Executors {
 public:
  struct Options {
    int strand_threads = 1;
    int reader_threads = 1;
    int data_threads = 1;
    uint64_t large_data_bytes = uint64_t{64} << 20;
    /// Maps a job to its project; projects take turns to read data files. Null: each job is its own
    /// project.
    std::function<std::string(const std::string& job)> project_of;
  };
  /// `gate` and `disk` outlive this; `disk` runs the disk strands.
  AsioExecutors(const Options& options, Gate* gate, boost::asio::thread_pool* disk);

  std::unique_ptr<Executor> NewStrand() override;
  std::unique_ptr<Executor> NewDiskStrand() override;
  void PostRead(Executor::Work work) override;
  void PostDataRead(const std::string& job, std::function<uint64_t()> bytes,
                    Executor::Work work) override;

  /// Waits for work that has begun and drops the rest. Call it after the gate is closed.
  void Join();

 private:
  const Options options_;
  Gate* const gate_;
  boost::asio::thread_pool* const disk_;
  boost::asio::thread_pool strands_;
  boost::asio::thread_pool readers_;  // separate, so that no write waits for reads
  DataReaders data_readers_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CALLS_ASIO_EXECUTORS_H_
