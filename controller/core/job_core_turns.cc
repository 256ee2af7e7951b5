// JobCore: roles that share workers take turns.
//
// Of a shared pool one role works at a time: it goes on until nothing that it could do is left,
// then the next that has work begins. Commands of groups come first: while one is outstanding
// nothing new begins on its pool, and it goes out when what runs there has ended. Two groups of
// one pool execute theirs one after the other. So a worker never does two things at once (but end
// what it was told to stop), and ranks never meet in different orders.
#include <algorithm>

#include "controller/core/job_core.h"
#include "controller/core/mutation.h"

namespace baton::controller {

// Something of it runs.
bool JobCore::IsAtWork(const std::string& role) const {
  if (role == "rollout") {
    const auto& slots = roster_.slots();
    return !rollouts_.running().empty() ||
           std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.loading; });
  }
  const auto scorer = scorers_.find(role);
  return scorer != scorers_.end() && !scorer->second.manager.running().empty();
}

// Something of it could begin.
bool JobCore::HasWork(const std::string& role) const {
  const auto scorer = scorers_.find(role);
  const bool queued = role == "rollout"
                          ? published_ && rollouts_.queued() > 0
                          : scorer != scorers_.end() && scorer->second.manager.queued() > 0;
  if (!queued) return false;
  if (GroupOf(role) != nullptr && !roster_.AllReady(role)) return false;
  const auto& slots = roster_.slots();
  return std::any_of(slots.begin(), slots.end(),
                     [&](const Slot& slot) { return slot.ready() && slot.role == role; });
}

bool JobCore::PoolCommanded(const SharedPool& pool) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    // A restored update waits for its batch, and that perhaps for the pool.
    const bool commanded = group.command.has_value() &&
                           (group.command->kind != TaskKind::kUpdate || phase_ == Phase::kUpdate);
    return (commanded || group.broken.has_value()) && roster_.SharedBy(group.role) == &pool;
  });
}

// A role begins nothing while another one still works: of two that were adopted both may, where a
// power cut took the row of the last result of the one that came first.
bool JobCore::HasTurn(const std::string& role) const {
  const SharedPool* pool = roster_.SharedBy(role);
  if (pool == nullptr) return true;
  const auto others_at_work = [&](const std::string& other) {
    return other != role && IsAtWork(other) && !Mutated(Mutation::kTurnWhileWorking);
  };
  return pool->turn == role && !PoolCommanded(*pool) &&
         std::none_of(pool->roles.begin(), pool->roles.end(), others_at_work);
}

// True: the rollouts' turn has come.
bool JobCore::TakeTurns() {
  bool rollouts = false;
  for (SharedPool& pool : roster_.shared()) {
    const bool commanded = PoolCommanded(pool);
    const bool working = IsAtWork(pool.turn) && !Mutated(Mutation::kTurnWhileWorking);
    if (!working && (commanded || !HasWork(pool.turn))) {
      const auto at_work = [&](const std::string& role) {  // adopted
        return IsAtWork(role) && !Mutated(Mutation::kTurnWhileWorking);
      };
      const auto has_work = [&](const std::string& role) {
        return !commanded && roster_.AllBack(pool) && HasWork(role);
      };
      auto next = std::find_if(pool.roles.begin(), pool.roles.end(), at_work);
      if (next == pool.roles.end()) {
        next = std::find_if(pool.roles.begin(), pool.roles.end(), has_work);
      }
      const std::string turn = next == pool.roles.end() ? "" : *next;
      if (turn != pool.turn) pool.since = now_;
      rollouts |= turn != pool.turn && turn == "rollout";
      pool.turn = turn;
    }
    for (const std::string& role : pool.roles) {
      if (role == "rollout" || scorers_.count(role) > 0) ManagerOf(role).SetOpen(HasTurn(role));
    }
  }
  return rollouts;
}

// Its command may go to a rank: it has begun already, or nobody else works on its pool and no group
// before it has one.
bool JobCore::MayCommand(const Group& group) const {
  const SharedPool* pool = roster_.SharedBy(group.role);
  if (pool == nullptr) return true;
  if (!roster_.AllBack(*pool)) return false;
  if (!group.command->sent.empty()) return true;
  for (const Group& other : groups_) {
    if (Mutated(Mutation::kCommandsAtOnce)) break;
    if (&other == &group || !other.command.has_value()) continue;
    if (roster_.SharedBy(other.role) != pool) continue;
    if (&other < &group || !other.command->sent.empty()) return false;
  }
  if (Mutated(Mutation::kCommandWhileWorking)) return true;
  return std::none_of(pool->roles.begin(), pool->roles.end(),
                      [&](const std::string& role) { return IsAtWork(role); });
}

// Commands that have waited for their pool.
void JobCore::SendCommands() {
  for (Group& group : groups_) {
    if (!group.command.has_value() || group.command->sent.size() == group.ranks) continue;
    // A restored one waits until its batch stands.
    if (group.command->kind == TaskKind::kUpdate && phase_ != Phase::kUpdate) continue;
    for (const Slot& slot : roster_.slots()) {
      const bool has =
          group.command->answers.count(slot.rank) + group.command->sent.count(slot.rank);
      if (slot.role == group.role && !has) SendCommand(group, slot);
    }
  }
}

// How rollouts get a version: through the relay, or by the ranks that they are.
TaskKind JobCore::HandOver() const {
  return roster_.hybrid() ? TaskKind::kToGeneration : TaskKind::kPublish;
}

// The ranks hold their newest weights for generation.
void JobCore::OnHandedOver() {
  published_ = true;
  update_weights_seconds_ = Since(publish_since_);
  publish_since_ = absl::InfinitePast();
  if (phase_ == Phase::kPublish) SetPhase(Phase::kNone);
  Do(PutJob{});
  Advance();
}

}  // namespace baton::controller
