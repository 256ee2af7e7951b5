// What ties a relay to the controller: it attaches as a worker of role relay, follows the orders
// that it gets, and reports which versions are visible on its host.
#ifndef BATON_RELAY_MAIN_CONTROLLER_LINK_H_
#define BATON_RELAY_MAIN_CONTROLLER_LINK_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/worker_service.pb.h"
#include "relay/server/chain_member.h"
#include "relay/server/relay.h"
#include "relay/transport/tcp_transport.h"
#include "sdk/worker/worker.h"

namespace baton::relay {

struct ControllerLinkOptions {
  WorkerOptions worker;  ///< controller, worker_id, token, tls and insecure; the rest is filled in.
  std::string address;   ///< host:port of this relay for the workers of its host.
  std::string directory;  ///< Where its segments lie.
  /// host:port to listen on for other relays; port 0: any. Empty: it receives nothing from them.
  std::string chain_listen;
  std::string chain_host;  ///< What they reach this host by; empty: the host of chain_listen.
  TcpOptions chain;
  ChainMemberOptions member;
  absl::Duration report_interval = absl::Seconds(1);  ///< If nothing is heard of a change before …
  absl::Duration repeat_interval = absl::Seconds(5);  ///< … and of the same report again.
};

/// Thread-safe.
class ControllerLink {
 public:
  /// Listens for other relays. `relay` outlives this. Errors of TcpTransport::Create, of
  /// ChainMember::Listen and of Worker::Create.
  static absl::StatusOr<std::unique_ptr<ControllerLink>> Create(Relay* relay,
                                                                ControllerLinkOptions options);
  ~ControllerLink();

  /// As Worker::Run.
  absl::Status Run();
  void Stop() { worker_->Stop(); }
  /// host:port with the real port; empty: it receives nothing.
  const std::string& chain_address() const { return chain_address_; }

 private:
  using JobKey = std::pair<std::string, std::string>;  ///< Name and uid.
  struct Job {
    std::string capability;
    bool over = false;  ///< The controller says so.
  };

  ControllerLink(Relay* relay, absl::Duration report_interval, absl::Duration repeat_interval)
      : relay_(relay), report_interval_(report_interval), repeat_interval_(repeat_interval) {}

  void Follow(const v1::RelayOrders& orders);
  void Forget(const v1::RelayForget& forget);
  void Drop(const JobKey& job, const std::string& capability,
            const std::vector<std::string>& segments);
  void Changed();
  void ReportLoop();
  v1::RelayReport MakeReport();

  Relay* const relay_;
  const absl::Duration report_interval_, repeat_interval_;
  std::string chain_address_;
  std::unique_ptr<ChainMember> member_;
  std::unique_ptr<Worker> worker_;

  absl::Mutex mu_;
  std::map<JobKey, Job> jobs_ ABSL_GUARDED_BY(mu_);  ///< That had orders here.
  bool changed_ ABSL_GUARDED_BY(mu_) = true;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread reporter_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_MAIN_CONTROLLER_LINK_H_
