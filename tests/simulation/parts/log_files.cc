#include "tests/simulation/parts/log_files.h"

namespace baton::simulation {
namespace {
constexpr size_t kRecordsPerFile = 8;
}  // namespace

experience::Location LogFiles::Append(absl::string_view bytes, uint32_t* file) {
  if (*file == 0 || files_[*file].size() >= kRecordsPerFile) {
    if (*file != 0) {
      for (Record& record : files_[*file]) record.synced = true;
    }
    *file = files_.empty() ? 1 : files_.rbegin()->first + 1;
  }
  std::vector<Record>& records = files_[*file];
  records.push_back({std::string(bytes)});
  ++written_[*file];
  return {*file, records.size() - 1, static_cast<uint32_t>(bytes.size())};
}

const LogFiles::Record* LogFiles::Find(const experience::Location& at) const {
  const auto file = files_.find(at.file);
  if (file == files_.end() || at.offset >= file->second.size()) return nullptr;
  return &file->second[at.offset];
}

absl::StatusOr<std::string> LogFiles::Read(const experience::Location& at) const {
  const Record* record = Find(at);
  if (record == nullptr) return absl::OutOfRangeError("there is no such record");
  if (record->damaged || record->bytes.size() != at.size) return absl::DataLossError("damaged");
  return record->bytes;
}

bool LogFiles::EverWritten(const experience::Location& at) const {
  const auto written = written_.find(at.file);
  return written != written_.end() && at.offset < written->second;
}

bool LogFiles::LostToPowerCut(const experience::Location& at) const {
  const auto file = files_.find(at.file);
  if (file == files_.end()) return false;  // dropped, with its rows
  const Record* record = Find(at);
  return EverWritten(at) && (record == nullptr || record->lost);
}

void LogFiles::Sync() {
  for (auto& [file, records] : files_) {
    for (Record& record : records) record.synced = true;
  }
}

void LogFiles::DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed) {
  const uint32_t newest = files_.empty() ? 0 : files_.rbegin()->first;
  std::erase_if(files_, [&](const auto& file) {
    return file.first < end && file.first != newest && !needed(file.first);
  });
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
      record.lost |= !kept;
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
