// The relay of policy versions from the trainer to the rollouts of a machine.
#ifndef BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
#define BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "relay/client/relay_client.h"
#include "relay/segment/checksum.h"
#include "relay/weights/safetensors_reader.h"
#include "relay/weights/safetensors_writer.h"

namespace baton::policy {

/// One version of a job's weights, as a trainer publishes it.
struct Publication {
  std::string job;
  uint64_t version = 0;
  /// Drops this version and newer ones first: the job went back to an earlier step and makes them
  /// anew.
  bool fork = false;
  std::string capability;    ///< From task `publish`.
  std::string job_uid = {};  ///< Task.job_uid.
  /// From task `publish`: earlier versions that rollouts may still load.
  std::vector<uint64_t> keep_versions = {};
  std::string relay = {};  ///< From task `publish`: the relay of this worker's host.
};

/// The place where a version is looked for.
struct Version {
  std::string job;
  uint64_t version = 0;
  std::string job_uid = {};  ///< Task.job_uid.
  std::string relay = {};    ///< From task `load_weights`: the relay of this worker's host.
};

/// The relay that a worker uses.
struct RelayChoice {
  /// host:port.
  std::string address;
  /// True: always that one. Otherwise the one that a task names, and that one where it names none.
  bool fixed = true;
  std::string token = {};  ///< For the relay; empty: none is sent.
  bool insecure = false;   ///< The token may leave this machine in clear text.
};

/// This machine's relay. Thread-safe. A version, once published, never changes. A relay that is
/// down is waited for, a minute at most (then UNAVAILABLE): it may be starting again. `cancelled`,
/// once notified, ends that wait with CANCELLED. It outlives the writers that it gives out. Tests
/// stand between a writer and the relay: hence the virtual methods.
class WeightsRelay {
 public:
  using Writer = std::unique_ptr<relay::SegmentWriter>;

  /// `holder` names this worker in the relay's messages. Errors of RelayClient::Create;
  /// FAILED_PRECONDITION: the token may not be shown there.
  static absl::StatusOr<std::unique_ptr<WeightsRelay>> Create(const RelayChoice& choice,
                                                              const std::string& holder);
  virtual ~WeightsRelay() = default;

  /// Makes room for a version that so many writers fill together. ALREADY_EXISTS when the version
  /// is there. PERMISSION_DENIED: the relay wants a capability, and this is not the job's.
  virtual absl::StatusOr<Writer> Begin(const Publication& what,
                                       const relay::SafetensorsLayout& layout, int writers,
                                       const absl::Notification& cancelled);
  /// Another writer's end of a version that was begun with the same layout. An error: it is not on
  /// this machine.
  virtual absl::StatusOr<Writer> Join(const Publication& what, const relay::SegmentPlace& place,
                                      const relay::SafetensorsLayout& layout);
  /// Writer number `rank` has written boxes with these checksums. Once. NOT_FOUND: the relay,
  /// started again, does not know the version any more; begin again.
  [[nodiscard]] virtual absl::Status Commit(relay::SegmentWriter& writer, int rank,
                                            absl::Span<const relay::TensorDigest> digests);
  /// Makes the version visible; called on the writer that began, when all have committed. Errors as
  /// Commit, and those of Begin's wait.
  [[nodiscard]] absl::Status Seal(relay::SegmentWriter& writer,
                                  const absl::Notification& cancelled);

  /// Calls `use` with the bytes of the version (a verified safetensors file in memory), which stay
  /// as they are until it returns. NOT_FOUND when there is no such version.
  [[nodiscard]] absl::Status Load(const Version& what, const absl::Notification& cancelled,
                                  absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> use);

  /// Gives back the memory of what this publisher has published for the job.
  void Forget(const std::string& job);

 protected:
  WeightsRelay(RelayChoice choice, std::string holder)
      : choice_(std::move(choice)), holder_(std::move(holder)) {}

 private:
  // Versions of a job, sealed or not, that Forget drops.
  struct Begun {
    std::deque<std::string> segments;  ///< The newest last.
    std::string capability;
    std::string relay;  ///< As the newest publication named it.
  };

  /// The client of the relay that a task names; empty: it names none, and the one before counts.
  absl::StatusOr<const relay::RelayClient*> ClientOf(const std::string& named);

  const RelayChoice choice_;
  const std::string holder_;
  absl::Mutex mu_;
  std::string named_ ABSL_GUARDED_BY(mu_);  ///< By the newest task that names one.
  std::map<std::string, std::unique_ptr<relay::RelayClient>> clients_
      ABSL_GUARDED_BY(mu_);                                  ///< By address.
  std::map<std::string, Begun> begun_ ABSL_GUARDED_BY(mu_);  ///< By job.
};

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
