#include "controller/cluster/relay_chains.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "controller/cluster/need_queue.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

bool PlaysRollout(const std::string& roles) {
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  return std::count(all.begin(), all.end(), roles::kRollout) > 0;
}

}  // namespace

void RelayChains::OnRelay(const std::string& relay, const v1::Hello& hello,
                          const std::string& project) {
  Relay& known = relays_[relay];
  const bool other_process = known.hello.instance_id() != hello.instance_id();
  if (other_process) {  // what was in memory is gone
    known.versions.clear();
    known.broken.clear();
  }
  known.hello.set_instance_id(hello.instance_id());
  known.hello.set_memory_id(hello.memory_id());
  *known.hello.mutable_relay() = hello.relay();
  known.project = project;
  known.attached = known.in_chains = true;
  known.lease_end = absl::InfiniteFuture();
  known.told = false;
  changed_ = true;
}

void RelayChains::OnAway(const std::string& relay, absl::Time lease_end) {
  const auto known = relays_.find(relay);
  if (known == relays_.end()) return;
  known->second.attached = false;
  known->second.lease_end = lease_end;
}

void RelayChains::OnTick(absl::Time now) {
  size_t away = 0;
  for (auto& [name, relay] : relays_) {
    if (!relay.attached) ++away;
    if (relay.lease_end > now || !std::exchange(relay.in_chains, false)) continue;
    changed_ = true;
  }
  for (auto it = relays_.begin(); it != relays_.end() && away > kMostAway;) {
    const bool forgets = !it->second.attached && !it->second.in_chains;
    if (forgets) --away;
    it = forgets ? relays_.erase(it) : std::next(it);
  }
}

void RelayChains::OnPublisher(const std::string& job, const std::string& worker) {
  std::string& publisher = jobs_[job].publisher;
  changed_ |= std::exchange(publisher, worker) != worker;
}

void RelayChains::Forget(const std::string& job) {
  jobs_.erase(job);
  for (auto& [name, relay] : relays_) {
    relay.versions.erase(job);
    relay.broken.erase(job);
  }
  changed_ = true;
}

bool RelayChains::Serves(const Relay& relay, const std::string& job) const {
  return relay.project == "*" || relay.project == ProjectId(job);
}

void RelayChains::OnReport(const std::string& relay, const v1::RelayReport& report) {
  const auto known = relays_.find(relay);
  if (known == relays_.end()) return;
  Relay& of = known->second;
  of.versions.clear();
  of.broken.clear();
  for (const v1::RelayVersions& job : report.jobs()) {
    if (!Serves(of, job.job()) || jobs_.count(job.job()) == 0) continue;
    std::set<uint64_t>& versions = of.versions[job.job()];
    versions = {job.versions().begin(), job.versions().end()};
    while (versions.size() > kMostVersions) versions.erase(versions.begin());
    if (job.has_broken()) of.broken[job.job()] = job.generation();
  }
  changed_ = true;
}

// The attached one, of several whose names differ: a relay may have been started anew under
// another.
std::string RelayChains::RelayFor(const ClusterWorker& worker, const std::string& job) const {
  if (worker.hello.memory_id().empty()) return "";
  std::string found;
  for (const auto& [name, relay] : relays_) {
    if (relay.hello.memory_id() != worker.hello.memory_id() || !Serves(relay, job)) continue;
    if (found.empty() || (relay.attached && !relays_.at(found).attached)) found = name;
  }
  return found;
}

void RelayChains::Order(const std::string& job, const std::string& head,
                        const std::set<std::string>& members) {
  Chain& chain = jobs_[job].chain;
  std::vector<std::string> wanted;
  if (!head.empty()) wanted.push_back(head);
  const auto add = [&](const std::string& relay) {
    const bool there = std::count(wanted.begin(), wanted.end(), relay) > 0;
    if (!there && members.count(relay) > 0) wanted.push_back(relay);
  };
  for (const std::string& relay : chain.relays) add(relay);
  for (const std::string& relay : members) add(relay);
  // A relay that the one before it cannot reach goes to the tail, where none waits for it.
  for (size_t i = 0; i + 2 < wanted.size(); ++i) {
    auto& broken = relays_.at(wanted[i]).broken;
    const auto at = broken.find(job);
    if (at == broken.end() || at->second != chain.generation) continue;
    broken.erase(at);
    std::rotate(wanted.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                wanted.begin() + static_cast<std::ptrdiff_t>(i) + 2, wanted.end());
    break;
  }
  if (wanted.size() < 2 && chain.relays.size() < 2) return;  // none to send to, and none was
  std::vector<std::string> processes;
  for (const std::string& relay : wanted) {
    const v1::Hello& hello = relays_.at(relay).hello;
    processes.push_back(absl::StrCat(hello.instance_id(), " ", hello.relay().chain_address()));
  }
  if (wanted == chain.relays && processes == chain.processes) return;
  chain.relays = std::move(wanted);
  chain.processes = std::move(processes);
  chain.generation = (epoch_ << 32) + ++next_change_;
}

void RelayChains::Follow(const ClusterWorkers& workers, ClusterEffects& effects) {
  if (relays_.empty()) return;
  std::map<std::string, RelayView> views;
  std::map<std::string, std::set<std::string>> members;
  for (const auto& [name, worker] : workers.all()) {
    if (worker.job.empty()) continue;
    const std::string relay = RelayFor(worker, worker.job);
    if (relay.empty()) continue;
    RelayView& view = views[worker.job];
    view.relay_of[name] = relay;
    const Relay& its = relays_.at(relay);
    view.addresses[relay] = its.hello.relay().address();
    const auto versions = its.versions.find(worker.job);
    auto& seen = view.versions[relay];
    if (versions != its.versions.end()) seen = versions->second;
    const bool reachable = its.in_chains && !its.hello.relay().chain_address().empty();
    if (PlaysRollout(worker.roles) && reachable) members[worker.job].insert(relay);
  }
  for (const auto& [job, view] : views) jobs_.try_emplace(job);
  for (auto& [job, of] : jobs_) {
    RelayView& view = views[job];  // empty: it has no worker on the host of a relay
    const auto head = view.relay_of.find(of.publisher);
    const bool sends = head != view.relay_of.end() && relays_.at(head->second).in_chains;
    if (!of.publisher.empty()) {
      Order(job, sends ? head->second : "", sends ? members[job] : std::set<std::string>());
    }
    if (view == of.sent) continue;
    of.sent = view;
    effects.push_back(ClusterRelays{job, std::move(view)});
  }
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const bool idle = it->second.publisher.empty() && it->second.sent == RelayView();
    it = idle ? jobs_.erase(it) : std::next(it);
  }
  SendOrders(effects);
}

void RelayChains::SendOrders(ClusterEffects& effects) {
  std::map<std::string, v1::RelayOrders> orders;
  for (const auto& [job, of] : jobs_) {
    const std::vector<std::string>& relays = of.chain.relays;
    for (size_t i = 0; i < relays.size(); ++i) {
      v1::RelayOrder& order = *orders[relays[i]].add_orders();
      order.set_job(job);
      order.set_generation(of.chain.generation);
      order.set_relays(static_cast<int>(relays.size()));
      if (i + 1 == relays.size()) continue;
      order.set_next(relays_.at(relays[i + 1]).hello.relay().chain_address());
    }
  }
  for (auto& [name, relay] : relays_) {
    if (!relay.attached) continue;
    const std::string now = orders[name].SerializeAsString();
    if (relay.told ? now == relay.orders : now.empty()) continue;
    relay.told = true;
    relay.orders = now;
    effects.push_back(ClusterRelayOrders{name, std::move(orders[name])});
  }
}

}  // namespace baton::controller
