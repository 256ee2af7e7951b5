// The versions of a job's policy: which one is newest, whether rollouts can get it, which rollouts
// hold it.
//
// Owns the number of the actor's newest weights, the origin of the newest versions (VersionRow),
// whether the newest is published, whether it has arrived on the rollouts' hosts (RelayVersions),
// and the versions that rollouts hold (ReplicaWeights).
//
// clang-format off
//   update, or a new group of ranks
//     --> made --(publish | to_generation)--> published --> arrived --> loaded by each rollout
//           ^                                     |            |
//           +-------------------------------------+------------+ the relay lost it, or a rank
//                                                                lost its weights
// clang-format on
//
// In mode sync only the newest version is sampled: a batch or an evaluation has only responses from
// exactly these weights. In mode async rollouts use the newest published version, and each replica
// loads it when its own responses are done; while responses wait that are pinned to an older
// version, one replica keeps or loads that version. Numbers only grow: a group that is formed anew
// gets a new one even for weights of a checkpoint, because a rollout that had loaded the same
// number before would take the new weights for its own. So versions form a tree, and the difference
// of two numbers does not say how far apart their weights are; Staleness does:
//
//   0 -> 1 -> 2 -> 3 -> 4        the checkpoint is of version 2; the trainer dies with version 4
//             +--> 5 -> 6        5: the weights of 2 again
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_POLICY_VERSIONS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_POLICY_VERSIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/weights/relay_versions.h"
#include "controller/core/weights/replica_weights.h"

namespace baton::controller {

/// By number; 0 is none of them.
using VersionRows = std::map<uint64_t, store::v1::VersionRow>;

/// Updates of the actor between the weights of two versions: those on both paths to their newest
/// common ancestor, which may be 0, the job's first weights. Nullopt: one of them is not known, or
/// is older than the known versions. Pure.
std::optional<uint64_t> Staleness(const VersionRows& versions, uint64_t a, uint64_t b);

/// Users of a version: while there are any, it may not be forgotten, and its weights may not be
/// given up.
struct VersionPins {
  uint64_t responses = 0;    ///< Of training, begun and not consumed; greedy baselines count.
  uint64_t evaluations = 0;  ///< Responses of an evaluation.
  uint64_t total() const { return responses + evaluations; }
};
/// The pins of the trajectories of the work in progress, by version. A trajectory that is not begun
/// pins nothing, because it takes the newest version when it begins. Pure.
std::map<uint64_t, VersionPins> PinsOf(const std::map<uint64_t, TrajectoryInfo>& live);

class PolicyVersions {
 public:
  /// Number of versions whose origin is known; older ones are forgotten, except the checkpoint's.
  /// Twice the bound of schedule.max_staleness, so that the staleness of each response that a batch
  /// may consume is known.
  static constexpr size_t kMostKnown = 64;

  void Restore(const store::v1::JobRow& row);
  /// Sets job.policy_version, published_version, versions and saved_version.
  void Save(store::v1::JobRow* row) const;

  uint64_t newest() const { return newest_; }
  /// True if the actor has published the newest version.
  bool published() const { return published_ == newest_ && newest_ != 0; }
  /// The newest version that the actor has published; 0: none that is still there.
  uint64_t published_version() const { return published_; }
  /// The newest version that rollouts can get; 0: none. Older than the published one while that is
  /// on its way to their hosts.
  uint64_t served() const { return served_; }
  /// True if rollouts can get the newest version.
  bool serves_newest() const { return served_ == newest_ && newest_ != 0; }
  /// Updates of the actor between that version and the newest one; nullopt: not known.
  std::optional<uint64_t> Behind(uint64_t version) const;
  /// The incarnation that made the version; 0: not known.
  uint64_t IncarnationOf(uint64_t version) const;
  const VersionRows& known() const { return known_; }
  /// The actor made an update: its weights have no number yet.
  void Updated(const EffectSink& out);
  /// The actor's ranks met anew, with the weights of the newest checkpoint or the job's first ones.
  void Begun(const EffectSink& out);
  /// The newest version is saved: the ranks begin with it from here on.
  void Saved() { saved_ = newest_; }
  /// Rollouts can get no version any more. Returns whether the newest one was published.
  bool Unpublish();
  /// The command that publishes the newest version is on its way.
  void BeginPublishing(absl::Time now) { publishing_since_ = now; }
  /// The actor's relay has the newest version.
  void Published(const Roster& roster, absl::Time now);
  /// The published version may have arrived on the rollouts' hosts, or a host may be too late.
  /// True: rollouts can get it from now on, and could not before.
  bool Serve(const Roster& roster, absl::Time now);
  /// True if the rollout lacks the served version, and its host does not have it.
  bool Lacks(const RoleSlot& rollout, const Roster& roster) const;
  /// Such rollouts as of the last NoteLacking, by slot: since when.
  const std::map<uint64_t, absl::Time>& lacking() const { return lacking_; }
  /// Time has passed, or hosts have other versions.
  void NoteLacking(const Roster& roster, absl::Time now);
  /// Every deadline moves by that time.
  void Delay(absl::Duration duration, absl::Time now);
  /// Versions that rollouts may still load while newer ones travel.
  std::vector<uint64_t> StillLoaded() const;
  /// The ranks themselves have the newest version for generation: every rollout holds it at once.
  void SyncedInPlace(absl::Time now);

  /// The versions that each rollout holds.
  ReplicaWeights& replicas() { return replicas_; }
  const ReplicaWeights& replicas() const { return replicas_; }
  /// The versions on the hosts of rollouts.
  RelayVersions& relays() { return relays_; }
  const RelayVersions& relays() const { return relays_; }
  /// Notes how long it took until every rollout has the newest version.
  void NoteWhenAllHold(const Roster& roster, absl::Time now);
  /// Time that rollouts waited for the last version that they all got; 0: not known.
  double update_weights_seconds() const { return update_weights_seconds_; }

 private:
  void NoteTime(absl::Time now);
  void Make(uint64_t parent, uint64_t updates, const EffectSink& out);
  uint64_t UpdatesOf(uint64_t version) const;
  void ForgetOldest();

  uint64_t newest_ = 0;
  uint64_t saved_ = 0;  // of the newest checkpoint; 0: there is none
  VersionRows known_;
  uint64_t published_ = 0;  // the newest that was; 0: none is to be had
  uint64_t served_ = 0;     // the newest published one that has arrived
  RelayVersions relays_;
  std::map<uint64_t, absl::Time> lacking_;
  ReplicaWeights replicas_;
  // Infinite past: nothing is being published, or an earlier controller began it.
  absl::Time publishing_since_ = absl::InfinitePast();
  double update_weights_seconds_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_POLICY_VERSIONS_H_
