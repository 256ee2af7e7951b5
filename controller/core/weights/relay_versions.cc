#include "controller/core/weights/relay_versions.h"

#include <algorithm>

#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

void RelayVersions::Lost(const std::string& worker, uint64_t version) {
  const auto relay = view_.relay_of.find(worker);
  if (relay != view_.relay_of.end()) view_.versions[relay->second].erase(version);
}

std::string RelayVersions::AddressFor(const std::string& worker) const {
  const auto relay = view_.relay_of.find(worker);
  if (relay == view_.relay_of.end()) return "";
  const auto address = view_.addresses.find(relay->second);
  return address == view_.addresses.end() ? "" : address->second;
}

bool RelayVersions::IsApart(const std::string& worker, const Roster& roster) const {
  const auto relay = view_.relay_of.find(worker);
  if (relay == view_.relay_of.end()) return false;
  const auto actors = view_.relay_of.find(roster.FirstOf(roles::kActor));
  return actors == view_.relay_of.end() || actors->second != relay->second;
}

bool RelayVersions::IsAt(const std::string& worker, uint64_t version, const Roster& roster) const {
  if (!IsApart(worker, roster)) return true;
  const auto versions = view_.versions.find(view_.relay_of.at(worker));
  return versions != view_.versions.end() && versions->second.count(version) > 0;
}

std::set<std::string> RelayVersions::Missing(uint64_t version, const Roster& roster) const {
  std::set<std::string> missing;
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    if (!IsAt(slot.worker, version, roster)) missing.insert(view_.relay_of.at(slot.worker));
  }
  return missing;
}

absl::Time RelayVersions::patience_ends() const {
  if (travelled_ == absl::InfiniteDuration()) return begun_ + kFirstPatience;
  return begun_ + std::max(kLeastPatience, kPatience * travelled_);
}

bool RelayVersions::Arrived(uint64_t version, const Roster& roster, absl::Time now) {
  if (Missing(version, roster).empty()) {
    // A restarted controller does not know when an earlier one began.
    if (begun_ != absl::InfinitePast()) travelled_ = now - begun_;
    return true;
  }
  return begun_ == absl::InfinitePast() || now >= patience_ends();
}

}  // namespace baton::controller
