// The groups of ranks that share a role's model.
//
// Owns each group's epoch, the version of its weights, and what is known of a broken group. All
// parts may read the groups; only the calls below change one. GroupCommands has their commands.
//
// clang-format off
//   forming --all ranks took the role on--> formed --a rank is lost--> forming (epoch + 1)
//      ^                                      |
//      |                                      | a rank misses a peer
//      |                                      v
//      +-- the loss is known, or none is --- broken
// clang-format on
//
// Ranks take their role on together, in one epoch, or not at all, because collectives fail when a
// rank is missing. If a rank of a group that trains is lost, all groups that train go back to the
// newest checkpoint; a group that only scores loses the scores under way. A rank may notice a loss
// before the lost rank's lease ends, so a broken group waits for the end of the lease; if no rank
// turns out to be lost, the same ranks meet again.
#ifndef BATON_CONTROLLER_CORE_WORKERS_RANK_GROUPS_H_
#define BATON_CONTROLLER_CORE_WORKERS_RANK_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/weights/policy_versions.h"

namespace baton::controller {

/// The report of a rank that missed another one, and its time.
struct Broken {
  std::string reason;
  absl::Time since;
};

/// The ranks that share a role's model. Groups that train come first; a role that only scores has a
/// group if several ranks hold one copy of its model.
struct Group {
  std::string role;
  uint32_t index = 0;  ///< Among all groups; names the group in a command's TaskRef.
  bool trains = true;
  uint32_t ranks = 1;
  uint32_t tp = 1;  ///< Ranks of one copy. They score together, and the first of them answers.
  uint64_t group_epoch = 1;
  uint64_t version = 0;          ///< Of its weights; the actor's is PolicyVersions::newest.
  std::optional<Broken> broken;  ///< The group will be formed anew.
  absl::Time forming_since = absl::InfinitePast();  ///< Infinite past: all hold the role.
  uint32_t failures = 0;                            ///< Times it broke …
  int64_t broke_at = 0;                             ///< … without getting past this step.

  /// The version that the group's ranks hold.
  uint64_t VersionIn(const PolicyVersions& versions) const;
};

class RankGroups {
 public:
  RankGroups() = default;
  RankGroups(const v1::JobSpec& effective, const v1::Dataflow& dataflow);
  void Restore(const store::v1::JobRow& row);
  void Save(store::v1::JobRow* row) const;

  /// All groups, the actor's first. Their number and roles never change, so a reference to a group
  /// is valid as long as the job lives.
  const std::vector<Group>& all() const { return groups_; }
  const Group& actor() const { return groups_.front(); }
  /// Null: the role has no group.
  const Group* Find(absl::string_view role) const;

  // ---- Group epochs.
  /// All ranks are there, and begin a new group epoch.
  void BeginEpoch(const Group& group, PolicyVersions& versions, const EffectSink& out);
  /// All ranks hold the role.
  void Formed(const Group& group) { Own(group).forming_since = absl::InfinitePast(); }
  /// The ranks made the update that follows `step`: they got past it.
  void GotPast(const Group& group, int64_t step);
  /// The ranks made new weights. (PolicyVersions counts those of the actor.)
  void MadeVersion(const Group& group) { ++Own(group).version; }
  /// A rank misses another one. An error: it broke too often to go on.
  absl::Status Break(const Group& group, const TaskDone& event, const JobCoreOptions& options,
                     const EffectSink& out);
  /// A rank is lost. If the group is broken, this loss is the reason, so the break does not count
  /// as a failure of the group.
  void NoteLoss(const Group& group);
  /// Returns why the group broke, once it has waited for long enough; it is then no longer broken.
  std::optional<std::string> TakeBroken(const Group& group, absl::Duration delay, absl::Time now);
  /// The group no longer waits to learn which rank is lost: it forms anew now, or never.
  void ForgetBroken(const Group& group) { Own(group).broken.reset(); }
  /// Forgets failures: a user resumes the job.
  void ForgetAllFailures();

  void Delay(absl::Duration duration, absl::Time now);
  /// Explains the wait of a broken group. `limit`: JobCoreOptions::regroup_delay.
  static void Explain(const Group& group, absl::Duration limit, WaitList& waits);

 private:
  Group& Own(const Group& group) { return groups_[group.index]; }

  std::vector<Group> groups_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_RANK_GROUPS_H_
