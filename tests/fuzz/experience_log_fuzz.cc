// A log whose files hold any bytes is opened, read, appended to, damaged and opened again: what
// was appended and not damaged since is read back exactly, and nothing else is read as it.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "controller/experience/experience_log.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"

namespace {

namespace fs = std::filesystem;
using baton::experience::ExperienceLog;
using baton::experience::Location;

constexpr int kSteps = 40;
constexpr uint64_t kHeader = 16;

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

// One folder for the process, emptied for each input.
const std::string& Folder() {
  static const baton::TestFolder folder(baton::TestFolder::InMemory());
  return folder.path();
}

class Run {
 public:
  explicit Run(FuzzedDataProvider* input) : input_(input) {
    for (const auto& entry : fs::directory_iterator(Folder())) fs::remove_all(entry.path());
    if (input_->ConsumeBool()) {  // what some other program left
      WriteFile(File(1), input_->ConsumeRandomLengthString(200));
    }
    Open();
    for (int i = 0; i < kSteps && input_->remaining_bytes() > 0; ++i) Step();
    Open();
    ReadAll();
  }

 private:
  struct Record {
    Location at;
    std::string payload;
  };

  static std::string File(uint32_t number) {
    char name[32];
    std::snprintf(name, sizeof name, "/%08u.log", number);
    return Folder() + name;
  }

  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  void Open() {
    log_.reset();
    auto log = ExperienceLog::Open(Folder());
    Require(log.ok(), "whatever its files hold, a log can be opened");
    log_ = *std::move(log);
  }

  void ReadAll() {
    for (const Record& record : records_) {
      const auto payload = log_->Read(record.at);
      Require(payload.ok(), "what was appended is there");
      Require(*payload == record.payload, "what was appended is read back exactly");
    }
  }

  void Step() {
    switch (input_->ConsumeIntegralInRange(0, 7)) {
      case 0:
      case 1:
        return Append();
      case 2:
        Open();
        return ReadAll();
      case 3:
        return ReadAnywhere();
      case 4:
        return Damage();
      case 5:
        return Tear();
      case 6:
        return Stray();
      default:
        Require(log_->Sync().ok(), "a log can be synced");
        return Drop();
    }
  }

  void Append() {
    const std::string payload = input_->ConsumeRandomLengthString(64);
    const auto at = log_->Append(payload);
    Require(at.ok() && at->size == payload.size(), "a log can be appended to");
    for (const Record& record : records_) {
      const bool apart = record.at.file != at->file ||
                         record.at.offset + kHeader + record.at.size <= at->offset ||
                         at->offset + kHeader + at->size <= record.at.offset;
      Require(apart, "no record takes another one's place");
    }
    records_.push_back({*at, payload});
  }

  // A location that the log never gave: an error, or a record that is whole.
  void ReadAnywhere() {
    Location at{input_->ConsumeIntegralInRange<uint32_t>(0, 4),
                input_->ConsumeIntegralInRange<uint64_t>(0, 400),
                input_->ConsumeIntegral<uint8_t>()};
    if (input_->ConsumeIntegralInRange(0, 7) == 0) at.offset = input_->ConsumeIntegral<uint64_t>();
    const auto payload = log_->Read(at);
    if (payload.ok()) Require(payload->size() == at.size, "a read is as long as its location says");
  }

  // Bytes within one record change while the log is closed.
  void Damage() {
    if (records_.empty()) return;
    const size_t which = input_->ConsumeIntegralInRange<size_t>(0, records_.size() - 1);
    const Record record = records_[which];
    const uint64_t byte = input_->ConsumeIntegralInRange<uint64_t>(0, kHeader + record.at.size - 1);
    const char flip = static_cast<char>(input_->ConsumeIntegralInRange(1, 255));
    log_.reset();
    {
      std::fstream file(File(record.at.file), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(record.at.offset + byte));
      const char before = static_cast<char>(file.get());
      file.seekp(static_cast<std::streamoff>(record.at.offset + byte));
      file.put(static_cast<char>(before ^ flip));
    }
    records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(which));
    Open();
    const auto status = log_->Read(record.at).status();
    Require(absl::IsDataLoss(status) || absl::IsOutOfRange(status), "a damaged record is an error");
    ReadAll();
  }

  // The newest file ends early, or its writer died in the middle of a record.
  void Tear() {
    uint32_t newest = 0;
    for (const Record& record : records_) newest = std::max(newest, record.at.file);
    if (newest == 0 || fs::exists(File(newest + 1))) return;
    const uint64_t size = fs::file_size(File(newest));
    const uint64_t kept =
        size - input_->ConsumeIntegralInRange<uint64_t>(0, std::min<uint64_t>(size, 40));
    log_.reset();
    fs::resize_file(File(newest), kept);
    std::vector<Record> left;
    for (Record& record : records_) {
      const bool whole =
          record.at.file != newest || record.at.offset + kHeader + record.at.size <= kept;
      if (whole) left.push_back(std::move(record));
    }
    records_ = std::move(left);
    Open();
    ReadAll();
  }

  // Files that are not the log's.
  void Stray() {
    static constexpr const char* kNames[] = {
        "1.log",          "+0000002.log", "x.log",       "00000009.log.tmp",
        "4294967296.log", " 3.log",       "00000000.log"};
    WriteFile(Folder() + "/" + input_->PickValueInArray(kNames), "stray");
    Open();
    ReadAll();
  }

  void Drop() {
    const uint32_t end = input_->ConsumeIntegralInRange<uint32_t>(0, 4);
    const uint32_t odd = input_->ConsumeIntegralInRange<uint32_t>(0, 2);  // 2: none is needed
    const auto needed = [odd](uint32_t file) { return file % 2 == odd; };
    Require(log_->DropFiles(end, needed).ok(), "old files can be dropped");
    std::vector<Record> left;
    for (Record& record : records_) {
      if (log_->Read(record.at).ok()) {
        left.push_back(std::move(record));
      } else {
        Require(record.at.file < end && !needed(record.at.file),
                "only files that are old and not needed are dropped");
      }
    }
    records_ = std::move(left);
  }

  FuzzedDataProvider* const input_;
  std::unique_ptr<ExperienceLog> log_;
  std::vector<Record> records_;  // appended, and not damaged since
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  baton::LogOptions options;
  options.file = "/dev/null";
  baton::InitLog(options);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  Run run(&input);
  return 0;
}
