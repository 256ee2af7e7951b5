#include "controller/runtime/job_files/data_cache.h"

#include <sys/stat.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/calls/data_readers.h"

namespace baton::controller {
namespace {

constexpr size_t kManySlots = 1024;

// A key of the files in their present state, and of how they are read. "": one of them is no file.
std::string KeyOf(const std::vector<std::string>& paths, const DataSetOptions& options) {
  std::string key =
      absl::StrCat(options.needs_response, options.needs_pair, " ", options.max_memory_bytes);
  const auto add = [&key](const std::string& text) {
    absl::StrAppend(&key, " ", text.size(), ":", text);
  };
  for (const std::string* text : {&options.prompt_key, &options.answer_key, &options.response_key,
                                  &options.source_key, &options.extra_key}) {
    add(*text);
  }
  for (const AnswerUse& use : options.answer_uses) {
    add(absl::StrCat(static_cast<int>(use.kind), use.place));
    for (const std::string& source : use.sources) add(source);
  }
  for (const std::string& path : paths) {
    struct stat is = {};
    if (::stat(path.c_str(), &is) != 0 || !S_ISREG(is.st_mode)) return "";
    absl::StrAppend(&key, " ", is.st_dev, ":", is.st_ino, ":", is.st_size, ":", is.st_mtim.tv_sec,
                    ".", is.st_mtim.tv_nsec);
  }
  return key;
}

}  // namespace

bool DataCache::ByteBudget::Take(uint64_t bytes, uint64_t own) {
  absl::MutexLock lock(&mu_);
  if (bytes_ > own && bytes_ + bytes > max_bytes_) return false;
  bytes_ += bytes;
  return true;
}

void DataCache::ByteBudget::GiveBack(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  bytes_ -= bytes;
}

uint64_t DataCache::ByteBudget::bytes() const {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

std::shared_ptr<DataCache::Slot> DataCache::SlotOf(const std::string& key) {
  if (key.empty()) return std::make_shared<Slot>();
  absl::MutexLock lock(&mu_);
  if (slots_.size() >= kManySlots) {
    for (auto slot = slots_.begin(); slot != slots_.end();) {
      slot = slot->second.use_count() == 1 && !slot->second->held() ? slots_.erase(slot)
                                                                    : std::next(slot);
    }
  }
  std::shared_ptr<Slot>& slot = slots_[key];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

absl::Status DataCache::NoRoom(uint64_t bytes) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("room for ", bytes,
                   " bytes of examples in the controller's memory: those of other jobs take ",
                   budget_->bytes(), ", and all together may take ", budget_->max_bytes(),
                   "; it comes when such a job ends, or with a larger --max-data-memory-bytes"));
}

absl::StatusOr<std::shared_ptr<const DataSet>> DataCache::Get(
    const std::vector<std::string>& paths, const DataSetOptions& options, uint64_t own,
    const std::function<DataSet()>& read) {
  const std::string key = KeyOf(paths, options);
  const std::shared_ptr<Slot> slot = SlotOf(key);
  absl::MutexLock lock(&slot->reading);
  if (std::shared_ptr<const DataSet> held = slot->set.lock(); held != nullptr) return held;
  // As a rule not less than the size of the files; their size in memory is known once they were
  // read.
  const uint64_t expected = slot->bytes > 0 ? slot->bytes : BytesOf(paths);
  if (!budget_->Take(expected, own)) return NoRoom(expected);
  auto set = std::make_unique<DataSet>(read());
  slot->bytes = set->memory_bytes;
  budget_->GiveBack(expected);
  if (!budget_->Take(slot->bytes, own)) return NoRoom(slot->bytes);
  std::shared_ptr<const DataSet> shared(
      set.release(), [budget = budget_, bytes = slot->bytes](const DataSet* dropped) {
        delete dropped;
        budget->GiveBack(bytes);
      });
  // If a file changed while it was read, no other job gets this set.
  if (KeyOf(paths, options) == key) slot->set = shared;
  return shared;
}

}  // namespace baton::controller
