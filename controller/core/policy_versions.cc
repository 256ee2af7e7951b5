#include "controller/core/policy_versions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/role_names.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

std::optional<uint64_t> Staleness(const VersionRows& versions, uint64_t a, uint64_t b) {
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
    if (trajectory.state == TrajectoryState::kPending && !Mutant("pending-pins")) continue;
    VersionPins& of = pins[trajectory.policy_version];
    ++(trajectory.purpose == v1::PURPOSE_EVAL ? of.evaluations : of.responses);
  }
  return pins;
}

void PolicyVersions::Restore(const store::v1::JobRow& row) {
  newest_ = row.job().policy_version();
  served_ = row.published_version();
  saved_ = row.saved_version();
  known_.clear();
  for (const store::v1::VersionRow& version : row.versions()) known_[version.version()] = version;
}

void PolicyVersions::Save(store::v1::JobRow* row) const {
  row->mutable_job()->set_policy_version(newest_);
  row->set_published_version(served_);
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

// What was made of it counts as made of its own parent: no distance gets shorter by that, so a
// bound on staleness holds.
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
  served_ = 0;
  return was;
}

std::optional<uint64_t> PolicyVersions::Behind(uint64_t version) const {
  return Staleness(known_, version, newest_);
}

uint64_t PolicyVersions::IncarnationOf(uint64_t version) const {
  const auto found = known_.find(version);
  return found == known_.end() ? 0 : found->second.incarnation();
}

void PolicyVersions::SyncedInPlace(absl::Time now) {
  Published();
  NoteTime(now);
}

const PolicyVersions::Replica& PolicyVersions::Of(uint64_t slot) const {
  static const auto* const none = new Replica;
  const auto found = replicas_.find(slot);
  return found == replicas_.end() ? *none : found->second;
}

bool PolicyVersions::AnyLoading() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const auto& replica) { return replica.second.loading != 0; });
}

void PolicyVersions::Hold(uint64_t slot, uint64_t version) { replicas_[slot].version = version; }

void PolicyVersions::StopLoading(uint64_t slot) {
  const auto found = replicas_.find(slot);
  if (found != replicas_.end()) found->second.loading = 0;
}

void PolicyVersions::Loaded(uint64_t slot) {
  Replica& replica = replicas_[slot];
  replica.version = std::exchange(replica.loading, 0);
}

void PolicyVersions::NoteWhenAllHold(const Roster& roster, absl::Time now) {
  if (publishing_since_ == absl::InfinitePast()) return;
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || slot.state != SlotState::kReady) continue;
    if (Of(static_cast<uint64_t>(roster.IndexOf(slot))).version != newest_) return;
  }
  NoteTime(now);
}

void PolicyVersions::NoteTime(absl::Time now) {
  // A restarted controller does not know when an earlier one began to publish.
  const bool known = publishing_since_ != absl::InfinitePast();
  update_weights_seconds_ = known ? absl::ToDoubleSeconds(now - publishing_since_) : 0;
  publishing_since_ = absl::InfinitePast();
}

bool PolicyVersions::SomeRolloutHas(uint64_t version, const Roster& roster) const {
  const auto& slots = roster.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const RoleSlot& slot) {
    if (slot.role != roles::kRollout || !slot.ready()) return false;
    const Replica& replica = Of(static_cast<uint64_t>(roster.IndexOf(slot)));
    return replica.loading == version || (replica.loading == 0 && replica.version == version);
  });
}

void PolicyVersions::Load(bool may_load, absl::Duration deadline, Roster& roster,
                          TaskScheduler& rollouts, EffectSink& out) {
  // Work that waits for an older version, which one rollout is to have.
  uint64_t pinned = rollouts.PinnedVersion();
  // While no version is to be had the relay has nothing, and nothing older either.
  if (pinned == served_ || served_ == 0 || Mutant("pin-forgotten")) pinned = 0;
  const bool missing = pinned != 0 && !SomeRolloutHas(pinned, roster);
  bool provided = false;  // by a slot before this one
  for (RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    const auto index = static_cast<uint64_t>(roster.IndexOf(slot));
    Replica& replica = replicas_[index];
    // A hybrid rollout samples the weights that its own worker trains: there is nothing to load.
    if (roster.hybrid()) replica.version = served_;
    const bool provides = pinned != 0 && !provided && (missing || replica.version == pinned);
    provided |= provides;
    // While no version is to be had each goes on with what it has.
    const uint64_t newest = served_ != 0 ? served_ : replica.version;
    const uint64_t target = provides ? pinned : newest;
    const bool current = replica.version == target && replica.loading == 0;
    rollouts.SetEnabled(slot.worker, current && target == newest && target != 0);
    rollouts.SetVersion(slot.worker, replica.loading == 0 ? replica.version : 0);
    // A worker that still generates loads once it is idle: a response is of one version.
    const bool idle = replica.loading == 0 && rollouts.load(slot.worker) == 0;
    if (current || !idle || !may_load || target == 0) continue;
    replica.loading = target;
    rollouts.SetVersion(slot.worker, 0);
    slot.since = out.now();
    slot.attempt = out.NextAttempt(slot.attempt);
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.args.policy_version = target;
    task.args.deadline = deadline;
    task.ref = out.Ref(TaskKind::kLoadWeights, index, slot.attempt);
    out.Do(std::move(task));
  }
}

std::string PolicyVersions::WhyStale(const TrajectoryInfo& trajectory,
                                     const EffectSink& out) const {
  if (trajectory.incarnation == out.incarnation() && trajectory.policy_version == newest_) {
    return "";
  }
  const std::optional<uint64_t> stale = Staleness(known_, trajectory.policy_version, newest_);
  return absl::StrCat(TrajectoryName(trajectory.id), " is of version ", trajectory.policy_version,
                      ", incarnation ", trajectory.incarnation, ", and step ", out.step() + 1,
                      " follows version ", newest_, ", incarnation ", out.incarnation(),
                      stale.has_value() ? absl::StrCat(": staleness ", *stale) : std::string());
}

}  // namespace baton::controller
