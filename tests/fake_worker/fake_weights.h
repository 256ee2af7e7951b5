// "Weights" that cost nothing: a hash over everything that was trained on, in order. Two runs
// that trained on the same bytes in the same order, and only they, have equal weights.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_WEIGHTS_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::fake {

/// Before the first step: a hash of where the policy starts and of the seed.
uint64_t InitialWeights(const v1::JobSpec& spec);

/// After a step on `batch`: every text, column and score of every trajectory counts, in the
/// batch's order (not their ids, which differ between runs).
uint64_t TrainedWeights(uint64_t weights, const std::vector<v1::Trajectory>& batch);

/// Writes `folder`/weights.json, and reads it back.
[[nodiscard]] absl::Status SaveWeights(uint64_t weights, const std::string& folder);
absl::StatusOr<uint64_t> LoadWeights(const std::string& folder);

/// Stands in for the relay: published versions, visible to all that name the same `place`. An
/// absolute path is a folder that processes share; any other text is a key within this process.
/// Thread-safe.
class FakeRelay {
 public:
  explicit FakeRelay(std::string place) : place_(std::move(place)) {}
  [[nodiscard]] absl::Status Publish(const std::string& job, uint64_t version,
                                     uint64_t weights) const;
  /// NOT_FOUND when it was never published.
  absl::StatusOr<uint64_t> Load(const std::string& job, uint64_t version) const;

 private:
  const std::string place_;
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_WEIGHTS_H_
