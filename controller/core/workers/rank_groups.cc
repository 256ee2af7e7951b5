#include "controller/core/workers/rank_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/task_failure.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {

uint64_t Group::VersionIn(const PolicyVersions& versions) const {
  return role == roles::kActor ? versions.newest() : version;
}

RankGroups::RankGroups(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  for (const GroupRole& role : GroupRolesOf(effective, dataflow)) {
    Group group;
    group.role = role.role;
    group.index = static_cast<uint32_t>(groups_.size());
    group.trains = role.trains;
    group.ranks = static_cast<uint32_t>(RanksOf(effective, role.role));
    group.tp = static_cast<uint32_t>(ShapeOf(effective, role.role).tp);
    groups_.push_back(std::move(group));
  }
}

void RankGroups::Restore(const store::v1::JobRow& row) {
  for (const store::v1::GroupRow& kept : row.groups()) {
    const Group* const found = Find(kept.role());
    if (found == nullptr) continue;
    Group* const group = &Own(*found);
    group->group_epoch = kept.group_epoch();
    group->version = kept.version();
  }
}

void RankGroups::Save(store::v1::JobRow* row) const {
  for (const Group& group : groups_) {
    store::v1::GroupRow* kept = row->add_groups();
    kept->set_role(group.role);
    kept->set_group_epoch(group.group_epoch);
    kept->set_version(group.version);
  }
}

const Group* RankGroups::Find(absl::string_view role) const {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.role == role; });
  return group == groups_.end() ? nullptr : &*group;
}

void RankGroups::BeginEpoch(const Group& of, PolicyVersions& versions, const EffectSink& out) {
  Group& group = Own(of);
  // The group's weights are a new version, even if they are a checkpoint's, because versions only
  // grow.
  ++group.group_epoch;
  group.broken.reset();
  if (group.forming_since == absl::InfinitePast()) group.forming_since = out.now();
  if (group.role == roles::kActor) {
    versions.Begun(out);
  } else {
    ++group.version;
  }
}

void RankGroups::GotPast(const Group& of, int64_t step) {
  Group& group = Own(of);
  if (step + 1 > group.broke_at) group.failures = 0;
}

absl::Status RankGroups::Break(const Group& of, const TaskDone& event,
                               const JobCoreOptions& options, const EffectSink& out) {
  Group& group = Own(of);
  // A group that only scores has no update to show that it got past a step.
  if (!group.trains && out.step() > group.broke_at) group.failures = 0;
  const std::string reason =
      absl::StrCat("worker ", event.worker, " reports: ", event.status.message());
  // Ranks may come late to their meeting, because they may have other work to end first.
  const bool counts =
      IsGroupCommand(event.ref.kind) || out.now() - group.forming_since > options.setup_deadline;
  if (counts) ++group.failures;
  if (group.failures >= options.max_attempts) {
    return absl::Status(
        event.status.code(),
        absl::StrCat("the ", group.role, " group broke ", group.failures,
                     " times without getting past step ", out.step(), "; the last time ", reason));
  }
  group.broke_at = out.step();
  group.broken = Broken{reason, out.now()};
  return absl::OkStatus();
}

void RankGroups::NoteLoss(const Group& of) {
  Group& group = Own(of);
  // The count is for groups that break although all ranks are alive; a new worker would not help
  // them.
  if (group.broken.has_value()) group.failures -= std::min(group.failures, 1u);
}

std::optional<std::string> RankGroups::TakeBroken(const Group& group, absl::Duration delay,
                                                  absl::Time now) {
  // A lease ends within `delay`. Until then a lost rank looks like a slow one.
  if (!group.broken.has_value() || now - group.broken->since <= delay) return std::nullopt;
  return std::exchange(Own(group).broken, std::nullopt)->reason;
}

void RankGroups::ForgetAllFailures() {
  for (Group& group : groups_) {
    group.failures = 0;
    group.forming_since = absl::InfinitePast();
  }
}

void RankGroups::Delay(absl::Duration duration, absl::Time now) {
  for (Group& group : groups_) {
    if (group.broken.has_value()) DelayTime(duration, now, group.broken->since);
    DelayTime(duration, now, group.forming_since);
  }
}

void RankGroups::Explain(const Group& group, absl::Duration limit, WaitList& waits) {
  if (!group.broken.has_value()) return;
  waits.Add("regroup", absl::StrCat("role ", group.role),
            absl::StrCat("the controller to learn which rank of its group is lost (",
                         group.broken->reason, ")"),
            group.broken->since, limit,
            group.trains ? "the ranks form a new group, and go on from the checkpoint"
                         : "the ranks form a new group");
}

}  // namespace baton::controller
