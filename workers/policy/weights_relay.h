// How policy versions travel from the trainer to the rollouts of a machine.
#ifndef BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
#define BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "relay/weights/safetensors_reader.h"
#include "relay/weights/safetensors_writer.h"

namespace baton::policy {

/// One version of a job's weights, as a trainer publishes it.
struct Publication {
  std::string job;
  uint64_t version = 0;
  /// This version and newer ones are dropped first: the job went back to an earlier step and makes
  /// them anew.
  bool fork = false;
  std::string capability;    ///< From task `publish`.
  std::string job_uid = {};  ///< Task.job_uid.
  /// From task `publish`: earlier versions that rollouts may still load.
  std::vector<uint64_t> keep_versions = {};
};

/// Where a version is looked for.
struct Version {
  std::string job;
  uint64_t version = 0;
  std::string job_uid = {};  ///< Task.job_uid.
};

/// A version in the making, as one of its writers has it. Destroyed before Seal, the version is not
/// there. One thread at a time.
class VersionWriter {
 public:
  virtual ~VersionWriter() = default;

  /// Where the other writers find it (WeightsRelay::Join).
  virtual std::string ticket() const = 0;
  /// The whole file, its header in place; until Commit.
  virtual absl::Span<uint8_t> bytes() = 0;
  /// Writer `writer` has written these boxes. Once. NOT_FOUND: the relay, started again, does not
  /// know the version any more; begin again.
  [[nodiscard]] virtual absl::Status Commit(int writer,
                                            absl::Span<const relay::TensorBox> boxes) = 0;
  /// Of the writer that began, when all have committed: the version is visible from now on. Errors
  /// as Commit, and those of Begin's wait.
  [[nodiscard]] virtual absl::Status Seal(const absl::Notification& cancelled) = 0;
};

/// Thread-safe. A version, once published, never changes. A relay that is down is waited for, a
/// minute at most (then UNAVAILABLE): it may be starting again. `cancelled`, once notified, ends
/// that wait with CANCELLED.
class WeightsRelay {
 public:
  virtual ~WeightsRelay() = default;

  /// Makes room for a version that so many writers fill together. ALREADY_EXISTS when the version
  /// is there. PERMISSION_DENIED: the relay wants a capability, and this is not the job's.
  virtual absl::StatusOr<std::unique_ptr<VersionWriter>> Begin(
      const Publication& what, const relay::SafetensorsLayout& layout, int writers,
      const absl::Notification& cancelled) = 0;

  /// Another writer's end of a version that was begun with the same layout. An error: it is not on
  /// this machine.
  virtual absl::StatusOr<std::unique_ptr<VersionWriter>> Join(
      const Publication& what, const std::string& ticket,
      const relay::SafetensorsLayout& layout) = 0;

  /// Calls `use` with the bytes of the version (a verified safetensors file in memory), which stay
  /// as they are until it returns. NOT_FOUND when there is no such version.
  [[nodiscard]] virtual absl::Status Load(
      const Version& what, const absl::Notification& cancelled,
      absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> use) = 0;

  /// Gives back the memory of what this publisher has published for the job.
  virtual void Forget(const std::string& job) = 0;
};

/// `place` is the host:port of this machine's relay, or an absolute folder that trainer and
/// rollouts share (for one machine without a relay, and for tests): the newest three versions of
/// each job are kept there. `holder` names this worker in the relay's messages.
absl::StatusOr<std::unique_ptr<WeightsRelay>> MakeWeightsRelay(const std::string& place,
                                                               const std::string& token,
                                                               const std::string& holder);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
