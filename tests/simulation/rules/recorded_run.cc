#include "tests/simulation/rules/recorded_run.h"

#include <algorithm>

namespace baton::simulation {
namespace {

// The recorded batch of a step; false: it is not known whole.
bool ReadBatch(const JobHistory& history, int64_t step, std::vector<Payload>* batch) {
  batch->clear();
  const auto found = history.batches.find(step);
  if (found == history.batches.end()) return false;
  for (const store::v1::BatchEntry& entry : found->second.entries()) {
    const store::v1::TrajectoryRow& row = entry.trajectory();
    const auto weights = history.published.find(row.policy_version());
    if (weights == history.published.end()) return false;
    Payload response =
        Respond(weights->second, row.purpose(), row.prompt_id(), row.prompt_index(), row.sample());
    response.id = row.id();
    response.version = row.policy_version();
    const auto reward = row.scores().find("reward");
    response.reward = reward == row.scores().end() ? 0 : reward->second;
    batch->push_back(response);
  }
  return true;
}

}  // namespace

ExpectedRun RecordedRun(const v1::JobSpec& effective, const JobHistory& history, int64_t steps,
                        const std::string& role) {
  ExpectedRun run;
  run.weights = InitialWeights(effective, role);
  for (int64_t step = 1; step <= steps; ++step) {
    run.possible = ReadBatch(history, step, &run.batch);
    if (!run.possible) return run;
    run.weights = Train(run.weights, Filter(effective, run.batch));
  }
  return run;
}

ExpectedRun RunOf(const v1::JobSpec& effective, const JobHistory& history, int64_t steps,
                  const std::string& role) {
  return IsAsync(effective) ? RecordedRun(effective, history, steps, role)
                            : ExpectRun(effective, steps, role);
}

ExpectedEnd EndOf(const v1::JobSpec& effective, const JobHistory& history, int64_t done) {
  if (!IsAsync(effective)) return ExpectEnd(effective);
  return ExpectEnd(effective, [&](int64_t step) {
    // Nothing is recorded of later steps, and the job has not ended if one of them follows.
    return step <= done ? RecordedRun(effective, history, step) : ExpectedRun();
  });
}

std::optional<uint64_t> UpdatesBetween(const JobHistory& history, uint64_t a, uint64_t b) {
  const auto legs = [&](uint64_t weights) {
    std::vector<uint64_t> all = {weights};
    for (auto it = history.made_by.find(weights); it != history.made_by.end();
         it = history.made_by.find(all.back())) {
      all.push_back(it->second.before);
    }
    return all;
  };
  const std::vector<uint64_t> of_a = legs(a), of_b = legs(b);
  for (size_t i = 0; i < of_a.size(); ++i) {
    const auto common = std::find(of_b.begin(), of_b.end(), of_a[i]);
    if (common == of_b.end()) continue;
    return i + static_cast<uint64_t>(common - of_b.begin());
  }
  return std::nullopt;
}

}  // namespace baton::simulation
