// Delivery of groups' commands to the ranks.
//
// Owns nothing: GroupCommands has the commands, and knows which ranks have them. A command goes to
// a rank that is ready and attached, once the rank's pool allows it (SharedPools::MayCommand).
#ifndef BATON_CONTROLLER_CORE_WORKERS_SEND_COMMANDS_H_
#define BATON_CONTROLLER_CORE_WORKERS_SEND_COMMANDS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"
#include "controller/core/workers/shared_pools.h"

namespace baton::controller {

struct CommandContext {
  EffectSink& out;
  const RankGroups& groups;
  GroupCommands& commands;
  const SharedPools& pools;
  PoolView view;            ///< The job's present state.
  absl::Duration deadline;  ///< For a rank's answer.
  uint32_t batch_size;      ///< Of an update.
  uint64_t pinned_version;  ///< The version of an evaluation beside the steps; 0: none.
};

/// Sends the group's command, which was issued just now, to all its ranks.
void SendCommand(const Group& group, const CommandContext& context);
/// Sends the commands that have waited for their pool, or for a rank.
void SendWaitingCommands(const CommandContext& context);
/// Sends its group's command to a rank that came back without it.
void SendMissedCommand(const RoleSlot& rank, const CommandContext& context);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_SEND_COMMANDS_H_
