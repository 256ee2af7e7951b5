// Layouts whose ranks are threads of this process, without a transport.
#ifndef BATON_TESTS_SUPPORT_WORKERS_HYBRID_H_
#define BATON_TESTS_SUPPORT_WORKERS_HYBRID_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/common/parallel/transition.h"
#include "tests/support/engine/thread_communicator.h"
#include "workers/hybrid/hybrid_engine.h"

namespace baton::hybrid::testing {

/// A rank's ends of its groups; null for a group of 1.
struct Ends {
  int rank = 0;
  std::unique_ptr<engine::Communicator> tensor, data;
  HybridGroups hybrid;
};

/// Runs `body` on a thread for each rank. `layout` has one stage.
inline void RunLayout(const RankLayout& layout, const std::function<void(Ends&)>& body) {
  using engine::testing::MeetingPoint;
  std::map<std::pair<std::string, int>, std::unique_ptr<MeetingPoint>> points;
  const auto join = [&](const std::string& kind, const std::vector<int>& ranks,
                        int rank) -> std::unique_ptr<engine::Communicator> {
    const int size = static_cast<int>(ranks.size());
    if (size == 1) return nullptr;
    std::unique_ptr<MeetingPoint>& point = points[{kind, ranks[0]}];
    if (point == nullptr) point = std::make_unique<MeetingPoint>(size);
    int place = 0;
    while (ranks[place] != rank) ++place;
    return std::make_unique<engine::testing::ThreadCommunicator>(place, size, point.get());
  };
  std::vector<Ends> all(layout.world_size());
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    std::vector<int> tensor, data;
    for (int t = 0; t < layout.tensor; ++t) {
      tensor.push_back(rank / layout.tensor * layout.tensor + t);
    }
    for (int d = 0; d < layout.data; ++d) data.push_back(d * layout.tensor + rank % layout.tensor);
    all[rank].rank = rank;
    all[rank].tensor = join("tensor", tensor, rank);
    all[rank].data = join("data", data, rank);
    all[rank].hybrid.micro_data = join("micro", MicroDataRanks(layout, rank), rank);
    all[rank].hybrid.generation_tensor =
        join("generation", GenerationTensorRanks(layout, rank), rank);
  }
  std::vector<std::thread> threads;
  for (Ends& ends : all) threads.emplace_back([&] { body(ends); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace baton::hybrid::testing

#endif  // BATON_TESTS_SUPPORT_WORKERS_HYBRID_H_
