// Ranks as threads of this process, over real sockets.
#include "workers/parallel/rank_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace baton::parallel {
namespace {

using engine::Communicator;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr char kHost[] = "127.0.0.1";

class RankGroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = StoreServer::Start(kHost);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  GroupAddress Address(int rank, int tp, int dp) const {
    GroupAddress address;
    address.store = server_->address();
    address.rank = rank;
    address.tp = tp;
    address.dp = dp;
    address.timeout = absl::Seconds(20);
    return address;
  }
  /// Runs `body` on a thread for each rank. Once a test: a second meeting in the same store and
  /// group epoch reads the addresses of the first. A rank that ends before the others have joined
  /// is a lost rank to them, so `body` ends with a collective of all.
  void Run(int tp, int dp, const std::function<void(RankGroups&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < tp * dp; ++rank) {
      threads.emplace_back([&, rank] {
        auto groups = RankGroups::Join(Address(rank, tp, dp));
        ASSERT_TRUE(groups.ok()) << groups.status();
        body(**groups);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<StoreServer> server_;
};

TEST_F(RankGroupsTest, TensorRanksAreConsecutive) {
  Run(2, 3, [](RankGroups& groups) {
    const int rank = groups.address().rank;
    ASSERT_NE(groups.tensor_group(), nullptr);
    ASSERT_NE(groups.data_group(), nullptr);
    EXPECT_EQ(groups.tensor_group()->rank(), rank % 2);
    EXPECT_EQ(groups.tensor_group()->size(), 2);
    EXPECT_EQ(groups.data_group()->rank(), rank / 2);
    EXPECT_EQ(groups.data_group()->size(), 3);
    // Ranks 2 d and 2 d + 1 share a model: 4 d + 1. Ranks of one parity share its slice.
    const Tensor tensor = torch::full({1}, rank, torch::kInt64);
    groups.tensor_group()->AllReduce(tensor);
    EXPECT_EQ(tensor.item<int64_t>(), 4 * (rank / 2) + 1);
    const Tensor data = torch::full({1}, rank, torch::kFloat64);
    groups.data_group()->AllReduce(data);
    EXPECT_EQ(data.item<double>(), 6 + 3 * (rank % 2));
  });
}

TEST_F(RankGroupsTest, CollectivesAndTheirBytes) {
  Run(1, 4, [](RankGroups& groups) {
    Communicator& group = *groups.data_group();
    const int rank = group.rank();
    auto received = [&, before = group.bytes().received]() mutable {
      const int64_t bytes = group.bytes().received - before;
      before += bytes;
      return bytes;
    };
    Tensor all = torch::empty({4, 1000}, torch::kFloat32);
    group.AllGather(torch::full({1000}, rank + 1.0f), all.view({-1}));
    for (int r = 0; r < 4; ++r) EXPECT_EQ(all[r].mean().item<float>(), r + 1);
    EXPECT_EQ(received(), 3 * 4000);  // (n - 1) / n of the whole

    const Tensor sum = torch::arange(4000, torch::kFloat32).add(rank);
    auto pending = group.StartAllReduce(sum, engine::Reduction::kSum);
    pending->Wait();
    EXPECT_TRUE(torch::equal(sum, torch::arange(4000, torch::kFloat32).mul(4).add(6)));
    EXPECT_EQ(received(), 2 * 3 * 4000);  // 2 (n - 1) / n of it: scattered, gathered

    const Tensor largest = torch::tensor({rank, -rank}, torch::kInt64);
    group.AllReduce(largest, engine::Reduction::kMax);
    EXPECT_TRUE(torch::equal(largest, torch::tensor({3, 0}, torch::kInt64)));
    received();

    const Tensor told = torch::full({500}, rank, torch::kFloat64);
    group.Broadcast(told, 2);
    EXPECT_EQ(told[499].item<double>(), 2);
    EXPECT_EQ(received(), rank == 2 ? 0 : 4000);
    EXPECT_EQ(groups.bytes().received, group.bytes().received);
    EXPECT_GT(groups.bytes().sent, 0);

    const Tensor empty = torch::empty({0});
    group.AllReduce(empty);
    group.Broadcast(empty, 1);
  });
}

// A rank that dies closes its sockets. The others hear of it as an error, and not as a signal that
// kills them.
TEST_F(RankGroupsTest, ABrokenPipeKillsNoRank) {
  ::signal(SIGPIPE, SIG_DFL);
  Run(2, 1, [](RankGroups& groups) {
    struct sigaction now = {};
    ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
    groups.tensor_group()->AllReduce(torch::ones({1}));
  });
  ::signal(SIGPIPE, SIG_IGN);
}

TEST_F(RankGroupsTest, AProgramKeepsItsOwnHandlerOfBrokenPipes) {
  const auto handler = [](int) {};
  ::signal(SIGPIPE, handler);
  Run(2, 1, [&](RankGroups& groups) {
    struct sigaction now = {};
    ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, +handler);
    groups.tensor_group()->AllReduce(torch::ones({1}));
  });
  ::signal(SIGPIPE, SIG_IGN);
}

TEST_F(RankGroupsTest, MoreGroupsOfSomeRanks) {
  Run(4, 1, [](RankGroups& groups) {
    const int rank = groups.address().rank;
    EXPECT_EQ(groups.data_group(), nullptr);
    // Generation groups of half the tensor size: ranks at stride 2.
    const auto strided =
        groups.NewGroup(absl::StrCat("strided ", rank % 2), {rank % 2, rank % 2 + 2});
    ASSERT_TRUE(strided.ok()) << strided.status();
    EXPECT_EQ((*strided)->rank(), rank / 2);
    const Tensor sum = torch::full({1}, rank, torch::kInt64);
    (*strided)->AllReduce(sum);
    EXPECT_EQ(sum.item<int64_t>(), 2 * (rank % 2) + 2);
    EXPECT_EQ(groups.NewGroup("others", {(rank + 1) % 4}).status().code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TEST_F(RankGroupsTest, ARankThatNeverComesIsATimeout) {
  GroupAddress address = Address(1, 1, 2);
  address.timeout = absl::Seconds(1);
  const absl::Time since = absl::Now();
  const auto groups = RankGroups::Join(address);
  EXPECT_EQ(groups.status().code(), absl::StatusCode::kDeadlineExceeded) << groups.status();
  EXPECT_THAT(groups.status().message(), HasSubstr("rank 1 of 2: no word of rank 0 within 1s"));
  EXPECT_LT(absl::Now() - since, absl::Seconds(15));
}

TEST_F(RankGroupsTest, AStoreThatIsNotThereIsNamed) {
  GroupAddress address = Address(0, 1, 2);
  server_.reset();
  address.timeout = absl::Seconds(1);
  const auto groups = RankGroups::Join(address);
  EXPECT_FALSE(groups.ok());
  EXPECT_THAT(groups.status().message(), HasSubstr(address.store));
}

absl::Status StatusOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const engine::CollectiveError& error) {
    return error.status();
  }
  return absl::OkStatus();
}

TEST_F(RankGroupsTest, ALateRankIsATimeoutAndALostOneUnavailable) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      GroupAddress address = Address(rank, 1, 2);
      address.timeout = absl::Seconds(2);
      auto groups = RankGroups::Join(address);
      ASSERT_TRUE(groups.ok()) << groups.status();
      const Tensor tensor = torch::ones({64});
      (*groups)->data_group()->AllReduce(tensor);
      if (rank == 1) return;  // Leaves: its sockets close.
      const absl::Status gone = StatusOf([&] { (*groups)->data_group()->AllReduce(tensor); });
      EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable) << gone;
      EXPECT_THAT(gone.message(), HasSubstr("rank 0, group \"data 0\": all-reduce of 64 elements"));
    });
  }
  for (std::thread& thread : threads) thread.join();

  // Both ranks are there, but one does nothing.
  std::unique_ptr<RankGroups> idle;
  std::thread other([&] {
    GroupAddress address = Address(1, 2, 1);
    address.group_epoch = 2;
    idle = *RankGroups::Join(address);
  });
  GroupAddress address = Address(0, 2, 1);
  address.group_epoch = 2;
  address.timeout = absl::Seconds(1);
  auto groups = RankGroups::Join(address);
  other.join();
  ASSERT_TRUE(groups.ok()) << groups.status();
  const absl::Status late = StatusOf([&] {
    const Tensor tensor = torch::ones({3});
    (*groups)->tensor_group()->Broadcast(tensor, 1);
  });
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(late.message(), HasSubstr("rank 0, group \"tensor 0\": broadcast of 3 elements"));
}

TEST_F(RankGroupsTest, RanksOfDifferentGenerationsDoNotJoin) {
  GroupAddress first = Address(0, 1, 2), second = Address(1, 1, 2);
  second.group_epoch = 1;
  first.timeout = second.timeout = absl::Seconds(1);
  std::thread other([&] { EXPECT_FALSE(RankGroups::Join(second).ok()); });
  EXPECT_FALSE(RankGroups::Join(first).ok());
  other.join();
}

TEST_F(RankGroupsTest, JoinsThroughAFileStore) {
  std::string path = ::testing::TempDir() + "rank_groups_XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  close(file);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      GroupAddress address = Address(rank, 2, 1);
      address.store = "file://" + path;
      const auto groups = RankGroups::Join(address);
      ASSERT_TRUE(groups.ok()) << groups.status();
      const Tensor tensor = torch::ones({2});
      (*groups)->tensor_group()->AllReduce(tensor);
      EXPECT_EQ(tensor[1].item<float>(), 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  unlink(path.c_str());
}

TEST_F(RankGroupsTest, OneRankNeedsNoStore) {
  GroupAddress address = Address(0, 1, 1);
  server_.reset();
  const auto groups = RankGroups::Join(address);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ((*groups)->tensor_group(), nullptr);
  EXPECT_EQ((*groups)->data_group(), nullptr);
}

TEST_F(RankGroupsTest, BadAddressesAreRefused) {
  const auto message = [&](const std::function<void(GroupAddress&)>& change) {
    GroupAddress address = Address(0, 1, 2);
    change(address);
    const auto groups = RankGroups::Join(address);
    EXPECT_EQ(groups.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(groups.status().message());
  };
  EXPECT_THAT(message([](GroupAddress& a) { a.rank = 2; }), HasSubstr("rank 2 of tp 1 x dp 2"));
  EXPECT_THAT(message([](GroupAddress& a) { a.store = "tcp://host"; }), HasSubstr("HOST:PORT"));
  EXPECT_THAT(message([](GroupAddress& a) { a.store = "tcp://host:99999"; }),
              HasSubstr("HOST:PORT"));
  EXPECT_THAT(message([](GroupAddress& a) { a.store = "/tmp/x"; }), HasSubstr("neither tcp://"));
  EXPECT_THAT(message([](GroupAddress& a) { a.timeout = absl::ZeroDuration(); }),
              HasSubstr("timeout"));
  EXPECT_FALSE(StoreServer::Start("", 0).ok());
}

}  // namespace
}  // namespace baton::parallel
