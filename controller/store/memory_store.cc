#include "controller/store/memory_store.h"

#include <utility>

namespace baton::store {

void MemoryStore::Apply(const std::vector<Write>& writes) {
  for (const Write& write : writes) {
    Table& table = tables_[write.table];
    if (write.value.has_value()) {
      table[write.key] = *write.value;
    } else {
      table.erase(write.key);
    }
  }
}

void MemoryStore::Commit(std::vector<Write> writes, Done done) {
  {
    absl::MutexLock lock(&mu_);
    if (!failure_.ok()) {
      waiting_.emplace_back(std::move(writes), std::move(done));
      return;
    }
    Apply(writes);
  }
  done(absl::OkStatus());
}

void MemoryStore::FailWith(absl::Status status) {
  std::vector<std::pair<std::vector<Write>, Done>> released;
  {
    absl::MutexLock lock(&mu_);
    failure_ = std::move(status);
    if (!failure_.ok()) return;
    released = std::exchange(waiting_, {});
    for (const auto& [writes, done] : released) Apply(writes);
  }
  for (const auto& [writes, done] : released) done(absl::OkStatus());
}

absl::StatusOr<std::optional<std::string>> MemoryStore::Get(absl::string_view table,
                                                            absl::string_view key) {
  absl::MutexLock lock(&mu_);
  auto t = tables_.find(std::string(table));
  if (t == tables_.end()) return std::optional<std::string>();
  auto row = t->second.find(std::string(key));
  if (row == t->second.end()) return std::optional<std::string>();
  return std::optional<std::string>(row->second);
}

absl::StatusOr<std::vector<Row>> MemoryStore::Scan(absl::string_view table,
                                                   const ScanOptions& options) {
  absl::MutexLock lock(&mu_);
  std::vector<Row> rows;
  auto t = tables_.find(std::string(table));
  if (t == tables_.end()) return rows;
  const auto begin = t->second.lower_bound(options.begin);
  const auto end = options.end.empty() ? t->second.end() : t->second.lower_bound(options.end);
  if (!options.end.empty() && options.end <= options.begin) return rows;
  auto full = [&] { return options.limit > 0 && rows.size() == options.limit; };
  if (options.reverse) {
    for (auto it = end; it != begin && !full();) {
      --it;
      rows.push_back({it->first, it->second});
    }
  } else {
    for (auto it = begin; it != end && !full(); ++it) rows.push_back({it->first, it->second});
  }
  return rows;
}

absl::Status MemoryStore::health() const {
  absl::MutexLock lock(&mu_);
  return failure_;
}

}  // namespace baton::store
