// Read experience in a worker that trains: the batch of an update, the columns of its trajectories,
// and earlier responses to a prompt. Link Baton::worker.
//
//   #include <baton/experience.h>
//   #include <baton/worker.h>
//
//   // The method "update" of a role. Make `experience` once, from the worker's options.
//   absl::StatusOr<baton::v1::TaskResult> Update(const baton::ExperienceClient& experience,
//                                                baton::TaskContext& context) {
//     auto batch = experience.FetchBatch(context);
//     if (!batch.ok()) return batch.status();
//     for (const baton::v1::Trajectory& trajectory : *batch) {
//       if (const baton::v1::Column* found = baton::FindColumn(trajectory, "advantages")) {
//         const std::vector<float> advantages = baton::RawValues<float>(found->data());
//         …
//       }
//     }
//     return baton::v1::TaskResult();
//   }
//
// docs/worker-protocol.md lists the columns of a batch. A program outside of a job reads recorded
// trajectories with Client::ListTrajectories (<baton/client.h>).
#ifndef BATON_SDK_INCLUDE_BATON_EXPERIENCE_H_
#define BATON_SDK_INCLUDE_BATON_EXPERIENCE_H_

#include "baton/v1/experience.pb.h"           // Trajectory, Column, EarlierResponse
#include "sdk/common/contracts/raw_values.h"  // RawValues
#include "sdk/common/messages/columns.h"      // FindColumn, MakeColumn
#include "sdk/worker/experience_client.h"     // ExperienceClient

#endif  // BATON_SDK_INCLUDE_BATON_EXPERIENCE_H_
