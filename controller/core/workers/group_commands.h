// The commands of groups: update, publish, to_generation, save_checkpoint.
//
// Owns, for each group, the command that not all ranks have answered and the numbers by which its
// ranks keep commands in order; also the wait for room on a disk (RoomWait).
//
//   issued --sent to each rank--> sent --every rank answers--> done, and acknowledged
//     ^                            |
//     +---no room: the same number, a new attempt
//
// All ranks of a group execute its commands in the order of their numbers. A rank that has already
// executed a command answers with its stored result, so a command may be sent again. A new epoch of
// the group counts from one, and drops the old epoch's commands.
#ifndef BATON_CONTROLLER_CORE_WORKERS_GROUP_COMMANDS_H_
#define BATON_CONTROLLER_CORE_WORKERS_GROUP_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

/// How far a rank is with an update, in micro-batches. For people alone: nothing is decided by it.
struct UpdateProgress {
  uint32_t done = 0;
  uint32_t total = 0;  ///< Above 0.
  /// True if a smaller part of this is done than of `other`.
  bool IsBehind(const UpdateProgress& other) const {
    return uint64_t{done} * other.total < uint64_t{other.done} * total;
  }
};

/// A command that the ranks of a group execute in order.
struct Command {
  TaskKind kind = TaskKind::kUpdate;
  uint64_t group_epoch = 0;
  uint64_t sequence = 0;
  uint64_t attempt = 0;
  absl::Time issued;
  absl::Time since;                      ///< When it was sent last.
  std::set<uint32_t> sent;               ///< Ranks that have it, as far as is known.
  std::map<uint32_t, TaskDone> answers;  ///< By rank; acknowledged once all ranks have answered.
  std::map<uint32_t, UpdateProgress> progress;  ///< By rank; of those whose workers tell it.
};

/// A job's wait for room: a command found a disk or shared memory full.
///
/// Owns the command that found no room, since when, and when the job tries again. Someone must free
/// space, so there is no limit to the tries; the job tells its user at the first one, and `why`
/// shows the wait.
///
///   no wait --a command finds no room--> waits --the retry is due--> due --no room again--> waits
///      ^                                   |                          |
///      +------- a command is done, or the job gives the command up ---+
class RoomWait {
 public:
  /// The command of `event` found no room: it is issued again once `retry` has passed.
  void Begin(const TaskDone& event, absl::Duration retry, EffectSink& out);
  /// There is room, or no command needs it any more.
  void End() { wait_.reset(); }
  bool Waits(absl::Time now) const { return wait_.has_value() && now < wait_->retry; }
  /// True if a retry is due.
  bool RetryDue(absl::Time now) const { return wait_.has_value() && !Waits(now); }
  void Explain(int64_t step, WaitList& waits) const;

 private:
  struct Wait {
    TaskKind kind = TaskKind::kPublish;
    std::string message;
    absl::Time since;
    absl::Time retry;
  };
  std::optional<Wait> wait_;
};

class GroupCommands {
 public:
  /// The meaning of a rank's answer for its group.
  enum class Answer { kWaits, kNoRoom, kBreaks, kFails, kDone };
  /// A rank that let the deadline of its group's command pass.
  struct Overdue {
    std::string worker;
    TaskRef ref;
  };

  /// `groups`: the number of groups.
  explicit GroupCommands(size_t groups = 0) : lines_(groups) {}
  void Restore(const store::v1::JobRow& row, const RankGroups& groups);
  /// Adds to the GroupRows of `row`, which RankGroups made.
  void Save(store::v1::JobRow* row) const;

  /// The group's command without a result; null: it has none.
  const Command* Of(const Group& group) const;
  /// True if some group has a command without a result (of any kind; of that kind).
  bool Any() const;
  bool Any(TaskKind kind) const;
  /// The group's command as a task.
  TaskRef RefOf(const Group& group, const EffectSink& out) const;

  // ---- Flow of a command.
  /// Makes a command. Its ranks get it by Send.
  void Issue(TaskKind kind, const Group& group, const EffectSink& out);
  /// `args` has deadline, version and batch size.
  void Send(const Group& group, const RoleSlot& slot, TaskArgs args, EffectSink& out);
  /// A rank came back, with its group's command or without.
  void Returned(const Group& group, uint32_t rank, bool has_command, const EffectSink& out);
  /// A rank's answer is kept. It is acknowledged together with the others, so a controller that
  /// restarts before the last one hears them all again.
  Answer Take(const Group& group, uint32_t rank, const TaskDone& event);
  /// All ranks have answered: acknowledges the answers, and returns the metrics that rank 0
  /// reported.
  std::map<std::string, double> Complete(const Group& group, EffectSink& out);

  // ---- Progress of an update.
  /// The group has a command.
  void NoteProgress(const Group& group, uint32_t rank, const UpdateProgress& progress);
  /// Of the rank that is furthest behind; nullopt: no rank tells it, or no command is under way.
  std::optional<UpdateProgress> ProgressOf(const Group& group) const;

  // ---- Commands that are given up.
  /// Nothing was written and nothing is lost: the commands are dropped, and issued again under
  /// their numbers once `retry` has passed.
  void TryLater(const TaskDone& event, absl::Duration retry, EffectSink& out);
  RoomWait& room() { return room_; }
  const RoomWait& room() const { return room_; }
  /// Ranks that still work on a command need not: the job no longer waits for its result.
  void Stop(const std::string& reason, const RankGroups& groups, const Roster& roster,
            EffectSink& out) const;
  void DropAll(EffectSink& out);
  /// The group begins a new epoch: its commands count from one.
  void Restart(const Group& group, EffectSink& out);

  // ---- Waits.
  std::optional<Overdue> FindOverdue(absl::Duration limit, const RankGroups& groups,
                                     const Roster& roster, const EffectSink& out) const;
  void Delay(absl::Duration duration, absl::Time now);
  /// Explains the wait of the group's command. `not_yet`: why it cannot be sent; "": it can.
  /// `since`: the start of the wait, for a command that an earlier controller issued.
  void Explain(const Group& group, const std::string& not_yet, absl::Time since,
               const Roster& roster, absl::Duration limit, int64_t step, WaitList& waits) const;

 private:
  // The commands of one group.
  struct Line {
    uint64_t sequence = 0;  // of its newest command
    // The attempt of the line's newest command. It changes only when a number is used again: for a
    // command that is issued again, and for the next group epoch, whose numbers count from 1.
    uint64_t attempt = 0;
    std::optional<Command> command;
  };
  static void Drop(Line& line, EffectSink& out);

  std::vector<Line> lines_;  // by Group::index
  RoomWait room_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_GROUP_COMMANDS_H_
