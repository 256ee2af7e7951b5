// What a job and the queue tell each other of the job's workers.
#ifndef BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_
#define BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_

#include <cstdint>
#include <set>
#include <string>

namespace baton::controller {

/// What a job tells the queue of its worker slots, by their roles, joined by "+".
struct WorkerSlotHints {
  std::set<std::string> blocking;  ///< Missing, and the job cannot go on without them.
  std::set<std::string> anchored;  ///< Taken, and moving the worker there takes a group apart.
};

/// How a worker did for the job that gives it back.
enum class ReturnReason : uint8_t {
  kGood,
  kSilent,  ///< It let a deadline pass.
  kSlow,    ///< It was persistently slower than its peers.
  kStuck,   ///< It was to leave its role, and did not say in time that it has.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_
