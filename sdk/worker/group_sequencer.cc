#include "sdk/worker/group_sequencer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

absl::Status Stale(absl::string_view reason, const v1::Task& task, absl::string_view what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason,
                   absl::StrCat(task.role(), ".", task.method(), " (pool ", task.order().pool(),
                                ", group epoch ", task.order().group_epoch(), ", sequence ",
                                task.order().sequence(), ") ", what));
}

}  // namespace

void GroupSequencer::Refuse(Group& group, const absl::Status& why, Decision& decision) {
  for (auto& [sequence, command] : group.held) {
    decision.refused.emplace_back(std::move(command), why);
  }
  group.held.clear();
}

GroupSequencer::Decision GroupSequencer::StartNext(Group& group) {
  Decision decision;
  while (!group.held.empty() && group.held.begin()->first + 1 < group.next) {
    auto command = std::move(group.held.begin()->second);
    group.held.erase(group.held.begin());
    const absl::Status why = Stale("SEQUENCE_PASSED", command->task(), "was passed already");
    decision.refused.emplace_back(std::move(command), why);
  }
  if (group.running != nullptr || group.held.empty() || group.held.begin()->first > group.next) {
    return decision;
  }
  decision.run = std::move(group.held.begin()->second);
  group.held.erase(group.held.begin());
  group.running = &decision.run->task();
  return decision;
}

GroupSequencer::Decision GroupSequencer::Offer(const std::shared_ptr<TaskContext>& command) {
  const v1::Task& task = command->task();
  const uint64_t sequence = task.order().sequence();
  const auto [it, is_new] = groups_.try_emplace(KeyOf(task));
  Group& group = it->second;
  Decision replaced;
  if (is_new || task.order().group_epoch() > group.group_epoch) {
    Refuse(group, Stale("STALE_GROUP_EPOCH", task, "belongs to a newer epoch of the group"),
           replaced);
    group = Group();
    group.group_epoch = task.order().group_epoch();
    group.next = sequence;
  }
  if (task.order().group_epoch() < group.group_epoch) {
    replaced.refused.emplace_back(
        command, Stale("STALE_GROUP_EPOCH", task,
                       absl::StrCat("is stale: the group has epoch ", group.group_epoch)));
    return replaced;
  }
  auto& slot = group.held[sequence];
  if (slot != nullptr) {
    const absl::Status why = Stale("SUPERSEDED", task, "came again as a new attempt");
    replaced.refused.emplace_back(std::move(slot), why);
  }
  slot = command;
  Decision decision = StartNext(group);
  for (auto& refused : replaced.refused) decision.refused.push_back(std::move(refused));
  return decision;
}

GroupSequencer::Decision GroupSequencer::Done(const v1::Task& command) {
  const auto it = groups_.find(KeyOf(command));
  if (it == groups_.end() || it->second.running != &command) return {};
  Group& group = it->second;
  group.running = nullptr;
  group.done = std::max(group.done, command.order().sequence());
  group.next = std::max(group.next, command.order().sequence() + 1);
  return StartNext(group);
}

GroupSequencer::Decision GroupSequencer::Withdraw(const TaskContext& command) {
  Decision decision;
  const auto group = groups_.find(KeyOf(command.task()));
  if (group == groups_.end()) return decision;
  const auto held = group->second.held.find(command.task().order().sequence());
  if (held == group->second.held.end() || held->second.get() != &command) return decision;
  decision.refused.emplace_back(std::move(held->second),
                                absl::CancelledError("the task was cancelled before it began"));
  group->second.held.erase(held);
  return decision;
}

GroupSequencer::Decision GroupSequencer::Forget(absl::string_view job, absl::string_view pool) {
  Decision decision;
  const auto it = groups_.find(Key(std::string(job), std::string(pool)));
  if (it == groups_.end()) return decision;
  Refuse(it->second,
         MakeError(absl::StatusCode::kFailedPrecondition, "ROLE_NOT_HELD",
                   absl::StrCat("the worker left pool ", pool, " of ", job)),
         decision);
  groups_.erase(it);
  return decision;
}

GroupSequencer::Decision GroupSequencer::ForgetAll() {
  Decision decision;
  for (auto& [key, group] : groups_) {
    Refuse(group,
           MakeError(absl::StatusCode::kFailedPrecondition, "ROLE_NOT_HELD",
                     absl::StrCat("the worker left pool ", key.second, " of ", key.first)),
           decision);
  }
  groups_.clear();
  return decision;
}

uint64_t GroupSequencer::last_sequence(absl::string_view job, absl::string_view pool) const {
  const auto it = groups_.find(Key(std::string(job), std::string(pool)));
  return it == groups_.end() ? 0 : it->second.done;
}

}  // namespace baton
