#include "controller/store/memory_store.h"

#include <utility>

namespace baton::store {

void MemoryStore::Apply(const std::vector<Write>& writes, Durability durability) {
  std::vector<Write> undo;
  for (const Write& write : writes) {
    Table& table = tables_[write.table];
    if (!write.end.empty() && !write.value.has_value()) {
      for (auto row = table.lower_bound(write.key); row != table.end() && row->first < write.end;) {
        undo.push_back({write.table, row->first, row->second});
        row = table.erase(row);
      }
      continue;
    }
    const auto before = table.find(write.key);
    undo.push_back({write.table, write.key,
                    before == table.end() ? std::nullopt : std::optional(before->second)});
    if (write.value.has_value()) {
      table[write.key] = *write.value;
    } else {
      table.erase(write.key);
    }
  }
  undo_.push_back(std::move(undo));
  if (durability == Durability::kPowerCut) undo_.clear();
}

size_t MemoryStore::unsynced() const {
  absl::MutexLock lock(&mu_);
  return undo_.size();
}

void MemoryStore::CutPower(size_t kept) {
  std::vector<Waiting> lost;  // outlives the lock: what it holds may call this store
  absl::MutexLock lock(&mu_);
  lost.swap(waiting_);
  for (; undo_.size() > kept; undo_.pop_back()) {
    for (auto write = undo_.back().rbegin(); write != undo_.back().rend(); ++write) {
      if (write->value.has_value()) {
        tables_[write->table][write->key] = *write->value;
      } else {
        tables_[write->table].erase(write->key);
      }
    }
  }
  undo_.clear();  // what is left is what the disk holds
}

void MemoryStore::Commit(std::vector<Write> writes, Durability durability, Done done) {
  absl::Status refused = CheckRows(writes);
  if (!refused.ok()) writes.clear();
  {
    absl::MutexLock lock(&mu_);
    if (!failure_.ok()) {
      waiting_.push_back({std::move(writes), durability, std::move(done), std::move(refused)});
      return;
    }
    if (refused.ok()) Apply(writes, durability);
  }
  done(refused);
}

void MemoryStore::FailWith(absl::Status status) {
  std::vector<Waiting> released;
  {
    absl::MutexLock lock(&mu_);
    failure_ = std::move(status);
    if (!failure_.ok()) return;
    released = std::exchange(waiting_, {});
    for (const Waiting& w : released) {
      if (w.refused.ok()) Apply(w.writes, w.durability);
    }
  }
  for (const Waiting& w : released) w.done(w.refused);
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
