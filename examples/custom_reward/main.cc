// A reward worker of one's own in C++: short answers are better. Start it beside the cluster and
// name its method in the job: `reward: {method: compute_brevity}`.
#include <baton/worker.h>

#include <cstdio>

absl::StatusOr<baton::v1::TaskResult> Brevity(const baton::v1::Task& task, baton::TaskContext&) {
  const baton::v1::Trajectory& trajectory = task.score().trajectory();
  const double length = static_cast<double>(trajectory.response_text().size());
  baton::v1::TaskResult result;
  (*result.mutable_metrics())["reward"] = 1 / (1 + length / 100);
  (*result.mutable_metrics())["length"] = length;
  return result;
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s CONTROLLER [TOKEN]\n", argv[0]), 2;
  baton::WorkerOptions options;
  options.controller = argv[1];
  if (argc > 2) options.token = argv[2];
  auto worker = baton::Worker::Create(options);
  absl::Status status = worker.status();
  if (status.ok()) status = (*worker)->RegisterMethod("reward", "compute_brevity", 64, Brevity);
  if (status.ok()) status = baton::RunUntilSignal(**worker);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
