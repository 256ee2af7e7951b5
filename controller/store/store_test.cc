// The contract on each store, and tests of MemoryStore and SqliteStore alone.
#include <sys/resource.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "controller/store/memory_store.h"
#include "controller/store/reader_pool.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/store_contract_test.h"
#include "sqlite3.h"

namespace baton::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A path whose files do not exist.
std::string NewPath(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "store_test";
  fs::create_directories(folder);
  const std::string path = folder + "/" + name;
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) fs::remove(path + suffix);
  return path;
}

std::unique_ptr<SqliteStore> MustOpen(const std::string& path, const SqliteOptions& options = {}) {
  auto store = SqliteStore::Open(path, options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreContractTest, ::testing::Values([] {
                           return std::make_unique<MemoryStore>(kTestRowBytes);
                         }));
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContractTest, ::testing::Values([] {
                           SqliteOptions options;
                           options.max_row_bytes = kTestRowBytes;
                           return MustOpen(NewPath("contract.db"), options);
                         }));
INSTANTIATE_TEST_SUITE_P(SqliteFull, StoreContractTest, ::testing::Values([] {
                           SqliteOptions options;
                           options.max_row_bytes = kTestRowBytes;
                           options.sync = SqliteOptions::Sync::kAll;
                           return MustOpen(NewPath("contract_full.db"), options);
                         }));

TEST(MemoryStoreTest, AnswersRefusedCommitsInTheirOrder) {
  MemoryStore store(10);
  store.FailWith(absl::ResourceExhaustedError("disk full"));
  std::vector<std::pair<int, bool>> answers;
  store.Commit({{"t", "a", "1"}}, [&](const absl::Status& s) { answers.emplace_back(1, s.ok()); });
  store.Commit({{"t", "b", "1234567890"}},
               [&](const absl::Status& s) { answers.emplace_back(2, s.ok()); });
  store.Commit({{"t", "c", "3"}}, [&](const absl::Status& s) { answers.emplace_back(3, s.ok()); });
  EXPECT_TRUE(answers.empty());
  store.FailWith(absl::OkStatus());
  EXPECT_EQ(answers, (std::vector<std::pair<int, bool>>{{1, true}, {2, false}, {3, true}}));
  EXPECT_EQ(store.Scan("t", {})->size(), 2u);
}

// The library's own bound, which it may have been built with, is above ours.
TEST(SqliteStoreTest, TheLongestRowIsOneThatSqliteTakes) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
  EXPECT_GT(sqlite3_limit(db, SQLITE_LIMIT_LENGTH, -1), static_cast<int>(kMaxRowBytes) + 1000);
  sqlite3_close(db);
  EXPECT_EQ(MustOpen(NewPath("bound.db"))->max_row_bytes(), kMaxRowBytes);
}

TEST(MemoryStoreTest, WaitsWhileItFailsAndThenWritesInOrder) {
  MemoryStore store;
  store.FailWith(absl::ResourceExhaustedError("disk full"));
  std::vector<int> order;
  store.Commit({{"t", "a", "1"}}, [&](absl::Status) { order.push_back(1); });
  store.Commit({{"t", "a", "2"}}, [&](absl::Status) { order.push_back(2); });
  EXPECT_EQ(store.health().message(), "disk full");
  EXPECT_EQ(*store.Get("t", "a"), std::nullopt);
  EXPECT_TRUE(order.empty());
  store.FailWith(absl::OkStatus());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(**store.Get("t", "a"), "2");
  EXPECT_TRUE(store.health().ok());
}

TEST(MemoryStoreTest, APowerCutTakesTheNewestUnsyncedCommits) {
  MemoryStore store;
  const auto done = [](absl::Status) {};
  store.Commit({{"t", "a", "1"}}, Durability::kProcess, done);
  store.Commit({{"t", "a", "2"}}, Durability::kPowerCut, done);
  EXPECT_EQ(store.unsynced(), 0u);
  store.Commit({{"t", "a", "3"}, {"t", "b", "1"}, {"t", "b", "2"}}, Durability::kProcess, done);
  store.Commit({{"t", "a", std::nullopt}, {"t", "c", "1"}}, Durability::kProcess, done);
  EXPECT_EQ(store.unsynced(), 2u);
  store.CutPower(1);
  EXPECT_EQ(**store.Get("t", "a"), "3");
  EXPECT_EQ(**store.Get("t", "b"), "2");
  EXPECT_EQ(*store.Get("t", "c"), std::nullopt);
  store.Commit({{"t", "a", "4"}}, Durability::kProcess, done);
  store.FailWith(absl::ResourceExhaustedError("disk full"));
  bool answered = false;
  store.Commit({{"t", "a", "5"}}, [&](absl::Status) { answered = true; });
  store.CutPower(0);
  store.FailWith(absl::OkStatus());
  EXPECT_EQ(**store.Get("t", "a"), "3");
  EXPECT_EQ(**store.Get("t", "b"), "2");
  EXPECT_FALSE(answered);
}

// Each of two readers is inside of its read until the other one is.
TEST(ReaderPoolTest, AReadHoldsUpNoOther) {
  const std::string path = NewPath("readers.db");
  ASSERT_TRUE(CommitNow(*MustOpen(path), {{"t", "a", "1"}}).ok());
  ReaderPool pool(path, 2);
  absl::Notification inside[2];
  const auto read = [&](int mine) {
    const auto value = pool.With([&](SqliteConnection& connection) {
      inside[mine].Notify();
      EXPECT_TRUE(inside[1 - mine].WaitForNotificationWithTimeout(absl::Seconds(10)));
      return connection.Get("t", "a");
    });
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(**value, "1");
  };
  std::thread other(read, 1);
  read(0);
  other.join();
}

TEST(SqliteStoreTest, RemembersAfterItIsOpenedAgain) {
  const std::string path = NewPath("again.db");
  ASSERT_TRUE(CommitNow(*MustOpen(path), {{"t", "a", "1"}}).ok());
  auto store = MustOpen(path);
  EXPECT_EQ(**store->Get("t", "a"), "1");
  ASSERT_TRUE(CommitNow(*store, {{"t", "b", "2"}}).ok());
  EXPECT_EQ(store->Scan("t", {})->size(), 2u);
}

TEST(SqliteStoreTest, ACommitThatWasAnsweredSurvivesTheProcess) {
  const std::string path = NewPath("killed.db");
  EXPECT_EXIT(
      {
        auto store = SqliteStore::Open(path);
        const bool done = store.ok() && CommitNow(**store, {{"t", "a", "1"}}).ok();
        if (done) std::raise(SIGKILL);
        std::_Exit(1);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(**MustOpen(path)->Get("t", "a"), "1");
}

TEST(SqliteStoreTest, OneControllerAtATime) {
  const std::string path = NewPath("locked.db");
  auto first = MustOpen(path);
  const absl::Status second = SqliteStore::Open(path).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another controller"));
  EXPECT_THAT(std::string(second.message()), HasSubstr("--data-root"));
  first.reset();
  EXPECT_TRUE(SqliteStore::Open(path).ok());
}

TEST(SqliteStoreTest, ANewerSchemaIsRefused) {
  const std::string path = NewPath("newer.db");
  MustOpen(path).reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const absl::Status status = SqliteStore::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version 99"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("knows " + std::to_string(kSchemaVersion)));
}

TEST(SqliteConnectionTest, SetsTheSynchronousMode) {
  constexpr int64_t kNormal = 1, kFull = 2;  // of SQLite's documentation
  auto connection = SqliteConnection::Open(NewPath("synchronous.db"));
  ASSERT_TRUE(connection.ok()) << connection.status();
  for (const bool sync : {false, true, true, false, true}) {
    ASSERT_TRUE((*connection)->SetSync(sync).ok());
    EXPECT_EQ(*(*connection)->Integer("PRAGMA synchronous"), sync ? kFull : kNormal) << sync;
  }
}

int64_t Pragma(const std::string& path, const std::string& name) {
  sqlite3* db = nullptr;
  sqlite3_stmt* statement = nullptr;
  int64_t value = -1;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_prepare_v2(db, ("PRAGMA " + name).c_str(), -1, &statement, nullptr), SQLITE_OK);
  if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return value;
}

// A program that was only started leaves no row that an older program would not know.
TEST(SqliteStoreTest, TheSchemaVersionRisesWithTheFirstRowThatNeedsIt) {
  const std::string path = NewPath("schema.db");
  {
    auto store = MustOpen(path);
    ASSERT_TRUE(CommitNow(*store, {{"t", "any", "1"}}).ok());
    EXPECT_EQ(store->schema_version(), 0);
  }
  EXPECT_EQ(Pragma(path, "user_version"), 0);
  {
    auto store = MustOpen(path);
    ASSERT_TRUE(CommitNow(*store, {{"t", "new", "1", 3}}).ok());
    EXPECT_EQ(store->schema_version(), 3);
    ASSERT_TRUE(CommitNow(*store, {{"t", "old", "1", 2}}).ok());
  }
  EXPECT_EQ(Pragma(path, "user_version"), 3);
  EXPECT_EQ(MustOpen(path)->schema_version(), 3);
  EXPECT_EQ(Pragma(path, "user_version"), 3) << "opening alone changes nothing";
}

TEST(SqliteStoreTest, AFileShrinksWhenMostOfItsRowsAreGone) {
  const std::string path = NewPath("shrinks.db");
  auto store = MustOpen(path);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(CommitNow(*store, {{"t", std::to_string(i), std::string(400'000, 'x')}}).ok());
  }
  const int64_t full = Pragma(path, "page_count");
  EXPECT_GT(full, 9'000);  // 40 MB
  std::vector<Write> all;
  for (int i = 0; i < 100; ++i) all.push_back({"t", std::to_string(i), std::nullopt});
  ASSERT_TRUE(CommitNow(*store, all).ok());
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(CommitNow(*store, {{"t", "last", "x"}}).ok());
  // At most 4096 pages may stay free; an eighth of this file is less.
  EXPECT_LT(Pragma(path, "page_count"), 5'000);
  EXPECT_EQ(**store->Get("t", "last"), "x");
}

TEST(SqliteStoreTest, AFileThatIsNoDatabaseIsAnErrorAndStaysAsItIs) {
  const std::string path = NewPath("text.db");
  FILE* file = std::fopen(path.c_str(), "w");
  for (int i = 0; i < 500; ++i) std::fputs("this is not a database\n", file);
  std::fclose(file);
  const auto size = fs::file_size(path);
  EXPECT_FALSE(SqliteStore::Open(path).ok());
  EXPECT_EQ(fs::file_size(path), size);
  EXPECT_FALSE(SqliteStore::Open(::testing::TempDir() + "no/such/folder/x.db").ok());
}

TEST(SqliteStoreTest, BadTableNamesAreRefused) {
  auto store = MustOpen(NewPath("tables.db"));
  for (const char* table : {"", "T", "a b", "a;drop", "x1"}) {
    EXPECT_EQ(store->Get(table, "a").status().code(), absl::StatusCode::kInvalidArgument) << table;
  }
}

// Lets no file grow past `bytes`, which is what a full disk looks like to SQLite.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(SqliteStoreTest, AFullDiskDelaysCommitsAndLosesNone) {
  SqliteOptions options;
  options.retry = absl::Milliseconds(5);
  auto store = MustOpen(NewPath("full.db"), options);
  ASSERT_TRUE(CommitNow(*store, {{"t", "before", "1"}}).ok());
  absl::Mutex mu;
  std::vector<int> order;
  {
    FileSizeLimit limit(64 * 1024);
    store->Commit({{"t", "big", std::string(4 << 20, 'x')}}, [&](absl::Status status) {
      EXPECT_TRUE(status.ok());
      absl::MutexLock lock(&mu);
      order.push_back(1);
    });
    store->Commit({{"t", "after", "2"}}, [&](absl::Status) {
      absl::MutexLock lock(&mu);
      order.push_back(2);
    });
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (store->health().ok() && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_FALSE(store->health().ok());
    EXPECT_EQ(**store->Get("t", "before"), "1");
    EXPECT_EQ(*store->Get("t", "after"), std::nullopt);
    absl::MutexLock lock(&mu);
    EXPECT_TRUE(order.empty());
  }
  {
    absl::MutexLock lock(&mu);
    auto both = [&] { return order.size() == 2; };
    ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&both), absl::Seconds(20)));
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  }
  EXPECT_TRUE(store->health().ok());
  EXPECT_EQ((*store->Get("t", "big"))->size(), size_t{4} << 20);
  EXPECT_EQ(**store->Get("t", "after"), "2");
}

// While a commit fails, none of its rows can be read, neither those before nor those after the one
// that fails.
TEST(SqliteStoreTest, AFailedCommitLeavesNothing) {
  SqliteOptions options;
  options.retry = absl::Milliseconds(5);
  auto store = MustOpen(NewPath("half.db"), options);
  ASSERT_TRUE(CommitNow(*store, {{"t", "before", "1"}}).ok());
  absl::Notification done;
  {
    FileSizeLimit limit(64 * 1024);
    store->Commit({{"t", "small", "1"}, {"t", "big", std::string(4 << 20, 'x')}, {"t", "z", "1"}},
                  [&](absl::Status status) {
                    EXPECT_TRUE(status.ok());
                    done.Notify();
                  });
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (store->health().ok() && absl::Now() < deadline) std::this_thread::yield();
    for (const char* key : {"small", "big", "z"}) EXPECT_EQ(*store->Get("t", key), std::nullopt);
    EXPECT_FALSE(done.HasBeenNotified());
  }
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_EQ(store->Scan("t", {})->size(), 4u);
}

void ExecuteElsewhere(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

// SQLite rolls back by itself when the disk is full. Here it does not: a trigger refuses one row.
TEST(SqliteStoreTest, ARefusedRowTakesItsCommitAlong) {
  SqliteOptions options;
  options.retry = absl::Milliseconds(5);
  const std::string path = NewPath("refused.db");
  auto store = MustOpen(path, options);
  ASSERT_TRUE(CommitNow(*store, {{"t", "before", "1"}}).ok());
  ExecuteElsewhere(path,
                   "CREATE TRIGGER refuses BEFORE INSERT ON t_t WHEN NEW.key = x'62' "
                   "BEGIN SELECT RAISE(FAIL, 'no b'); END");
  absl::Notification done;
  store->Commit({{"t", "a", "1"}, {"t", "b", "1"}}, [&](absl::Status) { done.Notify(); });
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (store->health().ok() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_THAT(std::string(store->health().message()), HasSubstr("no b"));
  EXPECT_EQ(*store->Get("t", "a"), std::nullopt);
  ExecuteElsewhere(path, "DROP TRIGGER refuses");
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_EQ(store->Scan("t", {})->size(), 3u);
}

TEST(SqliteStoreTest, ClosingWhileItFailsAnswersCancelled) {
  SqliteOptions options;
  options.retry = absl::Seconds(60);
  auto store = MustOpen(NewPath("closing.db"), options);
  ASSERT_TRUE(CommitNow(*store, {{"t", "a", "1"}}).ok());
  FileSizeLimit limit(64 * 1024);
  std::vector<absl::StatusCode> codes;
  store->Commit({{"t", "big", std::string(4 << 20, 'x')}},
                [&](absl::Status status) { codes.push_back(status.code()); });
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (store->health().ok() && absl::Now() < deadline) std::this_thread::yield();
  store->Commit({{"t", "b", "2"}}, [&](absl::Status status) { codes.push_back(status.code()); });
  store.reset();
  EXPECT_THAT(codes, ::testing::Each(absl::StatusCode::kCancelled));
  EXPECT_EQ(codes.size(), 2u);
}

}  // namespace
}  // namespace baton::store
