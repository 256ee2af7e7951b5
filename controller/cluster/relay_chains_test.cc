// Which relays a job's versions travel through, and what a job hears of them.
#include "controller/cluster/relay_chains.h"

#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "controller/cluster/cluster_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kJob[] = "projects/default/jobs/j";

// What came out of the events so far.
struct Heard {
  std::map<std::string, RelayView> views;         // by job
  std::map<std::string, v1::RelayOrders> orders;  // by relay
  std::map<std::string, int> orders_sent, views_sent;

  void Note(const ClusterEffects& effects) {
    for (const ClusterEffect& effect : effects) {
      if (const auto* relays = std::get_if<ClusterRelays>(&effect)) {
        views[relays->job] = relays->relays;
        ++views_sent[relays->job];
      } else if (const auto* sent = std::get_if<ClusterRelayOrders>(&effect)) {
        orders[sent->relay] = sent->orders;
        ++orders_sent[sent->relay];
      }
    }
  }
};

class RelayChainsTest : public ::testing::Test {
 protected:
  v1::Hello HelloOf(const std::string& id, const std::string& host, const std::string& role) {
    v1::Hello hello;
    hello.set_worker_id(id);
    hello.set_instance_id(id + "-process");
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_memory_id(host);
    v1::MethodCredits* method = hello.add_methods();
    method->set_role(role);
    method->set_method(role == "relay" ? "follow" : "generate");
    method->set_credits(1);
    return hello;
  }
  uint64_t Attach(const v1::Hello& hello, const std::string& project = "*") {
    heard_.Note(core_.OnHello(++session_, hello, now_, project));
    return session_;
  }
  uint64_t AttachRelay(const std::string& host, const std::string& project = "*",
                       const std::string& process = "1") {
    v1::Hello hello = HelloOf("relay-" + host, host, "relay");
    hello.set_instance_id(process);
    hello.mutable_relay()->set_address(host + ":7079");
    hello.mutable_relay()->set_chain_address(host + ":7080");
    return Attach(hello, project);
  }
  uint64_t AttachWorker(const std::string& host, const std::string& role) {
    return Attach(HelloOf(role + "-" + host, host, role));
  }
  void Need(const std::map<std::string, int>& missing) {
    heard_.Note(core_.OnNeed(kJob, 0, 1, true, missing, now_));
  }
  void Report(uint64_t relay, const std::vector<uint64_t>& versions, uint64_t broken = 0) {
    v1::RelayReport report;
    v1::RelayVersions& job = *report.add_jobs();
    job.set_job(kJob);
    job.mutable_versions()->Assign(versions.begin(), versions.end());
    job.set_generation(broken != 0 ? broken : GenerationAt("a"));
    job.set_broken(broken != 0);
    if (broken != 0) job.mutable_trouble()->set_message("connection refused");
    heard_.Note(core_.OnRelayReport(relay, report));
  }
  /// The hosts of the job's chain, as the orders have it. Each relay must have the same generation.
  std::vector<std::string> ChainFrom(const std::string& host) const {
    std::vector<std::string> chain = {host};
    for (size_t i = 0; i < chain.size(); ++i) {
      const auto orders = heard_.orders.find("relay-" + chain[i]);
      if (orders == heard_.orders.end()) return {"no order for " + chain[i]};
      for (const v1::RelayOrder& order : orders->second.orders()) {
        if (order.job() != kJob) continue;
        if (order.generation() != GenerationAt(host)) return {"another generation at " + chain[i]};
        if (!order.next().empty()) chain.push_back(order.next().substr(0, order.next().find(':')));
      }
    }
    return chain;
  }
  uint64_t GenerationAt(const std::string& host) const {
    const auto orders = heard_.orders.find("relay-" + host);
    if (orders == heard_.orders.end()) return 0;
    for (const v1::RelayOrder& order : orders->second.orders()) {
      if (order.job() == kJob) return order.generation();
    }
    return 0;
  }
  /// A job with its actor on host a, and a rollout on each of b, c and d, all with relays.
  void StartJob() {
    for (const char* host : {"a", "b", "c", "d"}) relays_[host] = AttachRelay(host);
    workers_["a"] = AttachWorker("a", "actor");
    for (const char* host : {"b", "c", "d"}) workers_[host] = AttachWorker(host, "rollout");
    Need({{"actor", 1}, {"rollout", 3}});
    heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  }

  ClusterCore core_{3, {}};
  absl::Time now_ = absl::UnixEpoch();
  uint64_t session_ = 0;
  Heard heard_;
  std::map<std::string, uint64_t> relays_, workers_;
};

TEST_F(RelayChainsTest, ThePublishersRelayIsTheHead) {
  StartJob();
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d"));
  const v1::RelayOrder& order = heard_.orders["relay-a"].orders(0);
  EXPECT_EQ(order.relays(), 4);
  EXPECT_GT(order.generation(), uint64_t{3} << 32) << "of this controller's epoch";
  EXPECT_THAT(heard_.views[kJob].relay_of,
              UnorderedElementsAre(Pair("actor-a", "relay-a"), Pair("rollout-b", "relay-b"),
                                   Pair("rollout-c", "relay-c"), Pair("rollout-d", "relay-d")));
}

TEST_F(RelayChainsTest, OneHostNeedsNoChain) {
  AttachRelay("a");
  AttachWorker("a", "actor");
  AttachWorker("a", "rollout");
  Need({{"actor", 1}, {"rollout", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  EXPECT_THAT(heard_.orders, IsEmpty());
}

TEST_F(RelayChainsTest, WithoutRelaysAJobHearsNothing) {
  AttachWorker("a", "actor");
  AttachWorker("b", "rollout");
  Need({{"actor", 1}, {"rollout", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  EXPECT_THAT(heard_.views, IsEmpty());
  EXPECT_THAT(heard_.orders, IsEmpty());
}

TEST_F(RelayChainsTest, HostsWithoutARolloutAreInNoChain) {
  for (const char* host : {"a", "b", "c"}) AttachRelay(host);
  AttachWorker("a", "actor");
  AttachWorker("b", "reward");
  AttachWorker("c", "rollout");
  Need({{"actor", 1}, {"reward", 1}, {"rollout", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "c"));
}

TEST_F(RelayChainsTest, NewHostsJoinAtTheTail) {
  StartJob();
  const uint64_t before = GenerationAt("a");
  AttachRelay("aa");
  AttachWorker("aa", "rollout");
  Need({{"rollout", 1}});
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d", "aa"));
  EXPECT_GT(GenerationAt("a"), before);
}

TEST_F(RelayChainsTest, ARelayWhoseLeaseEndsIsBridged) {
  StartJob();
  heard_.Note(core_.OnClosed(relays_["c"], now_));
  heard_.Note(core_.OnTick(now_ + absl::Seconds(9)));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d")) << "its link alone is cut";
  for (const char* host : {"a", "b", "d"}) {
    core_.OnHeartbeats(relays_[host], now_ + absl::Seconds(9));
  }
  for (uint64_t session = 5; session <= 8; ++session) {
    core_.OnHeartbeats(session, now_ + absl::Seconds(9));
  }
  heard_.Note(core_.OnTick(now_ + absl::Seconds(11)));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "d"));
  AttachRelay("c", "*", "2");
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "d", "c")) << "at the tail again";
}

TEST_F(RelayChainsTest, ARelayThatCannotBeReachedGoesToTheTail) {
  StartJob();
  Report(relays_["b"], {}, GenerationAt("b"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "d", "c"));
  const uint64_t generation = GenerationAt("a");
  Report(relays_["b"], {}, generation - 1);
  EXPECT_EQ(GenerationAt("a"), generation) << "an older order's link";
  Report(relays_["d"], {}, generation);
  EXPECT_EQ(GenerationAt("a"), generation) << "none comes after the tail";
  EXPECT_EQ(heard_.views[kJob].trouble["relay-c"], "relay-d: connection refused");
}

// Otherwise they would change places for ever, each time with a connection and a report.
TEST_F(RelayChainsTest, TwoThatCannotBeReachedAreMovedOnceEach) {
  StartJob();
  Report(relays_["a"], {}, GenerationAt("a"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "c", "d", "b"));
  Report(relays_["a"], {}, GenerationAt("a"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "d", "b", "c"));
  Report(relays_["d"], {}, GenerationAt("a"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "d", "c", "b"));
  Report(relays_["d"], {}, GenerationAt("a"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "d", "b", "c"));
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = GenerationAt("a");
    Report(relays_["d"], {}, before);
    Report(relays_["a"], {});
    if (i > 0) EXPECT_EQ(GenerationAt("a"), before) << i;
  }
  EXPECT_EQ(ChainFrom("a").front(), "a") << "the head stays";
}

// Otherwise no relay behind it would get a version.
TEST_F(RelayChainsTest, ARelayThatReachesNoOtherGoesToTheTail) {
  StartJob();
  Report(relays_["b"], {}, GenerationAt("b"));
  Report(relays_["b"], {}, GenerationAt("b"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d")) << "each of the others was tried";
  Report(relays_["b"], {}, GenerationAt("b"));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "c", "d", "b"));
}

// Version `version` went over each link in these seconds.
TEST_F(RelayChainsTest, ARelayBehindASlowLinkGoesToTheTailOnce) {
  StartJob();
  uint64_t version = 0;
  const auto report = [&](const std::map<std::string, double>& seconds) {
    ++version;
    for (const auto& [host, link] : seconds) {
      v1::RelayReport report;
      v1::RelayVersions& job = *report.add_jobs();
      job.set_job(kJob);
      job.set_generation(GenerationAt("a"));
      v1::RelayHop& hop = *job.mutable_hop();
      hop.set_policy_version(version);
      hop.set_size_bytes(100'000'000);
      hop.set_sent_bytes(100'000'000);
      hop.set_seconds(30);
      hop.set_link_seconds(link);
      heard_.Note(core_.OnRelayReport(relays_[host], report));
    }
    return ChainFrom("a");
  };
  const std::map<std::string, double> slow_b = {{"a", 9}, {"b", 1}, {"c", 2}};
  EXPECT_THAT(report(slow_b), ElementsAre("a", "b", "c", "d")) << "once may be chance";
  EXPECT_THAT(report({{"a", 4}, {"b", 1}, {"c", 2}}), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(report(slow_b), ElementsAre("a", "b", "c", "d")) << "not twice in a row";
  EXPECT_THAT(report({{"a", 0}}), ElementsAre("a", "b", "c", "d"))
      << "tells nothing, but is between";
  EXPECT_THAT(report(slow_b), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(report(slow_b), ElementsAre("a", "c", "d", "b"));
  EXPECT_EQ(
      heard_.views[kJob].slow["relay-b"],
      "relay-a sent to relay-b at 11.1 MB/s, other relays at 50 MB/s: relay-b went to the tail");
  // The link to b stays slow. No relay comes after b, so nothing is moved.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(report({{"a", 1}, {"c", 1}, {"d", 9}}), ElementsAre("a", "c", "d", "b"));
  }
  // Both relays that follow c in turn get versions slowly: first d is moved, then c itself.
  report({{"a", 1}, {"c", 20}, {"d", 2}});
  EXPECT_THAT(report({{"a", 1}, {"c", 20}, {"d", 2}}), ElementsAre("a", "c", "b", "d"));
  report({{"a", 1}, {"c", 20}, {"b", 2}});
  EXPECT_THAT(report({{"a", 1}, {"c", 20}, {"b", 2}}), ElementsAre("a", "b", "d", "c"));
  // The head sends slowly as well, but it is never moved.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(report({{"a", 20}, {"b", 1}, {"d", 1}}), ElementsAre("a", "b", "d", "c"));
  }
}

// Few bytes, or a short time, do not tell how fast a link is.
TEST_F(RelayChainsTest, AShortTransferTellsNothingOfALink) {
  StartJob();
  for (uint64_t version = 1; version < 6; ++version) {
    for (const auto& [host, bytes, seconds] :
         {std::tuple("a", 1'000'000, 3.0), std::tuple("b", 100'000'000, 0.19),
          std::tuple("c", 100'000'000, 0.02)}) {
      v1::RelayReport report;
      v1::RelayVersions& job = *report.add_jobs();
      job.set_job(kJob);
      job.set_generation(GenerationAt("a"));
      job.mutable_hop()->set_policy_version(version);
      job.mutable_hop()->set_sent_bytes(static_cast<uint64_t>(bytes));
      job.mutable_hop()->set_seconds(seconds);
      job.mutable_hop()->set_link_seconds(seconds);
      heard_.Note(core_.OnRelayReport(relays_[host], report));
    }
    EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d"));
  }
}

TEST_F(RelayChainsTest, ARelayWhoseLeaseEndsWithItsStreamOpenIsBridged) {
  StartJob();
  now_ += absl::Seconds(9);
  for (uint64_t session = 1; session <= session_; ++session) {
    if (session != relays_["c"]) core_.OnHeartbeats(session, now_);
  }
  now_ += absl::Seconds(2);
  heard_.Note(core_.OnTick(now_));
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "d"));
  EXPECT_EQ(heard_.views[kJob].trouble["relay-c"], "it is not attached");
  EXPECT_THAT(heard_.views[kJob].unreachable, ElementsAre("relay-c"));
}

TEST_F(RelayChainsTest, TheRelayThatSaidHelloLastIsThatOfItsHost) {
  StartJob();
  v1::Hello hello = HelloOf("another", "b", "relay");
  hello.mutable_relay()->set_address("b:1");
  hello.mutable_relay()->set_chain_address("b:2");
  Attach(hello);
  EXPECT_EQ(heard_.views[kJob].relay_of["rollout-b"], "another");
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "c", "d", "b")) << "now of the other relay";
}

// It would be shown the worker's token, which opens every project.
TEST_F(RelayChainsTest, ARelayOfOneProjectServesNoWorkerOfAll) {
  AttachRelay("a", "default");
  AttachWorker("a", "actor");
  Need({{"actor", 1}});
  EXPECT_THAT(heard_.views[kJob].relay_of, ElementsAre(Pair("actor-a", "")));
}

TEST_F(RelayChainsTest, AWorkerThatKnowsItsRelayIsInNoView) {
  AttachRelay("a");
  Attach(HelloOf("actor-a", "", "actor"));
  Need({{"actor", 1}});
  EXPECT_THAT(heard_.views, IsEmpty());
}

TEST_F(RelayChainsTest, AReportThatComesBeforeTheJobsWorkersCounts) {
  const uint64_t relay = AttachRelay("b");
  Report(relay, {4});
  AttachWorker("b", "rollout");
  Need({{"rollout", 1}});
  EXPECT_THAT(heard_.views[kJob].versions["relay-b"], ElementsAre(4));
}

TEST_F(RelayChainsTest, ARelayThatReceivesNothingIsInNoChain) {
  AttachRelay("a");
  v1::Hello hello = HelloOf("relay-b", "b", "relay");
  hello.mutable_relay()->set_address("b:7079");
  Attach(hello);
  AttachWorker("a", "actor");
  AttachWorker("b", "rollout");
  Need({{"actor", 1}, {"rollout", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  EXPECT_THAT(heard_.orders, IsEmpty());
  EXPECT_THAT(heard_.views[kJob].trouble["relay-b"], ::testing::HasSubstr("--chain-listen"));
}

TEST_F(RelayChainsTest, AJobHearsWhichHostHasWhichVersion) {
  StartJob();
  Report(relays_["c"], {4, 5});
  EXPECT_THAT(heard_.views[kJob].versions["relay-c"], ElementsAre(4, 5));
  EXPECT_THAT(heard_.views[kJob].versions["relay-b"], IsEmpty());
  const int sent = heard_.views_sent[kJob];
  Report(relays_["c"], {4, 5});
  EXPECT_EQ(heard_.views_sent[kJob], sent) << "nothing new";
}

TEST_F(RelayChainsTest, AJobHearsHowItsLastVersionTravelled) {
  StartJob();
  const auto report = [&](double seconds) {
    v1::RelayReport report;
    v1::RelayVersions& job = *report.add_jobs();
    job.set_job(kJob);
    job.mutable_hop()->set_policy_version(7);
    job.mutable_hop()->set_size_bytes(1000);
    job.mutable_hop()->set_sent_bytes(40);
    job.mutable_hop()->set_seconds(seconds);
    heard_.Note(core_.OnRelayReport(relays_["a"], report));
    return heard_.views[kJob].hops;
  };
  EXPECT_TRUE(report(0.5) == (std::map<std::string, RelayHop>{{"relay-a", {7, 1000, 40, 0.5, 0}}}));
  EXPECT_TRUE(report(std::numeric_limits<double>::quiet_NaN()).empty());
  EXPECT_TRUE(report(-1).empty());
}

TEST_F(RelayChainsTest, ARestartedRelayHasNothing) {
  StartJob();
  Report(relays_["c"], {4, 5});
  heard_.Note(core_.OnClosed(relays_["c"], now_));
  EXPECT_THAT(heard_.views[kJob].versions["relay-c"], ElementsAre(4, 5)) << "it may be back";
  now_ += absl::Seconds(1);
  AttachRelay("c", "*", "2");
  EXPECT_THAT(heard_.views[kJob].versions["relay-c"], IsEmpty());
}

// Its neighbour offers it what it has: a link sends no version twice.
TEST_F(RelayChainsTest, ARestartedRelayIsAnotherMemberOfItsChain) {
  StartJob();
  const uint64_t before = GenerationAt("b");
  heard_.Note(core_.OnClosed(relays_["c"], now_));
  now_ += absl::Seconds(1);
  AttachRelay("c", "*", "2");
  EXPECT_GT(GenerationAt("b"), before);
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d"));
}

TEST_F(RelayChainsTest, ARelayIsToldItsOrdersAnewOnEachStream) {
  StartJob();
  const int sent = heard_.orders_sent["relay-c"];
  heard_.Note(core_.OnClosed(relays_["c"], now_));
  AttachRelay("c");
  EXPECT_EQ(heard_.orders_sent["relay-c"], sent + 1);
  EXPECT_THAT(ChainFrom("a"), ElementsAre("a", "b", "c", "d"));
}

TEST_F(RelayChainsTest, AnotherPublisherIsAnotherHead) {
  StartJob();
  heard_.Note(core_.OnClosed(workers_["a"], now_));
  heard_.Note(core_.OnReturn(kJob, "actor-a", now_));
  AttachWorker("c", "actor");
  Need({{"actor", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-c"));
  EXPECT_THAT(heard_.views[kJob].relay_of, ::testing::Contains(Pair("actor-c", "relay-c")));
  EXPECT_THAT(ChainFrom("c"), ElementsAre("c", "b", "d"));
  EXPECT_EQ(GenerationAt("a"), 0u) << "it has no part in it any more";
}

TEST_F(RelayChainsTest, ARelayServesTheJobsOfItsProjectAlone) {
  AttachRelay("a");
  const uint64_t other = AttachRelay("b", "other");
  AttachWorker("a", "actor");
  AttachWorker("b", "rollout");
  Need({{"actor", 1}, {"rollout", 1}});
  heard_.Note(core_.OnPublisher(kJob, "actor-a"));
  Report(other, {7});
  EXPECT_THAT(heard_.orders, IsEmpty());
  EXPECT_THAT(heard_.views[kJob].relay_of,
              ElementsAre(Pair("actor-a", "relay-a"), Pair("rollout-b", "")));
}

TEST_F(RelayChainsTest, AWorkerThatIsNoRelayReportsNothing) {
  StartJob();
  const int sent = heard_.views_sent[kJob];
  Report(workers_["b"], {9});
  EXPECT_EQ(heard_.views_sent[kJob], sent);
}

TEST_F(RelayChainsTest, AnEndedJobHasNoChain) {
  StartJob();
  core_.OnLeave(kJob);
  for (const char* worker : {"actor-a", "rollout-b", "rollout-c", "rollout-d"}) {
    heard_.Note(core_.OnReturn(kJob, worker, now_));
  }
  for (const char* host : {"a", "b", "c", "d"}) EXPECT_EQ(GenerationAt(host), 0u) << host;
}

}  // namespace
}  // namespace baton::controller
