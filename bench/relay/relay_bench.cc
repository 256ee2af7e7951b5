// How fast versions travel down a chain of relays: `./dev bench relay [--quick] [--json F]`.
//
// Each relay is a process in a network namespace of its own, with its own shared memory, behind a
// link of 250 Mbit/s in either direction (tbf, burst 128 KiB) to one switch. Where the machine does
// not permit namespaces, hosts share the loopback interface: then the run says so, and its rows
// begin with loopback_ and say nothing of links. A version has 64 MiB.
//
//     link_seconds                  a plain TCP connection carries the same bytes
//     publish_seconds               one relay: the version is sealed where it was written
//     chain2_seconds ...            from sealed on the first relay to visible on the last
//     star8_seconds                 the first relay sends to seven others at once
//     one_hop_over_link             chain2 over link
//     chain4_over_one_hop, chain8_over_one_hop, star8_over_one_hop
//     bytes_per_link_over_model     most bytes that a host of a chain sent, over those of a version
//     relay_killed_midway_over_clean
//                                   chain of 8 whose middle relay is killed when it has half, and
//                                   whose neighbours are joined when the connection is seen to
//                                   break, over one that nothing happens to
//     idle                          share of the processors that idled in the busiest measurement.
//                                   A measurement with less than 15% idle measures the machine:
//                                   void
//     stall_over_memcpy             from Begin to Commit of a version of 512 MiB, checksums
//     included,
//                                   over a copy of the same bytes in the same moment; the relay
//                                   uses memory again. first_stall_over_memcpy: it does not
//     visible_over_memcpy           until it is sealed
//     local_load_over_memcpy        a reader finds it, verifies it and copies it
//     delta_bytes_over_full/3%      bytes of a delta over those of its version. The version is the
//                                   one before after a step of AdamW that changes 3% of the values
//                                   in bfloat16 (delta_rows.h)
//     delta_apply_over_memcpy/3%    applying it, over a copy of the version in memory
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/relay/bench_host.h"
#include "bench/relay/delta_rows.h"
#include "bench/relay/host_network.h"
#include "bench/relay/local_rows.h"
#include "bench/support/report.h"
#include "sdk/common/base/clock.h"

namespace baton::bench {
namespace {

constexpr double kLeastIdle = 0.15;
constexpr double kLeastTicks = 20;  // fewer do not tell
constexpr char kJob[] = "bench";

/// Processor time of the machine since it started.
struct CpuTime {
  double idle = 0, all = 0;
  static CpuTime Now() {
    std::ifstream file("/proc/stat");
    std::string cpu;
    file >> cpu;
    CpuTime time;
    double part = 0;
    for (int i = 0; i < 8 && file >> part; ++i) {
      time.all += part;
      if (i == 3 || i == 4) time.idle += part;
    }
    return time;
  }
};

class RelayBench {
 public:
  RelayBench(HostNetwork* network, int64_t bytes) : bytes_(bytes) {
    for (int i = 0; i < 8; ++i) hosts_.push_back(network->NewHost());
  }

  void Link() {
    Measure("link", [this] {
      hosts_[1]->Tell("sink");
      const std::string port = hosts_[1]->Expect("sink");
      hosts_[0]->Tell(absl::StrCat("send ", hosts_[1]->ip(), ":", port, " ", bytes_));
      const int64_t begin = hosts_[0]->ExpectNumber("sending");
      return static_cast<double>(hosts_[1]->ExpectNumber("sunk") - begin) * 1e-9;
    });
  }

  void Publish() {
    Measure("publish", [this] {
      const int64_t begin = absl::ToInt64Nanoseconds(BootNow() - absl::UnixEpoch());
      Order({0});
      return static_cast<double>(PublishAtFirst() - begin) * 1e-9;
    });
  }

  /// Down a chain of so many relays, which stands already.
  void Chain(int relays) {
    std::vector<int> chain;
    for (int i = 0; i < relays; ++i) chain.push_back(i);
    Order(chain);
    Settle(chain);
    Measure(absl::StrCat("chain", relays), [&] {
      const std::vector<int64_t> before = Sent(chain);
      const int64_t begin = PublishAtFirst();
      const double seconds = SecondsUntilAllHave(chain, begin);
      const std::vector<int64_t> after = Sent(chain);
      for (int i = 0; i + 1 < relays; ++i) {
        const auto sent = static_cast<double>(after[i] - before[i]);
        most_per_link_ = std::max(most_per_link_, sent / static_cast<double>(bytes_));
      }
      return seconds;
    });
  }

  /// The first relay sends to all others. A relay has one successor in a chain, so these are
  /// versions of seven jobs.
  void Star() {
    Measure("star8", [this] {
      for (int i = 1; i < 8; ++i) {
        hosts_[0]->Tell(absl::StrCat("publish star", i, " 1 ", bytes_));
        hosts_[0]->Expect("published");
      }
      const int64_t begin = absl::ToInt64Nanoseconds(BootNow() - absl::UnixEpoch());
      for (int i = 1; i < 8; ++i) {
        hosts_[0]->Tell(absl::StrCat("follow star", i, " 1 2 ", hosts_[i]->address()));
      }
      int64_t end = begin;
      for (int i = 1; i < 8; ++i) hosts_[i]->Tell(absl::StrCat("wait star", i, " 1"));
      for (int i = 1; i < 8; ++i) end = std::max(end, hosts_[i]->ExpectNumber("has"));
      for (int i = 1; i < 8; ++i) hosts_[0]->Expect("following");
      return static_cast<double>(end - begin) * 1e-9;
    });
  }

  /// The last measurement: a host is gone afterwards.
  void ChainWithAKill() {
    std::vector<int> chain = {0, 1, 2, 3, 4, 5, 6, 7};
    Order(chain);
    Settle(chain);
    Measure("killed", [&] {
      const int64_t half = Received(4) + bytes_ / 2;
      const int64_t begin = PublishAtFirst();
      while (Received(4) < half) absl::SleepFor(absl::Milliseconds(5));
      hosts_[4]->Kill();
      hosts_[3]->Expect("broken");
      chain.erase(chain.begin() + 4);
      Order(chain);
      return SecondsUntilAllHave(chain, begin);
    });
  }

  double most_per_link() const { return most_per_link_; }
  double least_idle() const { return least_idle_; }
  /// Of what counts; empty: nothing does.
  std::optional<double> Median(const std::string& name) const {
    const auto it = seconds_.find(name);
    if (it == seconds_.end()) return {};
    return Percentile(it->second, 0.5);
  }

 private:
  void Measure(const std::string& name, const std::function<double()>& run) {
    const CpuTime before = CpuTime::Now();
    const double seconds = run();
    const CpuTime after = CpuTime::Now();
    const double ticks = after.all - before.all;
    const double idle = ticks < kLeastTicks ? 1 : (after.idle - before.idle) / ticks;
    std::fprintf(stderr, "%s: %.3f s, %.0f%% idle\n", name.c_str(), seconds, 100 * idle);
    least_idle_ = std::min(least_idle_, idle);
    if (idle >= kLeastIdle) seconds_[name].push_back(seconds);
  }

  /// From the last relay to the first, so that a version finds the chain whole.
  void Order(const std::vector<int>& chain) {
    ++generation_;
    for (size_t i = chain.size(); i-- > 0;) {
      const std::string next =
          i + 1 < chain.size() ? hosts_[chain[i + 1]]->address() : std::string("-");
      hosts_[chain[i]]->Tell(
          absl::StrCat("follow ", kJob, " ", generation_, " ", chain.size(), " ", next));
    }
    for (const int i : chain) hosts_[i]->Expect("following");
  }

  /// A version travels unmeasured: links learn what they cost, and memory is faulted in.
  void Settle(const std::vector<int>& chain) { SecondsUntilAllHave(chain, PublishAtFirst()); }

  int64_t PublishAtFirst() {
    hosts_[0]->Tell(absl::StrCat("publish ", kJob, " ", ++version_, " ", bytes_));
    return hosts_[0]->ExpectNumber("published");
  }

  double SecondsUntilAllHave(const std::vector<int>& chain, int64_t begin) {
    for (const int i : chain) hosts_[i]->Tell(absl::StrCat("wait ", kJob, " ", version_));
    int64_t end = begin;
    for (const int i : chain) end = std::max(end, hosts_[i]->ExpectNumber("has"));
    return static_cast<double>(end - begin) * 1e-9;
  }

  int64_t Received(int host) {
    hosts_[host]->Tell("received");
    return hosts_[host]->ExpectNumber("received");
  }

  std::vector<int64_t> Sent(const std::vector<int>& chain) {
    std::vector<int64_t> bytes;
    for (const int i : chain) {
      hosts_[i]->Tell("sent");
      bytes.push_back(hosts_[i]->ExpectNumber("sent"));
    }
    return bytes;
  }

  const int64_t bytes_;
  std::vector<std::unique_ptr<Host>> hosts_;
  uint64_t generation_ = 0, version_ = 0;
  double most_per_link_ = 0, least_idle_ = 1;
  std::map<std::string, std::vector<double>> seconds_;  ///< By measurement.
};

void Run(HostNetwork* network, int64_t bytes, int repeats, Report* report) {
  const bool links = network->why_loopback().empty();
  const std::string prefix = links ? "" : "loopback_";
  RelayBench bench(network, bytes);
  for (int i = 0; i < repeats; ++i) {
    bench.Publish();
    bench.Link();
    for (const int relays : {2, 4, 8}) bench.Chain(relays);
  }
  bench.Star();
  bench.ChainWithAKill();
  const auto row = [&](const std::string& name, std::optional<double> value,
                       const std::string& unit, const std::string& note) {
    if (value) return report->Add(prefix + name, *value, unit, note);
    std::printf("%s is void: the machine had less than 15%% idle\n", (prefix + name).c_str());
  };
  const auto over = [&](const char* a, const char* b) -> std::optional<double> {
    const auto above = bench.Median(a), below = bench.Median(b);
    if (!above || !below) return {};
    return *above / *below;
  };
  for (const char* name : {"link", "publish", "chain2", "chain4", "chain8", "star8"}) {
    row(absl::StrCat(name, "_seconds"), bench.Median(name), "s", "");
  }
  row("one_hop_over_link", over("chain2", "link"), "ratio", "aim: at most 1.08");
  row("chain4_over_one_hop", over("chain4", "chain2"), "ratio", "");
  row("chain8_over_one_hop", over("chain8", "chain2"), "ratio", "aim: at most 1.15");
  row("star8_over_one_hop", over("star8", "chain2"), "ratio", "for contrast");
  if (links) {
    row("bytes_per_link_over_model", bench.most_per_link(), "ratio", "aim: at most 1.05");
  }
  row("relay_killed_midway_over_clean", over("killed", "chain8"), "ratio", "aim: at most 1.5");
  row("idle", bench.least_idle(), "share", "of the busiest measurement");
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  CLI::App app("How fast versions travel down a chain of relays");
  std::string json, host, shm;
  bool quick = false, loopback = false, own_shm = false;
  int repeats = 3;
  app.add_flag("--quick", quick, "Small versions on the loopback interface");
  app.add_flag("--loopback", loopback, "No network namespaces");
  app.add_option("--repeats", repeats, "Of each measurement; rows are medians");
  app.add_option("--json", json, "Write the report to this file");
  app.add_option("--host", host, "Be a host of the bench at this address")->group("");
  app.add_option("--shm", shm)->group("");
  app.add_flag("--own-shm", own_shm)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!host.empty()) return baton::bench::RunBenchHost(host, shm, own_shm);
  baton::bench::HostNetwork::Options options;
  options.loopback = quick || loopback;
  baton::bench::HostNetwork network(options);
  if (!network.why_loopback().empty()) {
    std::printf("hosts share the loopback interface: %s\n", network.why_loopback().c_str());
  }
  baton::bench::Report report("relay");
  baton::bench::Run(&network, quick ? 4 << 20 : 64 << 20, quick ? 1 : repeats, &report);
  baton::bench::AddLocalRows(quick ? 8 << 20 : 512 << 20, quick ? 1 : 7, &report);
  baton::bench::AddDeltaRows(quick ? 1 << 20 : 32 << 20, quick ? 1 : 5, &report);
  report.Print();
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}
