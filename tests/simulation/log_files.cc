#include "tests/simulation/log_files.h"

namespace baton::simulation {
namespace {
constexpr size_t kRecordsPerFile = 8;
}  // namespace

controller::PayloadLocation LogFiles::Append(const Payload& payload, uint32_t* file) {
  if (*file == 0 || files_[*file].size() >= kRecordsPerFile) {
    if (*file != 0) {
      for (Record& record : files_[*file]) record.synced = true;
    }
    *file = files_.empty() ? 1 : files_.rbegin()->first + 1;
  }
  std::vector<Record>& records = files_[*file];
  records.push_back({payload});
  return {*file, records.size() - 1, 1};
}

std::optional<Payload> LogFiles::Read(const controller::PayloadLocation& at,
                                      uint64_t trajectory) const {
  const auto file = files_.find(at.file);
  if (file == files_.end() || at.offset >= file->second.size()) return std::nullopt;
  const Record& record = file->second[at.offset];
  if (record.damaged || record.payload.id != trajectory) return std::nullopt;
  return record.payload;
}

void LogFiles::DropFilesBefore(uint32_t file) {
  while (files_.size() > 1 && files_.begin()->first < file) files_.erase(files_.begin());
}

void LogFiles::Damage(Random& random) {
  for (auto& [file, records] : files_) {
    for (Record& record : records) record.damaged |= random.Percent(50);
  }
}

uint64_t LogFiles::CutPower(Random& random) {
  const int kept_percent = random.Between(0, 2) * 50;
  const bool in_order = random.Percent(50);
  uint64_t lost = 0;
  for (auto& [file, records] : files_) {
    bool ends = false;
    for (Record& record : records) {
      if (record.synced) continue;
      const bool kept = !ends && random.Percent(kept_percent);
      ends |= !kept && in_order;
      record.damaged |= !kept;
      lost += kept ? 0 : 1;
    }
    // A torn record may stay at the end of the file, or its size is of before.
    const bool torn = random.Percent(50);
    while (!records.empty() && records.back().damaged && !records.back().synced) {
      if (torn && (records.size() < 2 || !records[records.size() - 2].damaged)) break;
      records.pop_back();
    }
    for (Record& record : records) record.synced = true;  // the disk holds what is left
  }
  return lost;
}

}  // namespace baton::simulation
