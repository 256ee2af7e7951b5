// Choice of the workers that a job would get.
#ifndef BATON_CONTROLLER_CLUSTER_CHOOSE_WORKERS_H_
#define BATON_CONTROLLER_CLUSTER_CHOOSE_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/cluster/cluster_workers.h"
#include "controller/cluster/need_queue.h"

namespace baton::controller {

/// A worker, and the roles of the worker slot that it takes, joined by "+".
using ChosenWorkers = std::vector<std::pair<std::string, std::string>>;

/// The workers out of `ids` that a job of `project` gets for `need`, at most `room`. A job that has
/// not started gets all that it lacks or nullopt; one that has started gets what there is. Adds to
/// `examined` the number of workers that it looked at. Pure.
std::optional<ChosenWorkers> ChooseWorkers(const ClusterWorkers& workers,
                                           const std::vector<std::string>& ids,
                                           const std::string& project, const WorkerNeed& need,
                                           size_t room, int64_t* examined);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CHOOSE_WORKERS_H_
