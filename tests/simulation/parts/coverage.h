// The record of which states met which events and faults.
#ifndef BATON_TESTS_SIMULATION_PARTS_COVERAGE_H_
#define BATON_TESTS_SIMULATION_PARTS_COVERAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "baton/v1/job_service.pb.h"
#include "controller/core/job/events.h"
#include "tests/simulation/parts/faults.h"

namespace baton::simulation {

class Coverage {
 public:
  void Met(v1::Job::State state, const controller::Event& event) {
    ++events_[{static_cast<int>(state), event.index()}];
  }
  void Met(v1::Job::State state, const std::string& phase, FaultKind fault) {
    ++faults_[{static_cast<int>(state), static_cast<int>(fault)}];
    if (!phase.empty()) ++phases_[{phase, static_cast<int>(fault)}];
  }
  void DrainedAsSlow() { ++drained_as_slow_; }
  uint64_t drained_as_slow() const { return drained_as_slow_; }
  /// Something worth counting that is neither event nor fault, by its name.
  void Happened(const std::string& what, uint64_t times = 1) { happened_[what] += times; }
  uint64_t happened(const std::string& what) const {
    const auto it = happened_.find(what);
    return it == happened_.end() ? 0 : it->second;
  }
  void Ended(v1::Job::State state) { ++ends_[static_cast<int>(state)]; }
  void Merge(const Coverage& other);
  /// Tables of counts, and what was never reached.
  std::string Report() const;

 private:
  std::map<std::pair<int, size_t>, uint64_t> events_;
  std::map<std::pair<int, int>, uint64_t> faults_;
  std::map<std::pair<std::string, int>, uint64_t> phases_;
  std::map<int, uint64_t> ends_;
  uint64_t drained_as_slow_ = 0;
  std::map<std::string, uint64_t> happened_;
};

const char* EventName(const controller::Event& event);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_COVERAGE_H_
