#include "controller/cluster/relay_chains.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/cluster/need_queue.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/base/cut_text.h"

namespace baton::controller {
namespace {

bool PlaysRollout(const std::string& roles) {
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  return std::count(all.begin(), all.end(), roles::kRollout) > 0;
}

void MoveToTail(std::vector<std::string>& relays, size_t at) {
  const auto first = relays.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(first, first + 1, relays.end());
}

}  // namespace

void RelayChains::OnRelay(const std::string& relay, const v1::Hello& hello,
                          const std::string& project) {
  Relay& known = relays_[relay];
  // What was in its memory is gone with a process.
  if (known.hello.instance_id() != hello.instance_id()) known.said.clear();
  known.hello.set_instance_id(hello.instance_id());
  known.hello.set_memory_id(hello.memory_id());
  *known.hello.mutable_relay() = hello.relay();
  known.project = project;
  known.attached = known.in_chains = true;
  known.lease_end = absl::InfiniteFuture();
  known.hellos = ++next_hello_;
  known.told = false;
  changed_ = true;
}

void RelayChains::OnAway(const std::string& relay, absl::Time lease_end) {
  const auto known = relays_.find(relay);
  if (known == relays_.end() || !std::exchange(known->second.attached, false)) return;
  known->second.lease_end = lease_end;
}

void RelayChains::OnTick(const ClusterWorkers& workers, absl::Time now) {
  size_t away = 0;
  for (auto& [name, relay] : relays_) {
    if (workers.SessionOf(name) == 0) OnAway(name, now);  // its lease ended with its stream open
    if (!relay.attached) ++away;
    if (relay.lease_end <= now && std::exchange(relay.in_chains, false)) changed_ = true;
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

void RelayChains::Forget(const std::string& job) { changed_ |= jobs_.erase(job) > 0; }

bool RelayChains::Serves(const Relay& relay, const std::string& job) {
  return relay.project == "*" || relay.project == ProjectId(job);
}

void RelayChains::OnReport(const std::string& relay, const v1::RelayReport& report) {
  const auto known = relays_.find(relay);
  if (known == relays_.end()) return;
  Relay& of = known->second;
  of.said.clear();
  for (const v1::RelayVersions& job : report.jobs()) {
    if (!Serves(of, job.job()) || of.said.size() >= kMostJobs) continue;
    Said& said = of.said[job.job()];
    said.versions = {job.versions().begin(), job.versions().end()};
    while (said.versions.size() > kMostVersions) said.versions.erase(said.versions.begin());
    said.generation = job.generation();
    said.broken = job.broken();
    const v1::RelayHop& hop = job.hop();
    const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds >= 0; };
    if (is_time(hop.seconds()) && is_time(hop.link_seconds()) &&
        hop.link_seconds() <= hop.seconds()) {
      said.hop = {hop.policy_version(), hop.size_bytes(), hop.sent_bytes(), hop.seconds(),
                  hop.link_seconds()};
    }
    if (job.has_trouble()) said.trouble = CutText(job.trouble().message(), kMostText);
  }
  changed_ = true;
}

// The one that said Hello last, of several: a relay may have been started anew under another name.
// A relay of one project serves no worker of all projects: it would be shown that worker's token.
std::string RelayChains::RelayFor(const ClusterWorker& worker, const ByMemory& relays) const {
  const auto there = relays.find(worker.hello.memory_id());
  if (there == relays.end()) return "";
  std::string found;
  for (const std::string& name : there->second) {
    const Relay& relay = relays_.at(name);
    const bool trusted = relay.project == "*" || relay.project == worker.project;
    if (!trusted || !Serves(relay, worker.job)) continue;
    const auto rank = [](const Relay& of) { return std::pair(of.attached, of.hellos); };
    if (found.empty() || rank(relay) > rank(relays_.at(found))) found = name;
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
  MoveUnreachable(job, chain, wanted);
  MoveSlow(job, chain, wanted);
  if (wanted.size() < 2 && chain.relays.size() < 2) return;  // none to send to, and none was
  std::vector<std::string> processes;
  for (const std::string& relay : wanted) {
    const v1::Hello& hello = relays_.at(relay).hello;
    processes.push_back(absl::StrCat(hello.instance_id(), " ", hello.relay().chain_address()));
  }
  if (wanted == chain.relays && processes == chain.processes) return;
  chain.slow.clear();
  chain.relays = std::move(wanted);
  chain.processes = std::move(processes);
  chain.generation = (epoch_ << 32) + ++next_change_;
}

// A relay that the one before it cannot reach goes to the tail, where none waits for it. One that
// cannot reach several goes there itself. What was reported of an older chain says nothing.
void RelayChains::MoveUnreachable(const std::string& job, Chain& chain,
                                  std::vector<std::string>& wanted) const {
  for (size_t i = 0; i + 1 < wanted.size(); ++i) {
    const std::string &reporter = wanted[i], &next = wanted[i + 1];
    const auto said = relays_.at(reporter).said.find(job);
    const bool of_this_chain =
        said != relays_.at(reporter).said.end() && said->second.generation == chain.generation &&
        i + 1 < chain.relays.size() && chain.relays[i] == reporter && chain.relays[i + 1] == next;
    if (!of_this_chain) continue;
    if (!said->second.broken) {
      const auto first = chain.moved.lower_bound({reporter, ""});
      auto last = first;
      while (last != chain.moved.end() && last->first == reporter) ++last;
      chain.moved.erase(first, last);
      continue;
    }
    if (i + 2 == wanted.size()) continue;  // it is the tail
    if (chain.moved.insert({reporter, next}).second) return MoveToTail(wanted, i + 1);
    if (i > 0 && chain.moved.insert({reporter, ""}).second) return MoveToTail(wanted, i);
  }
}

// A version is no sooner at a relay than at those before it, so a slow link comes last. Each relay
// goes to the tail for that once.
void RelayChains::MoveSlow(const std::string& job, Chain& chain,
                           std::vector<std::string>& wanted) const {
  if (wanted != chain.relays) return;  // another order comes, whose links nothing is known of
  std::map<size_t, double> paces;      // seconds a byte, by the sender's place
  for (size_t i = 0; i + 1 < wanted.size(); ++i) {
    const auto said = relays_.at(wanted[i]).said.find(job);
    if (said == relays_.at(wanted[i]).said.end()) continue;
    const RelayHop& hop = said->second.hop;
    const auto bytes = static_cast<double>(hop.sent_bytes);
    if (said->second.generation != chain.generation || hop.version == 0) continue;
    if (bytes >= kTellingBytes && hop.link_seconds > 0) {
      paces[i] = hop.link_seconds / bytes;
    } else {
      chain.slow.erase(wanted[i]);
    }
  }
  for (const auto& [i, pace] : paces) {
    std::vector<double> others;
    for (const auto& [other, of_other] : paces) {
      if (other != i) others.push_back(of_other);
    }
    if (others.empty()) return;
    std::sort(others.begin(), others.end());
    const double usual = others[others.size() / 2];
    const std::string& sender = wanted[i];
    const RelayHop& hop = relays_.at(sender).said.at(job).hop;
    if (pace <= kSlow * usual || hop.link_seconds < kTellingSeconds) {
      chain.slow.erase(sender);
      continue;
    }
    auto& [versions, last] = chain.slow[sender];
    if (last != hop.version) ++versions;
    last = hop.version;
    const bool sends_slowly = chain.slow_senders.count(sender) > 0;
    if (versions < kSlowVersions || i + 2 == wanted.size()) continue;
    if (i == 0 && sends_slowly) continue;  // the head stays
    const size_t moved = sends_slowly ? i : i + 1;
    const std::string text = absl::StrFormat(
        "%s sent to %s at %.3g MB/s, other relays at %.3g MB/s: %s went to the tail", sender,
        wanted[i + 1], 1e-6 / pace, 1e-6 / usual, wanted[moved]);
    chain.slow_senders.insert(sender);
    if (chain.moved_slow.emplace(wanted[moved], text).second) return MoveToTail(wanted, moved);
  }
}

RelayView RelayChains::ViewOf(const std::string& job,
                              std::map<std::string, std::string> relay_of) const {
  RelayView view;
  const auto of = jobs_.find(job);
  const Chain chain = of == jobs_.end() ? Chain() : of->second.chain;
  for (const auto& [worker, name] : relay_of) {
    if (name.empty()) continue;
    const Relay& relay = relays_.at(name);
    view.addresses[name] = relay.hello.relay().address();
    view.processes[name] = relay.hello.instance_id();
    const auto said = relay.said.find(job);
    auto& versions = view.versions[name];
    if (said != relay.said.end()) {
      versions = said->second.versions;
      if (said->second.hop.version != 0) view.hops[name] = said->second.hop;
    }
    const auto slow = chain.moved_slow.find(name);
    if (slow != chain.moved_slow.end()) view.slow[name] = slow->second;
    if (relay.hello.relay().chain_address().empty()) {
      view.trouble[name] = "it receives nothing: start it with --chain-listen";
      view.unreachable.insert(name);
    } else if (!relay.in_chains) {
      view.trouble[name] = "it is not attached";
      view.unreachable.insert(name);
    }
  }
  for (size_t i = 0; i + 1 < chain.relays.size(); ++i) {
    const auto sender = relays_.find(chain.relays[i]);
    if (sender == relays_.end()) continue;
    const auto said = sender->second.said.find(job);
    const bool told = said != sender->second.said.end() && !said->second.trouble.empty() &&
                      said->second.generation == chain.generation;
    if (told && view.addresses.count(chain.relays[i + 1]) > 0) {
      view.trouble[chain.relays[i + 1]] = absl::StrCat(chain.relays[i], ": ", said->second.trouble);
    }
  }
  view.relay_of = std::move(relay_of);
  return view;
}

void RelayChains::Follow(const ClusterWorkers& workers, bool workers_changed,
                         ClusterEffects& effects) {
  const bool changed = std::exchange(changed_, false);
  if (relays_.empty() || !(changed || workers_changed)) return;
  ByMemory by_memory;
  for (const auto& [name, relay] : relays_) by_memory[relay.hello.memory_id()].push_back(name);
  std::map<std::string, std::map<std::string, std::string>> relays_of;  // by job, then by worker
  std::map<std::string, std::set<std::string>> members;
  for (const auto& [name, worker] : workers.all()) {
    if (worker.job.empty() || worker.hello.memory_id().empty()) continue;
    const std::string relay = RelayFor(worker, by_memory);
    relays_of[worker.job][name] = relay;
    if (relay.empty()) continue;
    const Relay& its = relays_.at(relay);
    const bool reachable = its.in_chains && !its.hello.relay().chain_address().empty();
    if (PlaysRollout(worker.roles) && reachable) members[worker.job].insert(relay);
  }
  for (const auto& [job, relay_of] : relays_of) jobs_.try_emplace(job);
  for (auto& [job, of] : jobs_) {
    std::map<std::string, std::string>& relay_of = relays_of[job];  // may be empty
    const auto head = relay_of.find(of.publisher);
    const bool known = head != relay_of.end() && !head->second.empty();
    const bool sends = known && relays_.at(head->second).in_chains;
    if (!of.publisher.empty()) {
      Order(job, sends ? head->second : "", sends ? members[job] : std::set<std::string>());
    }
    RelayView view = ViewOf(job, std::move(relay_of));
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
