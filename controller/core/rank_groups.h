// The groups of ranks that share a role's model, and their commands.
//
// Owns each group's generation, its command that not all ranks have answered, the numbers by which
// ranks keep commands in order, what is known of a broken group, what an update has reported so
// far, and the wait for room on a disk (RoomWait). Everyone reads the groups; only the calls below
// change one.
//
//   forming --all ranks took the role on--> formed --a rank is lost------> forming (generation + 1)
//      ^                                      |  ^
//      |                                      |  +--no rank was lost-------+
//      +--the loss is known or there is none--broken <--a rank misses a peer
//
//   command: issued --sent to each rank--> sent --every rank answers--> done
//                ^                           |
//                +---no room: the same number, a new attempt
//
// Ranks take their role on together, in one generation, or not at all: the collectives of the
// others fail without the lost one. A group that trains goes back to the newest checkpoint, and
// with it all that train; one that only scores loses the scores under way. A rank may notice a
// loss before the lease of the lost one ends, so a broken group waits for that; if no rank turns
// out to be lost, the ranks meet again as they were.
#ifndef BATON_CONTROLLER_CORE_RANK_GROUPS_H_
#define BATON_CONTROLLER_CORE_RANK_GROUPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/effect_sink.h"
#include "controller/core/job_core_options.h"
#include "controller/core/policy_versions.h"
#include "controller/core/room_wait.h"
#include "controller/core/roster.h"
#include "controller/core/wait_list.h"

namespace baton::controller {

/// A command that the ranks of a group execute in order.
struct Command {
  TaskKind kind = TaskKind::kUpdate;
  uint64_t generation = 0;
  uint64_t sequence = 0;
  uint64_t attempt = 0;
  absl::Time issued;
  absl::Time since;                      ///< When it was sent last.
  std::set<uint32_t> sent;               ///< Ranks that have it, as far as is known.
  std::map<uint32_t, TaskDone> answers;  ///< By rank; acknowledged once all ranks have answered.
};

/// A rank missed another one: what it said, and when.
struct Broken {
  std::string reason;
  absl::Time since;
};

/// The ranks that share a role's model. Those that train come first; a role that only scores has a
/// group when several ranks hold one copy of its model.
struct Group {
  std::string role;
  bool trains = true;
  uint32_t ranks = 1;
  uint32_t tp = 1;  ///< Ranks of one copy. They score together, and the first of them answers.
  uint64_t generation = 1;
  uint64_t sequence = 0;
  uint64_t next_attempt = 0;       ///< Of a command that is issued again under its number.
  uint64_t version = 0;            ///< Of its weights; the actor's is PolicyVersions::newest.
  std::optional<Command> command;  ///< That has no result yet.
  std::optional<Broken> broken;    ///< It is formed anew soon.
  absl::Time forming_since = absl::InfinitePast();  ///< Infinite past: all hold the role.
  uint32_t failures = 0;                            ///< Times it broke …
  int64_t broke_at = 0;                             ///< … without getting past this step.

  /// The version that its ranks hold.
  uint64_t VersionIn(const PolicyVersions& versions) const;
};

class RankGroups {
 public:
  /// What a rank's answer means for its group.
  enum class Answer { kWaits, kNoRoom, kBreaks, kFails, kDone };
  /// A rank that let the deadline of its group's command pass.
  struct Overdue {
    std::string worker;
    TaskRef ref;
  };

  RankGroups() = default;
  RankGroups(const v1::JobSpec& effective, const v1::Dataflow& dataflow);
  void Restore(const store::v1::JobRow& row);
  void Save(store::v1::JobRow* row) const;

  /// The actor's is the first. Their number and roles never change, so a reference to a group is
  /// good for as long as the job lives.
  const std::vector<Group>& all() const { return groups_; }
  const Group& actor() const { return groups_.front(); }
  /// Null: the role has no group.
  const Group* Find(absl::string_view role) const;

  // ---- Commands.
  /// Some group has a command without a result; of that kind.
  bool Commanded() const;
  bool Commanded(TaskKind kind) const;
  /// The group's command as a task.
  TaskRef RefOf(const Group& group, const EffectSink& out) const;
  /// Makes a command. Its ranks get it by Send.
  void Issue(TaskKind kind, const Group& group, const EffectSink& out);
  /// `args` has deadline, version and batch size.
  void Send(const Group& group, const Slot& slot, TaskArgs args, EffectSink& out);
  /// A rank's answer is kept. It is acknowledged together with the others, so a controller that
  /// restarts before the last one hears them all again.
  Answer Take(const Group& group, uint32_t rank, const TaskDone& event);
  /// All ranks have answered: acknowledges them, and gives what rank 0 reported.
  std::map<std::string, double> Complete(const Group& group, EffectSink& out);
  /// Nothing was written and nothing is lost: the commands are dropped, and issued again under
  /// their numbers once `retry` has passed.
  void TryLater(const TaskDone& event, absl::Duration retry, EffectSink& out);
  RoomWait& room() { return room_; }
  const RoomWait& room() const { return room_; }
  /// Ranks that still work on a command need not: the job no longer waits for its result.
  void Stop(const std::string& reason, const Roster& roster, EffectSink& out) const;
  void DropAll(EffectSink& out);
  /// A rank came back, with its group's command or without.
  void Returned(const Slot& slot, bool has_command, const EffectSink& out);
  std::optional<Overdue> FindOverdue(absl::Duration limit, const Roster& roster,
                                     const EffectSink& out) const;

  // ---- What an update has reported.
  void Report(const std::string& name, double value) { update_metrics_[name] = value; }
  std::map<std::string, double> TakeReports();

  // ---- Generations.
  /// All ranks are there, and begin anew.
  void BeginGeneration(const Group& group, PolicyVersions& versions, EffectSink& out);
  /// All ranks hold the role.
  void Formed(const Group& group) { Own(group).forming_since = absl::InfinitePast(); }
  /// The ranks made weights of their own. (The actor's count in PolicyVersions.)
  void MadeVersion(const Group& group) { ++Own(group).version; }
  /// A rank misses another one. An error: it broke too often to go on.
  absl::Status Break(const Group& group, const TaskDone& event, const JobCoreOptions& options,
                     const EffectSink& out);
  /// A rank is lost. If the group is broken, this is why, and no fault of the group's.
  void NoteLoss(const Group& group);
  /// Why the group broke, once it has waited for long enough; it is broken no more.
  std::optional<std::string> TakeBroken(const Group& group, absl::Duration delay, absl::Time now);
  /// The group no longer waits to learn which rank is lost: it forms anew now, or never.
  void ForgetBroken(const Group& group) { Own(group).broken.reset(); }
  /// Forgets failures: a user resumes the job.
  void Forgive();

  void Delay(absl::Duration duration, absl::Time now);

 private:
  size_t IndexOf(const Group& group) const { return static_cast<size_t>(&group - groups_.data()); }
  Group& Own(const Group& group) { return groups_[IndexOf(group)]; }
  void Drop(Group& group, EffectSink& out);

  std::vector<Group> groups_;
  std::map<std::string, double> update_metrics_;  // of the groups that have done the update
  RoomWait room_;
};

/// What a group waits for. `not_yet`: why its command cannot be sent; "": it can.
void ExplainGroup(const Group& group, const std::string& not_yet, absl::Time phase_since,
                  const Roster& roster, const JobCoreOptions& options, int64_t step,
                  WaitList& waits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_RANK_GROUPS_H_
