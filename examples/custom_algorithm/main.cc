// An advantage estimator of one's own: the reward less the median of its group. Start it beside
// the cluster and submit job.yaml, whose graph calls it.
#include <baton/worker.h>

#include <algorithm>
#include <cstdio>
#include <vector>

absl::StatusOr<baton::v1::TaskResult> LessMedian(const baton::v1::Task& task, baton::TaskContext&) {
  std::vector<double> rewards;
  for (const baton::v1::Trajectory& response : task.score().group()) {
    rewards.push_back(response.scores().at("reward"));
  }
  if (rewards.empty()) return absl::InvalidArgumentError("the node needs `over: group`");
  std::sort(rewards.begin(), rewards.end());
  const size_t n = rewards.size();
  const double median = (rewards[(n - 1) / 2] + rewards[n / 2]) / 2;
  baton::v1::TaskResult result;
  (*result.mutable_metrics())["advantage"] =
      task.score().trajectory().scores().at("reward") - median;
  return result;
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s CONTROLLER [TOKEN]\n", argv[0]), 2;
  baton::WorkerOptions options;
  options.controller = argv[1];
  if (argc > 2) options.token = argv[2];
  auto worker = baton::Worker::Create(options);
  absl::Status status = worker.status();
  if (status.ok())
    status = (*worker)->RegisterMethod("median", "compute_advantage", 64, LessMedian);
  if (status.ok()) status = baton::RunUntilSignal(**worker);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
