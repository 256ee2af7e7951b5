#include "controller/core/weights/relay_versions.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "controller/core/job/wait_list.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

// The relay of the actor's host, and its process.
std::pair<std::string, std::string> ActorsRelay(const RelayView& view, const Roster& roster) {
  const auto relay = view.relay_of.find(roster.FirstOf(roles::kActor));
  if (relay == view.relay_of.end()) return {};
  const auto process = view.processes.find(relay->second);
  return {relay->second, process == view.processes.end() ? "" : process->second};
}

bool Has(const RelayView& view, const std::string& relay, uint64_t version) {
  const auto versions = view.versions.find(relay);
  return versions != view.versions.end() && versions->second.count(version) > 0;
}

}  // namespace

std::vector<std::string> RelayVersions::NewlySlow(const RelayView& view) {
  std::vector<std::string> texts;
  for (const auto& [relay, text] : view.slow) {
    if (told_slow_.insert(relay).second) texts.push_back(text);
  }
  return texts;
}

bool RelayVersions::See(RelayView view, const Roster& roster, absl::Time now) {
  const auto before = ActorsRelay(view_, roster), after = ActorsRelay(view, roster);
  view_ = std::move(view);
  seen_ = true;
  known_ |= !view_.addresses.empty();
  for (auto it = left_out_.begin(); it != left_out_.end();) {
    const bool caught_up = Has(view_, *it, last_.version);
    if (caught_up) travelled_ = std::max(travelled_, now - last_.begun);
    it = caught_up ? left_out_.erase(it) : std::next(it);
  }
  return !before.first.empty() && !after.first.empty() && before != after;
}

void RelayVersions::LookAgain(absl::Time now) {
  for (auto it = lost_.begin(); it != lost_.end();) {
    it = now - it->second.at >= kLookAgain ? lost_.erase(it) : std::next(it);
  }
}

void RelayVersions::Delay(absl::Duration duration, absl::Time now) {
  for (Travel& travel : travels_) DelayTime(duration, now, travel.begun);
}

void RelayVersions::BeginTravel(uint64_t version, const Roster& roster, absl::Time now) {
  while (!travels_.empty() && travels_.back().version >= version) travels_.pop_back();
  travels_.push_back({version, now, !Missing(version, roster).empty()});
}

uint64_t RelayVersions::Arrived(const Roster& roster, absl::Time now) {
  if (travels_.empty()) return 0;
  if (now >= patience_ends()) {
    for (const std::string& relay : WaitedFor(travels_.front().version, roster)) {
      const bool has_newer =
          std::any_of(travels_.begin(), travels_.end(),
                      [&](const Travel& travel) { return Has(view_, relay, travel.version); });
      if (!has_newer) left_out_.insert(relay);
    }
  }
  for (size_t i = travels_.size(); i-- > 0;) {
    if (!WaitedFor(travels_[i].version, roster).empty()) continue;
    last_ = travels_[i];
    if (last_.apart) travelled_ = now - last_.begun;
    travels_.erase(travels_.begin(), travels_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return last_.version;
  }
  return 0;
}

std::vector<uint64_t> RelayVersions::travelling() const {
  std::vector<uint64_t> versions;
  for (const Travel& travel : travels_) versions.push_back(travel.version);
  return versions;
}

absl::Time RelayVersions::begun() const {
  return travels_.empty() ? last_.begun : travels_.front().begun;
}

absl::Time RelayVersions::patience_ends() const {
  if (travels_.empty()) return absl::InfiniteFuture();
  if (travelled_ == absl::InfiniteDuration()) return begun() + kFirstPatience;
  return begun() + std::max(kLeastPatience, kPatience * travelled_);
}

std::string RelayVersions::AddressFor(const std::string& worker) const {
  const auto relay = view_.relay_of.find(worker);
  if (relay == view_.relay_of.end()) return "";
  const auto address = view_.addresses.find(relay->second);
  return address == view_.addresses.end() ? "" : address->second;
}

bool RelayVersions::Knows(const std::string& worker) const {
  if (!known_) return true;
  const auto relay = view_.relay_of.find(worker);
  return relay == view_.relay_of.end() ? seen_ : !relay->second.empty();
}

bool RelayVersions::IsApart(const std::string& worker, const Roster& roster) const {
  if (!Knows(worker)) return true;
  const auto relay = view_.relay_of.find(worker);
  if (relay == view_.relay_of.end() || relay->second.empty()) return false;
  return relay->second != ActorsRelay(view_, roster).first;
}

bool RelayVersions::IsAt(const std::string& worker, uint64_t version, const Roster& roster) const {
  if (!IsApart(worker, roster)) return true;
  const auto lost = lost_.find(worker);
  if (lost != lost_.end() && lost->second.version == version) return false;
  const auto relay = view_.relay_of.find(worker);
  return relay != view_.relay_of.end() && Has(view_, relay->second, version);
}

std::string RelayVersions::RelayText(const std::string& worker) const {
  const auto relay = view_.relay_of.find(worker);
  if (relay == view_.relay_of.end() || relay->second.empty()) {
    return absl::StrCat("the host of worker ", worker, " (no relay of it is attached)");
  }
  return TextOf(relay->second);
}

std::string RelayVersions::TextOf(const std::string& relay) const {
  for (const auto* texts : {&view_.trouble, &view_.slow}) {
    const auto text = texts->find(relay);
    if (text != texts->end()) return absl::StrCat(relay, " (", text->second, ")");
  }
  return relay;
}

std::map<std::string, double> RelayVersions::Metrics() const {
  double sent = 0, size = 0, seconds = 0;
  for (const auto& [relay, hop] : view_.hops) {
    sent += static_cast<double>(hop.sent_bytes);
    size += static_cast<double>(hop.size_bytes);
    seconds = std::max(seconds, hop.seconds);
  }
  if (size <= 0) return {};
  return {{"weights/sent_bytes", sent},
          {"weights/sent_over_size", sent / size},
          {"weights/hop_seconds", seconds}};
}

std::set<std::string> RelayVersions::Missing(uint64_t version, const Roster& roster) const {
  std::set<std::string> missing;
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    const auto relay = view_.relay_of.find(slot.worker);
    const bool attached = relay != view_.relay_of.end() && !relay->second.empty();
    if (attached && !IsAt(slot.worker, version, roster)) missing.insert(relay->second);
  }
  return missing;
}

std::set<std::string> RelayVersions::WaitedFor(uint64_t version, const Roster& roster) const {
  std::set<std::string> relays;
  for (const std::string& relay : Missing(version, roster)) {
    const bool waits = view_.unreachable.count(relay) == 0 && left_out_.count(relay) == 0;
    if (waits) relays.insert(relay);
  }
  return relays;
}

}  // namespace baton::controller
