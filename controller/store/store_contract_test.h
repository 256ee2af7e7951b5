// The contract of every Store, as tests. Instantiate with a factory:
//   INSTANTIATE_TEST_SUITE_P(Mine, StoreContractTest, ::testing::Values(StoreFactory{...}));
#ifndef BATON_CONTROLLER_STORE_STORE_CONTRACT_TEST_H_
#define BATON_CONTROLLER_STORE_STORE_CONTRACT_TEST_H_

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::store {

inline bool operator==(const Row& a, const Row& b) { return a.key == b.key && a.value == b.value; }
inline void PrintTo(const Row& row, std::ostream* out) { *out << row.key << "=" << row.value; }

inline absl::Status CommitNow(Store& store, std::vector<Write> writes) {
  std::promise<absl::Status> promise;
  store.Commit(std::move(writes), [&](absl::Status status) { promise.set_value(status); });
  return promise.get_future().get();
}

/// The bound of rows of the stores that factories make.
inline constexpr size_t kTestRowBytes = 100'000;

/// Makes an empty store, whose rows have at most kTestRowBytes.
using StoreFactory = std::function<std::unique_ptr<Store>()>;

class StoreContractTest : public ::testing::TestWithParam<StoreFactory> {
 protected:
  void SetUp() override { store_ = GetParam()(); }

  std::vector<std::string> Keys(const ScanOptions& options) {
    auto rows = store_->Scan("t", options);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<std::string> keys;
    if (rows.ok()) {
      for (const Row& row : *rows) keys.push_back(row.key);
    }
    return keys;
  }

  std::unique_ptr<Store> store_;
};

TEST_P(StoreContractTest, AnEmptyTableHasNothing) {
  EXPECT_EQ(*store_->Get("t", "a"), std::nullopt);
  EXPECT_TRUE(store_->Scan("t", {})->empty());
  EXPECT_TRUE(store_->health().ok());
}

TEST_P(StoreContractTest, PutsReplacesAndDeletes) {
  ASSERT_TRUE(CommitNow(*store_, {{"t", "a", "1"}, {"other", "a", "2"}}).ok());
  EXPECT_EQ(**store_->Get("t", "a"), "1");
  EXPECT_EQ(**store_->Get("other", "a"), "2");
  ASSERT_TRUE(CommitNow(*store_, {{"t", "a", "3"}}).ok());
  EXPECT_EQ(**store_->Get("t", "a"), "3");
  ASSERT_TRUE(CommitNow(*store_, {{"t", "a", std::nullopt}, {"t", "never", std::nullopt}}).ok());
  EXPECT_EQ(*store_->Get("t", "a"), std::nullopt);
  EXPECT_EQ(**store_->Get("other", "a"), "2");
}

// A range may have more keys than could ever be listed.
TEST_P(StoreContractTest, DeletesARange) {
  ASSERT_TRUE(
      CommitNow(
          *store_,
          {{"t", "a", "1"}, {"t", "b", "2"}, {"t", "c", "3"}, {"t", "d", "4"}, {"other", "b", "5"}})
          .ok());
  Write range{"t", "b", std::nullopt};
  range.end = "d";
  // Rows that the same commit puts after the deletion stay.
  ASSERT_TRUE(CommitNow(*store_, {range, {"t", "bb", "6"}}).ok());
  EXPECT_EQ(Keys({}), (std::vector<std::string>{"a", "bb", "d"}));
  EXPECT_EQ(**store_->Get("other", "b"), "5");
  range.end = "a";  // nothing lies between
  ASSERT_TRUE(CommitNow(*store_, {range}).ok());
  EXPECT_EQ(Keys({}), (std::vector<std::string>{"a", "bb", "d"}));
}

TEST_P(StoreContractTest, TheLastWriteOfACommitWins) {
  ASSERT_TRUE(
      CommitNow(*store_, {{"t", "a", "1"}, {"t", "a", std::nullopt}, {"t", "a", "2"}}).ok());
  EXPECT_EQ(**store_->Get("t", "a"), "2");
}

TEST_P(StoreContractTest, KeepsEveryByte) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  ASSERT_TRUE(CommitNow(*store_, {{"t", all, all}, {"t", "empty", ""}}).ok());
  EXPECT_EQ(**store_->Get("t", all), all);
  ASSERT_TRUE(store_->Get("t", "empty")->has_value());
  EXPECT_EQ(**store_->Get("t", "empty"), "");
}

TEST_P(StoreContractTest, KeysAreOrderedAsUnsignedBytes) {
  const std::string high = "\xff", zero("\0", 1);
  ASSERT_TRUE(CommitNow(*store_, {{"t", "b", ""},
                                  {"t", high, ""},
                                  {"t", "a", ""},
                                  {"t", "ab", ""},
                                  {"t", zero, ""},
                                  {"t", "\x7f", ""}})
                  .ok());
  EXPECT_EQ(Keys({}), (std::vector<std::string>{zero, "a", "ab", "b", "\x7f", high}));
}

TEST_P(StoreContractTest, ScansRanges) {
  std::vector<Write> writes;
  for (const char* key : {"a", "b", "c", "d", "e"}) writes.push_back({"t", key, key});
  ASSERT_TRUE(CommitNow(*store_, writes).ok());
  using Names = std::vector<std::string>;
  ScanOptions options;
  options.begin = "b";
  EXPECT_EQ(Keys(options), (Names{"b", "c", "d", "e"}));
  options.end = "d";
  EXPECT_EQ(Keys(options), (Names{"b", "c"}));
  options.reverse = true;
  EXPECT_EQ(Keys(options), (Names{"c", "b"}));
  options.limit = 1;
  EXPECT_EQ(Keys(options), (Names{"c"}));
  options.end = "";
  EXPECT_EQ(Keys(options), (Names{"e"}));
  options.begin = "d";
  options.end = "b";
  EXPECT_EQ(Keys(options), Names{});
  options.reverse = false;
  EXPECT_EQ(Keys(options), Names{});
  EXPECT_EQ((*store_->Scan("t", {}))[2], (Row{"c", "c"}));
}

TEST_P(StoreContractTest, CommitsAnswerInOrder) {
  absl::Mutex mu;
  std::vector<int> order;
  constexpr int kCommits = 500;
  for (int i = 0; i < kCommits; ++i) {
    store_->Commit({{"t", "last", absl::StrCat(i)}}, [&, i](absl::Status status) {
      EXPECT_TRUE(status.ok());
      absl::MutexLock lock(&mu);
      order.push_back(i);
    });
  }
  absl::MutexLock lock(&mu);
  auto all = [&] { return order.size() == kCommits; };
  ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30)));
  for (int i = 0; i < kCommits; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_EQ(**store_->Get("t", "last"), absl::StrCat(kCommits - 1));
}

TEST_P(StoreContractTest, AnAnsweredWriteCanBeRead) {
  std::promise<std::string> read;
  store_->Commit({{"t", "a", "1"}},
                 [&](absl::Status) { read.set_value(store_->Get("t", "a")->value_or("absent")); });
  EXPECT_EQ(read.get_future().get(), "1");
}

TEST_P(StoreContractTest, ManyThreadsMayCommit) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(CommitNow(*store_, {{"t", absl::StrCat(t, "-", i), "x"}}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->Scan("t", {})->size(), 200u);
}

TEST_P(StoreContractTest, EqualsAMapUnderRandomWrites) {
  std::mt19937 random(7);
  std::map<std::string, std::string> model;
  for (int round = 0; round < 40; ++round) {
    std::vector<Write> writes;
    for (int i = 0; i < 10; ++i) {
      const std::string key = absl::StrCat("k", random() % 30);
      if (random() % 3 == 0) {
        writes.push_back({"t", key, std::nullopt});
        model.erase(key);
      } else {
        const std::string value = absl::StrCat(random());
        writes.push_back({"t", key, value});
        model[key] = value;
      }
    }
    ASSERT_TRUE(CommitNow(*store_, writes).ok());
    ScanOptions options;
    options.begin = absl::StrCat("k", random() % 30);
    options.end = absl::StrCat("k", random() % 30);
    options.reverse = random() % 2 == 0;
    options.limit = random() % 4;
    std::vector<Row> expected;
    for (const auto& [key, value] : model) {
      if (key >= options.begin && key < options.end) expected.push_back({key, value});
    }
    if (options.reverse) std::reverse(expected.begin(), expected.end());
    if (options.limit > 0 && expected.size() > options.limit) expected.resize(options.limit);
    EXPECT_EQ(*store_->Scan("t", options), expected);
  }
}

// If it were tried for ever, it would hold up every later commit.
TEST_P(StoreContractTest, ARowThatIsTooLongIsRefusedAndHoldsUpNothing) {
  EXPECT_EQ(store_->max_row_bytes(), kTestRowBytes);
  const std::string longest(kTestRowBytes - 1, 'x');
  EXPECT_TRUE(CommitNow(*store_, {{"t", "k", longest}}).ok());
  absl::Mutex mu;
  std::vector<absl::Status> answers;
  const auto note = [&](const absl::Status& status) {
    absl::MutexLock lock(&mu);
    answers.push_back(status);
  };
  store_->Commit({{"t", "before", "1"}}, note);
  store_->Commit({{"t", "beside", "1"}, {"t", "k", longest + "x"}}, note);
  store_->Commit({{"t", longest + "kk", std::nullopt}}, note);
  store_->Commit({{"t", "behind", "1"}}, note);
  absl::MutexLock lock(&mu);
  const auto all = [&] { return answers.size() == 4; };
  ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30)));
  EXPECT_TRUE(answers[0].ok());
  EXPECT_TRUE(absl::IsInvalidArgument(answers[1])) << answers[1];
  EXPECT_THAT(std::string(answers[1].message()),
              ::testing::HasSubstr("a row of table t has 100001 bytes; the store takes at most "
                                   "100000"));
  EXPECT_TRUE(absl::IsInvalidArgument(answers[2])) << answers[2];
  EXPECT_TRUE(answers[3].ok());
  EXPECT_TRUE(store_->health().ok());
  EXPECT_EQ(Keys({}), (std::vector<std::string>{"before", "behind", "k"}));
  EXPECT_EQ(**store_->Get("t", "k"), longest);
}

}  // namespace baton::store

#endif  // BATON_CONTROLLER_STORE_STORE_CONTRACT_TEST_H_
