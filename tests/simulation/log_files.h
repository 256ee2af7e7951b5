// A job's experience log as its disk holds it: what controller/experience/experience_log.cc leaves,
// with records for bytes.
#ifndef BATON_TESTS_SIMULATION_LOG_FILES_H_
#define BATON_TESTS_SIMULATION_LOG_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "controller/core/trajectory.h"
#include "tests/simulation/model.h"
#include "tests/simulation/random.h"

namespace baton::simulation {

class LogFiles {
 public:
  /// Appends to file `*file`. 0, as a controller begins with, or a full one: a new file begins, and
  /// the full one is synced.
  controller::PayloadLocation Append(const Payload& payload, uint32_t* file);
  /// Nothing: the record is not there, is damaged, or is another trajectory's.
  std::optional<Payload> Read(const controller::PayloadLocation& at, uint64_t trajectory) const;
  /// All but the newest.
  void DropFilesBefore(uint32_t file);

  /// Every second record is damaged.
  void Damage(Random& random);
  /// What was not synced is lost: all of it, its end, or any part of it, as a disk may write in
  /// any order. The number of records.
  uint64_t CutPower(Random& random);

 private:
  struct Record {
    Payload payload;
    bool synced = false;
    bool damaged = false;
  };
  std::map<uint32_t, std::vector<Record>> files_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_LOG_FILES_H_
