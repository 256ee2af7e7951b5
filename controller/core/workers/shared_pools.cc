#include "controller/core/workers/shared_pools.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/spec/dataflow/pools.h"

namespace baton::controller {

bool PoolView::IsAtWork(const std::string& role) const {
  const RoleQueue* queue = queues.Find(role);
  if (queue == nullptr) return false;
  // A rollout that loads weights is at work as well.
  const bool loads = role == roles::kRollout && versions.replicas().AnyLoading();
  return loads || !queue->tasks.running().empty();
}

bool PoolView::HasWork(const std::string& role) const {
  const RoleQueue* queue = queues.Find(role);
  if (queue == nullptr || queue->tasks.queued() == 0) return false;
  if (role == roles::kRollout && !versions.serves_newest()) return false;
  if (groups.Find(role) != nullptr && !roster.AllReady(role)) return false;
  const auto& slots = roster.slots();
  return std::any_of(slots.begin(), slots.end(),
                     [&](const RoleSlot& slot) { return slot.ready() && slot.role == role; });
}

SharedPools::SharedPools(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                         absl::Duration quantum)
    : quantum_(quantum) {
  for (RolePool& pool : PoolsOf(effective, dataflow)) {
    if (pool.roles.size() > 1) pools_.push_back({std::move(pool.roles), ""});
  }
}

const SharedPool* SharedPools::Of(absl::string_view role) const {
  for (const SharedPool& pool : pools_) {
    if (std::count(pool.roles.begin(), pool.roles.end(), role) > 0) return &pool;
  }
  return nullptr;
}

bool SharedPools::AllBack(const SharedPool& pool, const PoolView& view) const {
  const auto& slots = view.roster.slots();
  return std::all_of(slots.begin(), slots.end(), [&](const RoleSlot& slot) {
    return slot.state == SlotState::kEmpty || slot.present || Of(slot.role) != &pool;
  });
}

bool SharedPools::Commanded(const SharedPool& pool, const PoolView& view) const {
  const auto& groups = view.groups.all();
  return std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    // A restored update waits for its batch, which may need work on this pool.
    const Command* const command = view.commands.Of(group);
    const bool commanded =
        command != nullptr && (command->kind != TaskKind::kUpdate || view.batch_made);
    return (commanded || group.broken.has_value()) && Of(group.role) == &pool;
  });
}

bool SharedPools::HasTurn(const std::string& role, const PoolView& view) const {
  const SharedPool* pool = Of(role);
  if (pool == nullptr) return true;
  // After a restart two adopted roles may both be at work, if a power cut lost the row of the first
  // role's last result. Then neither begins more until the other is done.
  const auto others_at_work = [&](const std::string& other) {
    return other != role && view.IsAtWork(other);
  };
  return pool->turn == role && !pool->yields && !Commanded(*pool, view) &&
         std::none_of(pool->roles.begin(), pool->roles.end(), others_at_work);
}

std::string SharedPools::NextTurn(const SharedPool& pool, bool commanded,
                                  const PoolView& view) const {
  for (const std::string& role : pool.roles) {
    if (view.IsAtWork(role)) return role;  // adopted
  }
  if (commanded || !AllBack(pool, view)) return "";
  // After a quantum the search starts at the next role in the order; otherwise only two of three
  // roles would take turns.
  size_t first = 0;
  if (pool.yields) {
    first = static_cast<size_t>(absl::c_find(pool.roles, pool.turn) - pool.roles.begin()) + 1;
  }
  for (size_t i = 0; i < pool.roles.size(); ++i) {
    const std::string& role = pool.roles[(first + i) % pool.roles.size()];
    if (view.HasWork(role)) return role;
  }
  return "";
}

bool SharedPools::TakeTurns(const PoolView& view, RoleQueues& queues, absl::Time now) {
  bool rollouts = false;
  for (SharedPool& pool : pools_) {
    const bool commanded = Commanded(pool, view);
    const bool working = view.IsAtWork(pool.turn);
    const auto waits = [&](const std::string& role) {
      return role != pool.turn && view.HasWork(role);
    };
    pool.yields =
        !pool.turn.empty() && now - pool.since >= quantum_ && absl::c_any_of(pool.roles, waits);
    if (!working && (commanded || pool.yields || !view.HasWork(pool.turn))) {
      const std::string turn = NextTurn(pool, commanded, view);
      if (turn != pool.turn) pool.since = now;
      rollouts |= turn != pool.turn && turn == roles::kRollout;
      pool.turn = turn;
      pool.yields = false;
    }
    for (const std::string& role : pool.roles) {
      if (RoleQueue* queue = queues.Find(role)) queue->tasks.SetOpen(HasTurn(role, view));
    }
  }
  return rollouts;
}

bool SharedPools::MayCommand(const Group& group, const PoolView& view) const {
  const SharedPool* pool = Of(group.role);
  if (pool == nullptr) return true;
  if (!AllBack(*pool, view) || view.unadopted) return false;
  if (!view.commands.Of(group)->sent.empty()) return true;
  for (const Group& other : view.groups.all()) {
    const Command* const command = view.commands.Of(other);
    if (&other == &group || command == nullptr) continue;
    if (Of(other.role) != pool) continue;
    // Groups execute in their order, unless a later one has begun already.
    if (other.index < group.index || !command->sent.empty()) return false;
  }
  return std::none_of(pool->roles.begin(), pool->roles.end(),
                      [&](const std::string& role) { return view.IsAtWork(role); });
}

std::string SharedPools::AtWorkIn(const std::string& role, const PoolView& view) const {
  std::vector<std::string> busy;
  for (const std::string& other : Of(role)->roles) {
    const Group* group = view.groups.Find(other);
    const Command* const command = group == nullptr ? nullptr : view.commands.Of(*group);
    if (command != nullptr && !command->sent.empty()) {
      busy.push_back(absl::StrCat(other, " executes ", MethodName(command->kind)));
    } else if (view.IsAtWork(other)) {
      const size_t tasks = view.queues.Of(other).running().size();
      busy.push_back(absl::StrCat(other, " runs ", tasks, tasks == 1 ? " task" : " tasks"));
    } else if (group != nullptr && (group->broken.has_value() || !view.roster.AllReady(other))) {
      busy.push_back(absl::StrCat("the ranks of ", other, " form their group"));
    }
  }
  return busy.empty() ? "some of its workers are not back yet" : absl::StrJoin(busy, ", ");
}

void SharedPools::Explain(const PoolView& view, absl::Time phase_since, WaitList& waits) const {
  const auto turn = [&](const std::string& role, size_t queued) {
    if (queued == 0 || HasTurn(role, view)) return;
    waits.Add("turn", absl::StrCat("role ", role),
              absl::StrCat("its turn on shared workers; ", AtWorkIn(role, view)),
              std::max(phase_since, Of(role)->since), absl::InfiniteDuration(),
              "it begins when they are done");
  };
  turn(roles::kRollout, view.queues.rollouts().tasks.queued());
  for (const auto& [role, queue] : view.queues.scorers()) turn(role, queue.tasks.queued());
}

}  // namespace baton::controller
