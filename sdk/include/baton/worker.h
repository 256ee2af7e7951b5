// Embed a worker of Baton in a program: link Baton::worker.
//
//   #include <baton/worker.h>
//
//   absl::StatusOr<baton::v1::TaskResult> Brevity(const baton::v1::Task& task,
//                                                 baton::TaskContext&) {
//     baton::v1::TaskResult result;
//     const size_t bytes = task.score().trajectory().response_text().size();
//     (*result.mutable_metrics())["reward"] = 1 / (1 + static_cast<double>(bytes) / 100);
//     return result;
//   }
//
//   int main() {
//     baton::WorkerOptions options;
//     options.controller = "127.0.0.1:7077";
//     auto worker = baton::Worker::Create(options);
//     if (!worker.ok()) return 1;
//     auto added = (*worker)->RegisterMethod("reward", "compute_brevity", /*credits=*/64, Brevity);
//     return added.ok() && baton::RunUntilSignal(**worker).ok() ? 0 : 1;
//   }
//
// A job calls the method by its name: `reward: {method: compute_brevity}`. A worker that trains
// includes <baton/experience.h> too. docs/embed.md says how to build such a program, and
// docs/worker-protocol.md what a worker of each role does.
#ifndef BATON_SDK_INCLUDE_BATON_WORKER_H_
#define BATON_SDK_INCLUDE_BATON_WORKER_H_

#include "sdk/common/contracts/worker_features.h"  // names for WorkerOptions::features
#include "sdk/common/rpc/error.h"                  // MakeError, ErrorReason
#include "sdk/worker/checkpoint_files.h"           // for roles that save checkpoints
#include "sdk/worker/run_until_signal.h"           // RunUntilSignal
#include "sdk/worker/score_output.h"               // OutputName, for roles that score
#include "sdk/worker/task_context.h"               // TaskContext
#include "sdk/worker/worker.h"                     // Worker and its options

#endif  // BATON_SDK_INCLUDE_BATON_WORKER_H_
