#include "controller/core/weights/policy_versions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "controller/core/job/wait_list.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

std::optional<uint64_t> Staleness(const VersionRows& versions, uint64_t a, uint64_t b) {
  if (a == b) return 0;
  const auto updates = [&](uint64_t version) -> std::optional<uint64_t> {
    if (version == 0) return 0;
    const auto found = versions.find(version);
    if (found == versions.end()) return std::nullopt;
    return found->second.actor_updates();
  };
  // A parent has a smaller number, so the larger one is never an ancestor of the other.
  uint64_t left = a, right = b;
  while (left != right) {
    uint64_t& larger = left > right ? left : right;
    const auto found = versions.find(larger);
    if (found == versions.end() || found->second.parent() >= larger) return std::nullopt;
    larger = found->second.parent();
  }
  const auto from = updates(a), to = updates(b), common = updates(left);
  if (!from.has_value() || !to.has_value() || !common.has_value()) return std::nullopt;
  return (*from - *common) + (*to - *common);
}

std::map<uint64_t, VersionPins> PinsOf(const std::map<uint64_t, TrajectoryInfo>& live) {
  std::map<uint64_t, VersionPins> pins;
  for (const auto& [id, trajectory] : live) {
    if (trajectory.state == TrajectoryState::kPending) continue;
    VersionPins& of = pins[trajectory.policy_version];
    ++(trajectory.purpose == v1::PURPOSE_EVAL ? of.evaluations : of.responses);
  }
  return pins;
}

void PolicyVersions::Restore(const store::v1::JobRow& row) {
  newest_ = row.job().policy_version();
  published_ = served_ = row.published_version();
  relays_.Restore(row.relays_known());
  saved_ = row.saved_version();
  known_.clear();
  for (const store::v1::VersionRow& version : row.versions()) known_[version.version()] = version;
}

void PolicyVersions::Save(store::v1::JobRow* row) const {
  row->mutable_job()->set_policy_version(newest_);
  row->set_published_version(published_);
  if (relays_.known()) row->set_relays_known(true);
  row->set_saved_version(saved_);
  for (const auto& [version, known] : known_) *row->add_versions() = known;
}

uint64_t PolicyVersions::UpdatesOf(uint64_t version) const {
  const auto found = known_.find(version);
  return found == known_.end() ? 0 : found->second.actor_updates();
}

void PolicyVersions::Make(uint64_t parent, uint64_t updates, const EffectSink& out) {
  store::v1::VersionRow made;
  // Numbers only grow, even when the job goes back: a rollout may still hold a higher one.
  made.set_version(++newest_);
  made.set_incarnation(out.incarnation());
  made.set_parent(parent);
  made.set_actor_updates(updates);
  known_[newest_] = std::move(made);
  if (known_.size() > kMostKnown) ForgetOldest();
}

// Its children become children of its own parent. No distance gets shorter by that, so a bound on
// staleness still holds.
void PolicyVersions::ForgetOldest() {
  const auto oldest = known_.begin()->first == saved_ ? std::next(known_.begin()) : known_.begin();
  const uint64_t parent = oldest->second.parent();
  for (auto& [version, known] : known_) {
    if (known.parent() == oldest->first) known.set_parent(parent);
  }
  known_.erase(oldest);
}

void PolicyVersions::Updated(const EffectSink& out) { Make(newest_, UpdatesOf(newest_) + 1, out); }

void PolicyVersions::Begun(const EffectSink& out) { Make(saved_, UpdatesOf(saved_), out); }

bool PolicyVersions::Unpublish() {
  const bool was = published();
  published_ = served_ = 0;
  relays_.EndTravel();
  return was;
}

void PolicyVersions::Published(const Roster& roster, absl::Time now) {
  published_ = newest_;
  relays_.BeginTravel(newest_, roster, now);
  Serve(roster, now);
}

bool PolicyVersions::Lacks(const RoleSlot& rollout, const Roster& roster) const {
  if (rollout.role != roles::kRollout || !rollout.ready() || served_ == 0) return false;
  const auto index = static_cast<uint64_t>(roster.IndexOf(rollout));
  const ReplicaWeights::Replica& replica = replicas_.Of(index);
  return replica.version != served_ && replica.loading == 0 &&
         !relays_.IsAt(rollout.worker, served_, roster);
}

void PolicyVersions::NoteLacking(const Roster& roster, absl::Time now) {
  std::map<uint64_t, absl::Time> lacking;
  for (const RoleSlot& slot : roster.slots()) {
    if (!Lacks(slot, roster)) continue;
    const auto index = static_cast<uint64_t>(roster.IndexOf(slot));
    const auto before = lacking_.find(index);
    lacking[index] = before == lacking_.end() ? now : before->second;
  }
  lacking_ = std::move(lacking);
}

void PolicyVersions::Delay(absl::Duration duration, absl::Time now) {
  for (auto& [slot, since] : lacking_) DelayTime(duration, now, since);
  relays_.Delay(duration, now);
}

std::vector<uint64_t> PolicyVersions::StillLoaded() const {
  std::vector<uint64_t> versions = relays_.travelling();
  if (!versions.empty() && served_ != 0) versions.insert(versions.begin(), served_);
  return versions;
}

bool PolicyVersions::Serve(const Roster& roster, absl::Time now) {
  const uint64_t arrived = relays_.Arrived(roster, now);
  if (arrived != 0) served_ = arrived;
  return arrived != 0;
}

std::optional<uint64_t> PolicyVersions::Behind(uint64_t version) const {
  return Staleness(known_, version, newest_);
}

uint64_t PolicyVersions::IncarnationOf(uint64_t version) const {
  const auto found = known_.find(version);
  return found == known_.end() ? 0 : found->second.incarnation();
}

void PolicyVersions::SyncedInPlace(absl::Time now) {
  published_ = served_ = newest_;
  relays_.EndTravel();
  NoteTime(now);
}

void PolicyVersions::NoteWhenAllHold(const Roster& roster, absl::Time now) {
  if (publishing_since_ == absl::InfinitePast()) return;
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || slot.state != SlotState::kReady) continue;
    if (replicas_.Of(static_cast<uint64_t>(roster.IndexOf(slot))).version != newest_) return;
  }
  NoteTime(now);
}

void PolicyVersions::NoteTime(absl::Time now) {
  // A restarted controller does not know when an earlier one began to publish.
  const bool known = publishing_since_ != absl::InfinitePast();
  update_weights_seconds_ = known ? absl::ToDoubleSeconds(now - publishing_since_) : 0;
  publishing_since_ = absl::InfinitePast();
}

}  // namespace baton::controller
