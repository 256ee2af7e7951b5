// Moves between the seats of one job.
//
// Workers are granted as they come, so a versatile one may sit where a specialised one, free later,
// would do, while a seat that only the versatile one could take stays empty. A chain of moves mends
// that: its first worker takes the missing seat, each next one the seat of the one before it, and
// the last one is free. (An augmenting path of the matching of workers to seats.)
#ifndef BATON_CONTROLLER_CORE_RESEAT_H_
#define BATON_CONTROLLER_CORE_RESEAT_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace baton::controller {

/// A worker that may move: one of the job, or a free one.
struct SeatedWorker {
  std::string id;
  std::string roles;  ///< Of its seat, joined by "+"; "": it is free.
};

/// True when the worker plays all of these roles.
using PlaysRoles = std::function<bool(const std::string& id, const std::string& roles)>;

/// The shortest chain that fills a seat of the roles `missing`; none: there is none. Who sits in
/// a seat of `anchored` moves only where no other chain does it. Pure; earlier `workers` first.
std::vector<SeatedWorker> FindChain(const std::string& missing,
                                    const std::vector<SeatedWorker>& workers,
                                    const std::set<std::string>& anchored, const PlaysRoles& plays);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_RESEAT_H_
