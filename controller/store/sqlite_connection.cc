#include "controller/store/sqlite_connection.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::store {
namespace {

bool ValidTable(absl::string_view table) {
  if (table.empty() || table.size() > 32) return false;
  for (char c : table) {
    if (!((c >= 'a' && c <= 'z') || c == '_')) return false;
  }
  return true;
}

absl::Status BindBlob(sqlite3_stmt* statement, int index, absl::string_view bytes) {
  const int rc = sqlite3_bind_blob64(statement, index, bytes.data() == nullptr ? "" : bytes.data(),
                                     bytes.size(), SQLITE_TRANSIENT);
  return rc == SQLITE_OK ? absl::OkStatus() : absl::InternalError("SQLite refuses a parameter");
}

std::string ColumnBytes(sqlite3_stmt* statement, int column) {
  const void* data = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return data == nullptr ? std::string()
                         : std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

}  // namespace

absl::Status SqliteConnection::Error(absl::string_view what) const {
  const int code = sqlite3_errcode(db_);
  const std::string message = absl::StrCat(what, ": ", sqlite3_errmsg(db_));
  if (code == SQLITE_FULL) return absl::ResourceExhaustedError(message + "; free disk space");
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) return absl::FailedPreconditionError(message);
  return absl::InternalError(message);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int rc = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<SqliteConnection> connection(new SqliteConnection(db));
  if (rc != SQLITE_OK) return connection->Error(absl::StrCat("cannot open ", path));
  sqlite3_busy_timeout(db, 2000);
  return connection;
}

SqliteConnection::~SqliteConnection() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

absl::Status SqliteConnection::Execute(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return Error(sql);
}

absl::Status SqliteConnection::SetSync(bool sync) {
  if (sync_ == sync) return absl::OkStatus();
  const char* const mode = sync ? "FULL" : "NORMAL";
  BATON_RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA synchronous=", mode)));
  sync_ = sync;
  return absl::OkStatus();
}

absl::StatusOr<sqlite3_stmt*> SqliteConnection::Prepare(const std::string& sql) {
  auto it = statements_.find(sql);
  if (it != statements_.end()) return it->second;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(db_, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return Error(sql);
  }
  statements_[sql] = statement;
  return statement;
}

absl::Status SqliteConnection::CopyTo(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto copy, Open(path));
  sqlite3_backup* backup = sqlite3_backup_init(copy->db_, "main", db_, "main");
  if (backup == nullptr) return copy->Error("cannot copy to " + path);
  // All pages in one go, so that a commit meanwhile does not restart the copy.
  const int rc = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (rc == SQLITE_DONE) return absl::OkStatus();
  return copy->Error("cannot copy to " + path);
}

absl::StatusOr<int64_t> SqliteConnection::Integer(const std::string& sql) {
  BATON_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
  const int rc = sqlite3_step(statement);
  const int64_t value = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  const absl::Status status = rc == SQLITE_ROW ? absl::OkStatus() : Error(sql);
  sqlite3_reset(statement);
  if (!status.ok()) return status;
  return value;
}

absl::StatusOr<bool> SqliteConnection::HasTable(const std::string& table) {
  if (!ValidTable(table)) return absl::InvalidArgumentError("bad table name: " + table);
  if (tables_.count(table) > 0) return true;
  BATON_ASSIGN_OR_RETURN(
      const int64_t count,
      Integer(absl::StrCat("SELECT COUNT(*) FROM sqlite_master WHERE type='table' AND name='t_",
                           table, "'")));
  if (count > 0) tables_[table] = true;
  return count > 0;
}

absl::Status SqliteConnection::EnsureTable(const std::string& table) {
  BATON_ASSIGN_OR_RETURN(const bool exists, HasTable(table));
  if (exists) return absl::OkStatus();
  return Execute(absl::StrCat("CREATE TABLE IF NOT EXISTS t_", table,
                              "(key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"));
}

absl::Status SqliteConnection::Apply(const Write& write) {
  BATON_RETURN_IF_ERROR(EnsureTable(write.table));
  const bool range = !write.value.has_value() && !write.end.empty();
  const std::string sql =
      write.value.has_value()
          ? absl::StrCat("INSERT OR REPLACE INTO t_", write.table, "(key, value) VALUES(?1, ?2)")
      : range ? absl::StrCat("DELETE FROM t_", write.table, " WHERE key >= ?1 AND key < ?2")
              : absl::StrCat("DELETE FROM t_", write.table, " WHERE key = ?1");
  BATON_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
  absl::Status status = BindBlob(statement, 1, write.key);
  if (status.ok() && write.value.has_value()) status = BindBlob(statement, 2, *write.value);
  if (status.ok() && range) status = BindBlob(statement, 2, write.end);
  if (status.ok() && sqlite3_step(statement) != SQLITE_DONE) {
    status = Error("cannot write table " + write.table);
  }
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return status;
}

absl::StatusOr<std::optional<std::string>> SqliteConnection::Get(absl::string_view table,
                                                                 absl::string_view key) {
  BATON_ASSIGN_OR_RETURN(const bool exists, HasTable(std::string(table)));
  if (!exists) return std::optional<std::string>();
  BATON_ASSIGN_OR_RETURN(sqlite3_stmt * statement,
                         Prepare(absl::StrCat("SELECT value FROM t_", table, " WHERE key = ?1")));
  BATON_RETURN_IF_ERROR(BindBlob(statement, 1, key));
  std::optional<std::string> value;
  const int rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) value = ColumnBytes(statement, 0);
  const absl::Status status =
      rc == SQLITE_ROW || rc == SQLITE_DONE ? absl::OkStatus() : Error("cannot read");
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (!status.ok()) return status;
  return value;
}

absl::StatusOr<std::vector<Row>> SqliteConnection::Scan(absl::string_view table,
                                                        const ScanOptions& options) {
  std::vector<Row> rows;
  BATON_ASSIGN_OR_RETURN(const bool exists, HasTable(std::string(table)));
  if (!exists) return rows;
  const std::string sql =
      absl::StrCat("SELECT key, value FROM t_", table, " WHERE key >= ?1",
                   options.end.empty() ? "" : " AND key < ?2", " ORDER BY key",
                   options.reverse ? " DESC" : "", options.limit > 0 ? " LIMIT ?3" : "");
  BATON_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
  absl::Status status = BindBlob(statement, 1, options.begin);
  if (status.ok() && !options.end.empty()) status = BindBlob(statement, 2, options.end);
  if (options.limit > 0) {
    sqlite3_bind_int64(statement, 3, static_cast<sqlite3_int64>(options.limit));
  }
  int rc = SQLITE_DONE;
  while (status.ok() && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    rows.push_back({ColumnBytes(statement, 0), ColumnBytes(statement, 1)});
  }
  if (status.ok() && rc != SQLITE_DONE) status = Error("cannot read");
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (!status.ok()) return status;
  return rows;
}

}  // namespace baton::store
