#include "tests/fake_worker/fake_weights.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/worker/checkpoint_files.h"
#include "xxhash.h"

namespace baton::fake {
namespace {

class Hasher {
 public:
  explicit Hasher(uint64_t seed) : value_(seed) {}
  /// Length first, so that no two sequences of texts run together alike.
  void Add(absl::string_view text) {
    Add(static_cast<uint64_t>(text.size()));
    value_ = XXH3_64bits_withSeed(text.data(), text.size(), value_);
  }
  void Add(uint64_t number) { value_ = XXH3_64bits_withSeed(&number, sizeof(number), value_); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

std::string WeightsFile(const std::string& folder) { return folder + "/weights.json"; }

absl::StatusOr<uint64_t> ParseWeights(const std::string& path, absl::StatusCode missing) {
  std::ifstream file(path);
  if (!file) return absl::Status(missing, absl::StrCat("no fake weights at ", path));
  std::stringstream text;
  text << file.rdbuf();
  const auto json = nlohmann::json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  uint64_t weights = 0;
  if (!json.is_object() || !json.contains("weights") || !json["weights"].is_string() ||
      !absl::SimpleHexAtoi(json["weights"].get<std::string>(), &weights)) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected {\"weights\": \"16 hexadecimal digits\"}"));
  }
  return weights;
}

std::string ToJson(uint64_t weights) {
  return nlohmann::json{{"weights", absl::StrFormat("%016x", weights)}}.dump() + "\n";
}

struct Registry {
  absl::Mutex mu;
  std::map<std::string, uint64_t> published ABSL_GUARDED_BY(mu);
};

Registry& GlobalRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

std::string KeyOf(const std::string& job, uint64_t version) {
  return absl::StrCat(absl::StrReplaceAll(job, {{"/", "_"}}), "-", version);
}

}  // namespace

uint64_t InitialWeights(const v1::JobSpec& spec) {
  Hasher hasher(0x6261746f6e);
  hasher.Add(spec.model().path());
  hasher.Add(spec.model().init().characters());
  hasher.Add(static_cast<uint64_t>(spec.data().seed()));
  return hasher.value();
}

uint64_t TrainedWeights(uint64_t weights, const std::vector<v1::Trajectory>& batch) {
  Hasher hasher(weights);
  hasher.Add(static_cast<uint64_t>(batch.size()));
  for (const v1::Trajectory& trajectory : batch) {
    hasher.Add(trajectory.prompt_id());
    hasher.Add(trajectory.sample_index());
    hasher.Add(trajectory.prompt_text());
    hasher.Add(trajectory.response_text());
    std::map<std::string, const v1::Column*> columns;
    for (const v1::Column& column : trajectory.columns()) columns[column.name()] = &column;
    for (const auto& [name, column] : columns) {
      hasher.Add(name);
      hasher.Add(column->data());
    }
  }
  return hasher.value();
}

absl::Status SaveWeights(uint64_t weights, const std::string& folder) {
  return WriteCheckpointFile(WeightsFile(folder), ToJson(weights));
}

absl::StatusOr<uint64_t> LoadWeights(const std::string& folder) {
  return ParseWeights(WeightsFile(folder), absl::StatusCode::kNotFound);
}

absl::Status FakeRelay::Publish(const std::string& job, uint64_t version, uint64_t weights) const {
  if (!place_.empty() && place_[0] == '/') {
    return WriteCheckpointFile(absl::StrCat(place_, "/", KeyOf(job, version)), ToJson(weights));
  }
  Registry& registry = GlobalRegistry();
  absl::MutexLock lock(&registry.mu);
  registry.published[absl::StrCat(place_, " ", KeyOf(job, version))] = weights;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FakeRelay::Load(const std::string& job, uint64_t version) const {
  if (!place_.empty() && place_[0] == '/') {
    return ParseWeights(absl::StrCat(place_, "/", KeyOf(job, version)),
                        absl::StatusCode::kNotFound);
  }
  Registry& registry = GlobalRegistry();
  absl::MutexLock lock(&registry.mu);
  const auto it = registry.published.find(absl::StrCat(place_, " ", KeyOf(job, version)));
  if (it == registry.published.end()) {
    return absl::NotFoundError(absl::StrCat(job, " has not published version ", version));
  }
  return it->second;
}

}  // namespace baton::fake
