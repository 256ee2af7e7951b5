#include "controller/cluster/rearrange.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>

namespace baton::controller {
namespace {

// Breadth-first search over the kinds of worker slots that could be given up, from the missing one.
std::vector<PlacedWorker> ShortestChain(const std::string& missing,
                                        const std::vector<PlacedWorker>& workers,
                                        const PlaysRoles& plays) {
  std::map<std::string, std::vector<PlacedWorker>> chains = {
      {missing, {}}};  // up to that worker slot
  std::deque<std::string> worker_slots = {missing};
  while (!worker_slots.empty()) {
    const std::string worker_slot = worker_slots.front();
    worker_slots.pop_front();
    for (const PlacedWorker& worker : workers) {
      if (!plays(worker.id, worker_slot)) continue;
      std::vector<PlacedWorker> chain = chains.at(worker_slot);
      chain.push_back(worker);
      if (worker.roles.empty()) return chain;
      if (chains.emplace(worker.roles, chain).second) worker_slots.push_back(worker.roles);
    }
  }
  return {};
}

}  // namespace

std::vector<PlacedWorker> FindChain(const std::string& missing,
                                    const std::vector<PlacedWorker>& workers,
                                    const std::set<std::string>& anchored,
                                    const PlaysRoles& plays) {
  std::vector<PlacedWorker> movable;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(movable),
               [&](const PlacedWorker& worker) { return anchored.count(worker.roles) == 0; });
  std::vector<PlacedWorker> chain = ShortestChain(missing, movable, plays);
  return chain.empty() ? ShortestChain(missing, workers, plays) : chain;
}

}  // namespace baton::controller
