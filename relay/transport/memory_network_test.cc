// The double of TcpTransport keeps the contract when it is told to break nothing, and breaks what
// it is told to.
#include "tests/support/relay/memory_network.h"

#include "relay/transport/transport_contract_test.h"

namespace baton::relay {
namespace {

class MemoryBackend : public TransportBackend {
 public:
  std::unique_ptr<Transport> NewTransport() override { return network_.NewTransport(); }
  std::string AnyAddress() const override { return "memory:0"; }
  bool Until(const std::function<bool()>& condition) override {
    for (int i = 0; i < 100'000; ++i) {
      if (condition()) return true;
      if (!network_.Step()) return condition();
    }
    return false;
  }

 private:
  MemoryNetwork network_{1, {}, {.message_bytes = kMostMessageBytes}};
};

INSTANTIATE_TEST_SUITE_P(Memory, TransportContract,
                         ::testing::Values(NamedBackend{
                             "memory", [] { return std::make_unique<MemoryBackend>(); }}),
                         [](const auto& info) { return info.param.name; });

/// What arrives of 200 messages.
std::vector<std::string> Arrivals(uint64_t seed, const NetworkFaults& faults) {
  MemoryNetwork network(seed, faults);
  auto a = network.NewTransport(), b = network.NewTransport();
  auto heard = std::make_shared<RecordingHandler>();
  const auto address = b->Listen("memory:0", [&](auto connection) { connection->Start(heard); });
  a->Connect(*address, [&](auto connection) {
    (*connection)->Start(std::make_shared<RecordingHandler>());
    for (int i = 0; i < 200; ++i) (*connection)->Send(absl::StrCat(i));
  });
  network.Run(absl::Seconds(1));
  return heard->heard();
}

TEST(MemoryNetworkTest, ASeedLosesDoublesAndCuts) {
  EXPECT_EQ(Arrivals(1, {}).size(), 200u);
  EXPECT_LT(Arrivals(1, {.lost = 0.2}).size(), 190u);
  EXPECT_GT(Arrivals(1, {.twice = 0.2}).size(), 210u);
  EXPECT_EQ(Arrivals(1, {.cut = 0.05}).back(), "closed UNAVAILABLE");
  const NetworkFaults all = {.lost = 0.1, .twice = 0.1};
  EXPECT_EQ(Arrivals(7, all), Arrivals(7, all));
  EXPECT_NE(Arrivals(7, all), Arrivals(8, all));
}

}  // namespace
}  // namespace baton::relay
