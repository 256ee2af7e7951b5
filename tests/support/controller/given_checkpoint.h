// An ended job for tests that can be resumed, though no worker ever saved a checkpoint of it.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_GIVEN_CHECKPOINT_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_GIVEN_CHECKPOINT_H_

#include <string>

#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/store.h"
#include "gtest/gtest.h"

namespace baton::controller {

/// Writes it into the rows of the job of that full name, which no controller has in memory.
inline void GiveCheckpoint(store::Store& store, const std::string& job) {
  const auto stored = store.Get(kJobTable, job);
  store::v1::JobRow row;
  ASSERT_TRUE(stored.ok() && stored->has_value() && row.ParseFromString(**stored));
  row.set_saved_step(0);
  v1::Checkpoint checkpoint;
  checkpoint.set_path("/data/checkpoints/step-0");
  store.Commit({{kJobTable, job, row.SerializeAsString()},
                {kCheckpointTable, NumberKey(job, 0), checkpoint.SerializeAsString()}},
               [](const absl::Status&) {});
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_GIVEN_CHECKPOINT_H_
