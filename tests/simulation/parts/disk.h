// The disk, which survives the controller: its store and the data root.
#ifndef BATON_TESTS_SIMULATION_PARTS_DISK_H_
#define BATON_TESTS_SIMULATION_PARTS_DISK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/store/memory_store.h"
#include "tests/simulation/parts/log_files.h"
#include "tests/simulation/parts/model.h"

namespace baton::simulation {

/// Weights with their step, as an actor (or a critic) holds and saves them.
struct ActorState {
  uint64_t weights = 0;
  int64_t step = 0;
  uint64_t version = 0;
  uint64_t branch = 0;   ///< Grows with every epoch of the actor group that takes the weights on.
  uint64_t updates = 0;  ///< That made the weights.
  friend bool operator==(const ActorState& a, const ActorState& b) {
    return a.weights == b.weights && a.step == b.step && a.version == b.version;
  }
};
/// A checkpoint's folder.
struct CheckpointFolder {
  std::map<std::string, ActorState> trained;  ///< By role.
  store::v1::JobRow row;                      ///< job.json
  bool optimizer = true;                      ///< The optimizer's files are there.
};
struct JobFolder {
  std::map<int64_t, CheckpointFolder> complete;       ///< By step.
  std::map<std::string, CheckpointFolder> temporary;  ///< By path.
  LogFiles log;
};

/// The rows live in the memory store; what commits is handed to it one group at a time. A power cut
/// takes of rows and logs what was not synced; checkpoints are synced before they are complete.
struct Disk {
  store::MemoryStore store;
  std::map<std::string, JobFolder> jobs;
  bool refuses = false;  ///< Commits wait.
  bool full = false;     ///< No payload and no checkpoint can be written.
  bool crowded = false;  ///< The data of jobs elsewhere leave no room for more.
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_DISK_H_
