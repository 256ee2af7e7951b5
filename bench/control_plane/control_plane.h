// The parts of control_plane_bench.
#ifndef BATON_BENCH_CONTROL_PLANE_CONTROL_PLANE_H_
#define BATON_BENCH_CONTROL_PLANE_CONTROL_PLANE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace baton::bench {

/// A task of the dispatch benches is so many bytes on the wire.
inline constexpr size_t kTaskBytes = 300;

/// control_plane_worker.cc: the child process. `workers` of them attach to `controller`; "sdk" are
/// embedded by sdk/worker, "raw" are bare gRPC clients that answer each task at once. Runs until
/// the process gets SIGTERM. Returns an exit code.
int RunWorkers(const std::string& controller, const std::string& kind, int workers, int credits);

struct DispatchResult {
  std::vector<double> latency_us;  ///< Per task, warm-up left out.
  double tasks_per_second = 0;
  int64_t task_rows = 0, result_rows = 0;  ///< In the store afterwards; 0 for "raw".
  int64_t tasks = 0;                       ///< Finished in all.
};

struct DispatchOptions {
  std::string program;  ///< Path of this executable, which is started again for the workers.
  std::string folder;   ///< For the store.
  std::string kind;     ///< "sdk": with SDK and store; "raw": gRPC alone.
  int workers = 1;
  int window = 1;  ///< Tasks outstanding per worker.
  /// Rows are synced to the disk, as those of a job's commands are and, with --survive-power-cut,
  /// all; otherwise as those of generated and scored trajectories are.
  bool synced = false;
  int64_t tasks = 0;
};

/// control_plane_dispatch.cc: sends tasks through the controller's gRPC server to workers in a
/// process of their own. With the store, a task leaves after its row is committed and is done
/// after its result's row is.
DispatchResult MeasureDispatch(const DispatchOptions& options);

struct CoreResult {
  double events_per_second = 0;
  uint64_t effects = 0;
  std::map<std::string, uint64_t> mix;  ///< Events by kind.
};

/// control_plane_core.cc: records the events of a job of `steps` steps, 512 prompts x 16 samples
/// on 64 replicas, then plays them to a fresh JobCore.
CoreResult MeasureCore(int steps);

struct SourcesResult {
  std::vector<double> step_ms;    ///< From the end of one step to the end of the next.
  double evaluation_seconds = 0;  ///< Evaluation of the whole data set, before the first step.
  size_t series = 0;              ///< Metrics that the job shows in the end.
  std::string error;              ///< Empty: the job ended well.
};

struct SourcesOptions {
  std::string folder;  ///< For the data root.
  int examples = 0;    ///< Number of held-out examples.
  int sources = 0;     ///< Sources that the examples name, evenly.
  int steps = 0;       ///< Steps of eight responses each.
};

/// control_plane_sources.cc: a job on a controller and a fake worker, each a process of its own. It
/// evaluates on its held-out data once, then it trains.
SourcesResult MeasureSources(const SourcesOptions& options);

struct DataResult {
  int64_t trajectories = 0;      ///< Number in the batch.
  int64_t payload_bytes = 0;     ///< The batch, each trajectory once.
  int64_t fetched_bytes = 0;     ///< Received by all ranks together, over TCP.
  int64_t score_bytes = 0;       ///< Tasks of reference and critic …
  int64_t input_bytes = 0;       ///< … and the columns among them that their methods read.
  int64_t controller_bytes = 0;  ///< Memory allocated while the batch can be fetched …
  int64_t peak_bytes = 0;        ///< … and at most, with what was free and not given back yet.
  std::string error;             ///< Empty: the ranks fetched their batch.
};

/// control_plane_data.cc: one step of a job of `prompts` prompts x 8 responses on a controller that
/// is a process of its own. Four data-parallel actor ranks fetch the batch.
DataResult MeasureData(const std::string& folder, int prompts);

}  // namespace baton::bench

#endif  // BATON_BENCH_CONTROL_PLANE_CONTROL_PLANE_H_
