#include "controller/core/reseat.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>

namespace baton::controller {
namespace {

// Breadth first over the kinds of seats that could be given up, from the missing one.
std::vector<SeatedWorker> ShortestChain(const std::string& missing,
                                        const std::vector<SeatedWorker>& workers,
                                        const PlaysRoles& plays) {
  std::map<std::string, std::vector<SeatedWorker>> chains = {{missing, {}}};  // up to that seat
  std::deque<std::string> seats = {missing};
  while (!seats.empty()) {
    const std::string seat = seats.front();
    seats.pop_front();
    for (const SeatedWorker& worker : workers) {
      if (!plays(worker.id, seat)) continue;
      std::vector<SeatedWorker> chain = chains.at(seat);
      chain.push_back(worker);
      if (worker.roles.empty()) return chain;
      if (chains.emplace(worker.roles, chain).second) seats.push_back(worker.roles);
    }
  }
  return {};
}

}  // namespace

std::vector<SeatedWorker> FindChain(const std::string& missing,
                                    const std::vector<SeatedWorker>& workers,
                                    const std::set<std::string>& anchored,
                                    const PlaysRoles& plays) {
  std::vector<SeatedWorker> movable;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(movable),
               [&](const SeatedWorker& worker) { return anchored.count(worker.roles) == 0; });
  std::vector<SeatedWorker> chain = ShortestChain(missing, movable, plays);
  return chain.empty() ? ShortestChain(missing, workers, plays) : chain;
}

}  // namespace baton::controller
