#ifndef BATON_CONTROLLER_CORE_SEAT_HINTS_H_
#define BATON_CONTROLLER_CORE_SEAT_HINTS_H_

#include <set>
#include <string>

namespace baton::controller {

/// What a job tells the queue of its seats, by their roles, joined by "+".
struct SeatHints {
  std::set<std::string> blocking;  ///< Missing, and the job cannot go on without them.
  std::set<std::string> anchored;  ///< Taken, and moving who sits there takes a group apart.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_SEAT_HINTS_H_
