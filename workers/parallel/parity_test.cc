// The same training in one process, on two data ranks, two tensor ranks, and two of each: losses,
// gradient norms and final weights agree. Ranks are processes (parity_rank.cc) that meet at a store
// of this one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/process/test_process.h"
#include "workers/engine/model/weights_io.h"
#include "workers/parallel/rank_groups.h"

namespace baton::parallel {
namespace {

using torch::Tensor;
using Result = std::map<std::string, Tensor>;

constexpr absl::Duration kPatience = absl::Seconds(60);

struct Layout {
  int tp, dp;
  std::string Name() const { return "tp" + std::to_string(tp) + " dp" + std::to_string(dp); }
};

using Ranks = std::vector<std::unique_ptr<TestProcess>>;

/// All ranks, each a process; what it prints goes to FOLDER/RANK.log.
Ranks StartRanks(const Layout& layout, const std::string& store, const std::string& folder,
                 const std::string& updates = "") {
  std::filesystem::create_directories(folder);
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "parity_rank";
  Ranks ranks;
  for (int rank = 0; rank < layout.tp * layout.dp; ++rank) {
    std::vector<std::string> arguments = {
        program, store, std::to_string(rank), std::to_string(layout.tp), std::to_string(layout.dp),
        folder};
    if (!updates.empty()) arguments.push_back(updates);
    ranks.push_back(
        std::make_unique<TestProcess>(arguments, folder + "/" + std::to_string(rank) + ".log"));
  }
  return ranks;
}

/// Starts all ranks and waits for them.
void RunRanks(const Layout& layout, const std::string& store, const std::string& folder) {
  for (const auto& rank : StartRanks(layout, store, folder)) {
    EXPECT_EQ(rank->Wait(kPatience), 0) << layout.Name() << ": " << rank->Log();
  }
}

Result ReadResult(const std::string& path) {
  Result result;
  const auto file = relay::SafetensorsFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return result;
  for (const relay::TensorEntry& entry : (*file)->view().entries()) {
    result[entry.name] = engine::BorrowTensor((*file)->view(), entry)->clone().to(torch::kFloat64);
  }
  return result;
}

struct Difference {
  double losses = 0, norms = 0, weights = 0;
};

/// The difference of each loss and norm relative to itself; of each weight relative to its tensor's
/// largest.
Difference Compare(const Result& got, const Result& want) {
  const auto each = [&](const std::string& name) {
    return ((got.at(name) - want.at(name)) / want.at(name)).abs().max().item<double>();
  };
  Difference difference{each("losses"), each("gradient_norms"), 0};
  for (const auto& [name, tensor] : want) {
    if (name.find(".weight") == std::string::npos && name.find(".bias") == std::string::npos) {
      continue;
    }
    const double off = (got.at(name) - tensor).abs().max().item<double>();
    difference.weights = std::max(difference.weights, off / tensor.abs().max().item<double>());
  }
  return difference;
}

/// Expects that the learning rate matters: imitation gets far, and the weights move.
void ExpectLearning(const Result& result) {
  const Tensor losses = result.at("losses");
  EXPECT_LT(losses[19].item<double>(), 0.85 * losses[1].item<double>());
  std::vector<Tensor> last;
  for (const auto& [name, tensor] : result) {
    if (name.find("model.") == 0) last.push_back(tensor.flatten());
  }
  const Tensor first = result.at("first"), moved = torch::cat(last) - first;
  EXPECT_GT((moved.norm() / first.norm()).item<double>(), 0.1);
}

TEST(ParityTest, RanksTrainAsOneProcessDoes) {
  const TestFolder folder;
  const auto server = StoreServer::Start("127.0.0.1");
  ASSERT_TRUE(server.ok()) << server.status();
  std::map<std::string, Result> one;
  for (const Layout& layout : {Layout{1, 1}, Layout{1, 2}, Layout{2, 1}, Layout{2, 2}}) {
    const std::string own = folder.path(layout.Name());
    // Ranks of different layouts must not meet: each has a file of its own, or the server.
    RunRanks(layout, layout.tp == layout.dp ? (*server)->address() : "file://" + own + ".store",
             own);
    for (const std::string dtype : {"float64", "float32"}) {
      const Result result = ReadResult(own + "/" + dtype + ".safetensors");
      ASSERT_EQ(result.count("losses"), 1u);
      if (one.count(dtype) == 0) {
        ExpectLearning(result);
        one[dtype] = result;
        continue;
      }
      const Difference difference = Compare(result, one[dtype]);
      std::printf("%s %s: losses %.2g, gradient norms %.2g, weights %.2g (relative)\n",
                  layout.Name().c_str(), dtype.c_str(), difference.losses, difference.norms,
                  difference.weights);
      const double bound = dtype == "float64" ? 1e-9 : 0.05;
      EXPECT_LT(difference.losses, bound) << layout.Name() << " " << dtype;
      EXPECT_LT(difference.norms, bound) << layout.Name() << " " << dtype;
      EXPECT_LT(difference.weights, bound) << layout.Name() << " " << dtype;
      const double imbalance = result.at("imbalance").item<double>();
      if (layout.dp > 1) {
        EXPECT_GE(imbalance, 1);
        EXPECT_LT(imbalance, 1.1);
      }
    }
  }
}

bool WaitUntil(const std::function<bool()>& done) {
  const absl::Time end = absl::Now() + kPatience;
  absl::Notification never;
  while (!done()) {
    if (absl::Now() > end) return false;
    never.WaitForNotificationWithTimeout(absl::Milliseconds(10));
  }
  return true;
}

// One rank of four is killed in the middle of an update: every other rank ends by itself, at once,
// and names the reason.
TEST(ParityTest, TheOthersEndWhenARankIsKilled) {
  const TestFolder folder;
  const auto server = StoreServer::Start("127.0.0.1");
  ASSERT_TRUE(server.ok()) << server.status();
  const Ranks ranks =
      StartRanks({2, 2}, (*server)->address(), folder.path(), /*updates=*/"1000000");
  EXPECT_TRUE(WaitUntil([&] { return std::filesystem::exists(folder.path("began")); }));
  const absl::Time killed = absl::Now();
  ranks[3]->Signal(SIGKILL);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank]->Wait(kPatience), rank == 3 ? 128 + SIGKILL : 1) << "rank " << rank;
    if (rank == 3) continue;
    const std::string log = ranks[rank]->Log();
    EXPECT_NE(log.find("UNAVAILABLE"), std::string::npos) << log;
    EXPECT_NE(log.find("rank " + std::to_string(rank) + ", group \""), std::string::npos) << log;
  }
  // Far less than the groups' timeout of a minute: the closed connection tells.
  EXPECT_LT(absl::Now() - killed, absl::Seconds(30));
}

}  // namespace
}  // namespace baton::parallel
