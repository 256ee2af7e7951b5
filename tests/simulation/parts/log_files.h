// A job's experience log as its disk holds it: what controller/experience/experience_log.cc leaves,
// record by record.
#ifndef BATON_TESTS_SIMULATION_PARTS_LOG_FILES_H_
#define BATON_TESTS_SIMULATION_PARTS_LOG_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "controller/experience/experience_log.h"
#include "tests/simulation/parts/random.h"

namespace baton::simulation {

class LogFiles {
 public:
  /// Appends to file `*file`. 0, as a controller begins with, or a full one: a new file begins, and
  /// the full one is synced.
  experience::Location Append(absl::string_view bytes, uint32_t* file);
  /// DATA_LOSS, OUT_OF_RANGE: as ExperienceLog::Read.
  absl::StatusOr<std::string> Read(const experience::Location& at) const;
  /// Whether a record was ever written there. The disk may have lost it since.
  bool EverWritten(const experience::Location& at) const;
  /// Whether a power cut took the record that was written there.
  bool LostToPowerCut(const experience::Location& at) const;
  void Sync();
  /// As ExperienceLog::DropFiles.
  void DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed);
  /// Whether the file of that record was deleted.
  bool Deleted(const experience::Location& at) const {
    return written_.count(at.file) > 0 && files_.count(at.file) == 0;
  }

  /// Every second record is damaged.
  void Damage(Random& random);
  /// Loses unsynced records: all, the last, or any of them, as a disk may write in any order.
  /// Returns their number.
  uint64_t CutPower(Random& random);

 private:
  struct Record {
    std::string bytes;
    bool synced = false;
    bool damaged = false;
    bool lost = false;  // to a power cut
  };
  const Record* Find(const experience::Location& at) const;

  std::map<uint32_t, std::vector<Record>> files_;
  std::map<uint32_t, size_t> written_;  // records, ever
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_LOG_FILES_H_
