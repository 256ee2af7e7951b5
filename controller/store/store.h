// Ordered tables of rows, committed in groups.
//
// A table maps keys to values, both bytes; keys are ordered as unsigned bytes. The caller defines
// the meaning of rows (controller/runtime writes baton.store.v1 messages).
//
// Implementations: MemoryStore (tests), SqliteStore (default). One contract suite
// (store_contract_test.h) runs against each.
#ifndef BATON_CONTROLLER_STORE_STORE_H_
#define BATON_CONTROLLER_STORE_STORE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::store {

/// The newest schema of rows that this program knows (Write::schema; docs/formats/store.md).
inline constexpr int kSchemaVersion = 7;

/// The longest row, key and value together: less than SQLite takes (SQLITE_MAX_LENGTH,
/// 1,000,000,000 bytes).
inline constexpr size_t kMaxRowBytes = 950'000'000;

/// Puts `value` under `key`, or deletes the key if there is no value. With `end` and no value,
/// deletes all keys from `key` on and before `end`; the cost depends only on the existing rows
/// there.
struct Write {
  std::string table;  ///< a–z and _, at most 32.
  std::string key;
  std::optional<std::string> value;
  /// The schema version that a reader of this row must know; 0: any. From the first such row on,
  /// and no sooner, a store on disk refuses programs that know only older versions.
  int schema = 0;
  std::string end = "";  ///< Not with a value.
};

struct Row {
  std::string key;
  std::string value;
};

struct ScanOptions {
  std::string begin;     ///< First key, inclusive.
  std::string end;       ///< One past the last key; empty: to the table's end.
  size_t limit = 0;      ///< 0: no limit.
  bool reverse = false;  ///< From the end backwards.
};

/// The failures that a commit survives once it is answered.
enum class Durability {
  kPowerCut,  ///< A power cut: it is on the disk, and so is every commit before it.
  /// A crash of the process. A power cut may lose the newest of these commits, but never one before
  /// a kPowerCut commit: all commits up to some point are left.
  kProcess,
};

/// Thread-safe.
class Store {
 public:
  /// Called once, on the store's thread, in the order of Commit calls. OK: the writes survive as
  /// `durability` says. An error: nothing is written. CANCELLED: the store is closed;
  /// INVALID_ARGUMENT: a row is too long (CheckRows), so another try would fail too.
  using Done = std::function<void(absl::Status)>;

  virtual ~Store() = default;

  /// Writes all or nothing, after all earlier commits. Returns at once. A write that fails (disk
  /// full) is tried again until it succeeds; meanwhile `health()` has the reason and no later
  /// commit overtakes it. A commit with a row that is too long is refused, and delays no other.
  virtual void Commit(std::vector<Write> writes, Durability durability, Done done) = 0;
  /// … and it survives a power cut.
  void Commit(std::vector<Write> writes, Done done) {
    Commit(std::move(writes), Durability::kPowerCut, std::move(done));
  }

  /// INVALID_ARGUMENT: a row has more than max_row_bytes(); the message says which row, and what to
  /// do.
  absl::Status CheckRow(const Write& write) const;
  absl::Status CheckRows(const std::vector<Write>& writes) const;
  virtual size_t max_row_bytes() const { return kMaxRowBytes; }

  /// Committed rows only. May block on the disk: never call these on a strand.
  virtual absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                         absl::string_view key) = 0;
  virtual absl::StatusOr<std::vector<Row>> Scan(absl::string_view table,
                                                const ScanOptions& options) = 0;

  /// Writes all committed rows, as of one moment, into a new file that a store of this kind opens.
  /// Commits go on meanwhile. Blocks. UNIMPLEMENTED: this kind of store has no files.
  virtual absl::Status CopyTo(const std::string& path) {
    return absl::UnimplementedError("this store cannot be copied to " + path);
  }

  /// OK, or why the oldest waiting commit does not succeed.
  virtual absl::Status health() const = 0;
};

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_STORE_H_
