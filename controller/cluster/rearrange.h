// Moves between the worker slots of one job.
//
// Workers are granted as they come, so a versatile one may sit where a specialised one, free later,
// would do, while a worker slot that only the versatile one could take stays empty. A chain of
// moves solves this: its first worker takes the missing worker slot, each next worker takes the
// worker slot of the one before it, and the last worker is free. (An augmenting path of the
// matching of workers to worker slots.)
#ifndef BATON_CONTROLLER_CLUSTER_REARRANGE_H_
#define BATON_CONTROLLER_CLUSTER_REARRANGE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace baton::controller {

/// A worker that may move: one of the job, or a free one.
struct PlacedWorker {
  std::string id;
  std::string roles;  ///< Roles of its worker slot, joined by "+"; "": free.
};

/// True when the worker plays all of these roles.
using PlaysRoles = std::function<bool(const std::string& id, const std::string& roles)>;

/// The shortest chain that fills a worker slot of the roles `missing`; empty: there is none. A
/// worker in a worker slot of `anchored` moves only if no other chain fills it. Pure; earlier
/// `workers` first.
std::vector<PlacedWorker> FindChain(const std::string& missing,
                                    const std::vector<PlacedWorker>& workers,
                                    const std::set<std::string>& anchored, const PlaysRoles& plays);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_REARRANGE_H_
