// Threads that read data files, for specs that are looked at and for jobs that begin.
#ifndef BATON_CONTROLLER_RUNTIME_DATA_READERS_H_
#define BATON_CONTROLLER_RUNTIME_DATA_READERS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/gate.h"
#include "sdk/base/low_priority.h"

namespace baton::controller {

/// Bytes of those paths that are files. Opens none.
inline uint64_t BytesOf(const std::vector<std::string>& paths) {
  uint64_t bytes = 0;
  for (const std::string& path : paths) {
    std::error_code code;
    if (!std::filesystem::is_regular_file(path, code)) continue;
    const uintmax_t size = std::filesystem::file_size(path, code);
    if (!code) bytes += size;
  }
  return bytes;
}

/// Large reads line up for a thread of their own, so that small ones never wait for them, nor does
/// what jobs write. Of low priority. Thread-safe.
class DataReaders {
 public:
  /// `gate` outlives this.
  DataReaders(Gate* gate, int threads, uint64_t large_bytes)
      : gate_(gate), large_bytes_(large_bytes), small_(static_cast<size_t>(threads)) {
    LowerPoolPriority(threads, [this](auto work) { boost::asio::post(small_, std::move(work)); });
    LowerPoolPriority(1, [this](auto work) { boost::asio::post(large_, std::move(work)); });
  }

  /// Runs `work`, which reads as many bytes as `size` answers; `size` may look at files.
  void Post(std::function<uint64_t()> size, std::function<void()> work) {
    gate_->Post(small_.get_executor(),
                [this, size = std::move(size), work = std::move(work)]() mutable {
                  if (size() < large_bytes_) return work();
                  gate_->Post(large_.get_executor(), std::move(work));
                });
  }

  /// Waits for what is under way. After the gate is closed.
  void Join() {
    small_.join();
    large_.join();
  }

 private:
  Gate* const gate_;
  const uint64_t large_bytes_;
  boost::asio::thread_pool small_;
  boost::asio::thread_pool large_{1};
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_DATA_READERS_H_
