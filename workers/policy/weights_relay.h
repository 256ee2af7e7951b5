// How policy versions travel from the trainer to the rollouts of a machine.
#ifndef BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
#define BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "workers/engine/weights_io.h"

namespace baton::policy {

/// Thread-safe. A version, once published, never changes.
class WeightsRelay {
 public:
  virtual ~WeightsRelay() = default;

  /// Blocks until the version is visible. OK when these very bytes are there already (a repeated
  /// command); ALREADY_EXISTS when others are.
  [[nodiscard]] virtual absl::Status Publish(const std::string& job, uint64_t version,
                                             const engine::WeightsImage& image) = 0;

  /// Calls `use` with the bytes of the version (a safetensors file in memory), which stay as they
  /// are until it returns. NOT_FOUND when there is no such version.
  [[nodiscard]] virtual absl::Status Load(
      const std::string& job, uint64_t version,
      absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> use) = 0;
};

/// Versions as files in a folder that trainer and rollouts share, the newest `keep` of each job:
/// for one machine without a relay, and for tests.
std::unique_ptr<WeightsRelay> MakeFolderRelay(std::string folder, int keep = 3);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_WEIGHTS_RELAY_H_
