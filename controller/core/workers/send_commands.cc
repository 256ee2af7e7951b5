#include "controller/core/workers/send_commands.h"

#include <cstddef>
#include <utility>

namespace baton::controller {

namespace {

constexpr size_t kMostKept = 8;  // BeginRequest.keep_versions

void SendTo(const RoleSlot& slot, const Group& group, const CommandContext& context) {
  if (!slot.ready() || !context.pools.MayCommand(group, context.view)) return;
  TaskArgs args;
  args.deadline = context.deadline;
  // An update makes the next version of the weights.
  const uint64_t makes = context.commands.Of(group)->kind == TaskKind::kUpdate ? 1 : 0;
  args.policy_version = group.VersionIn(context.view.versions) + makes;
  args.batch_size = context.batch_size;
  const uint64_t pinned = context.pinned_version;
  const bool publishes = context.commands.Of(group)->kind == TaskKind::kPublish;
  if (publishes) {
    args.keep_versions = context.view.versions.StillLoaded();
    if (pinned != 0 && pinned != args.policy_version) args.keep_versions.push_back(pinned);
    while (args.keep_versions.size() > kMostKept) {  // the served one and the newest ones stay
      args.keep_versions.erase(args.keep_versions.begin() + 1);
    }
  }
  context.commands.Send(group, slot, std::move(args), context.out);
}

// True for a restored update whose batch is not built yet. It must wait, because the ranks fetch
// the batch at once.
bool LacksItsBatch(const Group& group, const CommandContext& context) {
  return context.commands.Of(group)->kind == TaskKind::kUpdate && !context.view.updating;
}

}  // namespace

void SendCommand(const Group& group, const CommandContext& context) {
  for (const RoleSlot& slot : context.view.roster.slots()) {
    if (slot.role == group.role) SendTo(slot, group, context);
  }
}

void SendWaitingCommands(const CommandContext& context) {
  for (const Group& group : context.groups.all()) {
    const Command* const command = context.commands.Of(group);
    if (command == nullptr || command->sent.size() == group.ranks) continue;
    if (LacksItsBatch(group, context)) continue;
    for (const RoleSlot& slot : context.view.roster.slots()) {
      const bool has = command->answers.count(slot.rank) + command->sent.count(slot.rank);
      if (slot.role == group.role && !has) SendTo(slot, group, context);
    }
  }
}

void SendMissedCommand(const RoleSlot& rank, const CommandContext& context) {
  const Group* const group = context.groups.Find(rank.role);
  const Command* const command = group == nullptr ? nullptr : context.commands.Of(*group);
  const bool missed = command != nullptr && command->sent.count(rank.rank) == 0;
  if (missed && !LacksItsBatch(*group, context)) SendTo(rank, *group, context);
}

}  // namespace baton::controller
