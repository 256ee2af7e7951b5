// A proxy that passes TCP connections on, and counts the bytes that come back.
#ifndef BATON_BENCH_CONTROL_PLANE_COUNTING_PROXY_H_
#define BATON_BENCH_CONTROL_PLANE_COUNTING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton::bench {

/// Listens on a port of its own, and opens a connection to the server for each that it accepts.
/// Ends all of them with the object.
class CountingProxy {
 public:
  /// `server_port`: on this machine.
  explicit CountingProxy(int server_port);
  ~CountingProxy();
  CountingProxy(const CountingProxy&) = delete;
  CountingProxy& operator=(const CountingProxy&) = delete;

  /// "127.0.0.1:PORT"; empty: no port could be opened.
  const std::string& address() const { return address_; }
  /// Bytes from the server to all clients, as their TCP connections carried them.
  int64_t bytes_to_clients() const { return bytes_to_clients_; }

 private:
  void Accept();
  void Copy(int from, int to, std::atomic<int64_t>* bytes);

  const int server_port_;
  int listener_ = -1;
  std::string address_;
  std::atomic<int64_t> bytes_to_clients_{0};
  std::thread acceptor_;
  absl::Mutex mu_;
  std::vector<int> sockets_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> copiers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::bench

#endif  // BATON_BENCH_CONTROL_PLANE_COUNTING_PROXY_H_
