#include "controller/core/experience_buffer.h"

#include <algorithm>
#include <set>

#include "controller/core/lost_groups.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void ExperienceBuffer::Restore(const store::v1::JobRow& row) {
  next_serial_ = std::max<uint64_t>(row.next_serial(), 1);  // of a new row: 0
  kept_ = {row.kept_steps().begin(), row.kept_steps().end()};
  algorithm_ = {row.algorithm().begin(), row.algorithm().end()};
}

void ExperienceBuffer::Save(store::v1::JobRow* row) const {
  row->set_next_serial(next_serial_);
  for (const store::v1::StepSerials& kept : kept_) *row->add_kept_steps() = kept;
  for (const auto& [name, value] : algorithm_) (*row->mutable_algorithm())[name] = value;
}

void ExperienceBuffer::Found(uint64_t serial, const store::v1::TrajectoryRow& row, bool current) {
  // Rows written after the job's last row have larger serials than it knows.
  next_serial_ = std::max(next_serial_, serial + 1);
  if (!current) return;
  if (Mutant("ready-lost-at-restart") && found_.empty() && serial % 2 == 0) return;
  found_[row.id()] = {serial, row};
}

std::optional<TrajectoryInfo> ExperienceBuffer::Recall(const TrajectoryInfo& drawn,
                                                       uint64_t wanted) const {
  const auto found = found_.find(drawn.id);
  if (found == found_.end()) return std::nullopt;
  const auto& [serial, row] = found->second;
  // The data may have changed while the controller was away: this draw is another prompt then.
  const bool same = row.purpose() == drawn.purpose && row.draw() == drawn.draw &&
                    row.sample() == drawn.sample && row.prompt_id() == drawn.prompt_id;
  if (!same) return std::nullopt;
  return FromRow(row, serial, wanted);
}

bool ExperienceBuffer::Recalls(v1::Purpose purpose) const {
  return std::any_of(found_.begin(), found_.end(),
                     [&](const auto& found) { return found.second.row.purpose() == purpose; });
}

void ExperienceBuffer::PutNew(TrajectoryInfo& trajectory, EffectSink& out) {
  trajectory.serial = next_serial_++;
  Put(trajectory, out);
}

void ExperienceBuffer::Put(const TrajectoryInfo& trajectory, EffectSink& out) const {
  out.Do(PutTrajectory{trajectory.serial, StepOf(trajectory.purpose, out.step()), out.incarnation(),
                       trajectory});
}

void ExperienceBuffer::Drop(const TrajectoryInfo& trajectory, EffectSink& out) const {
  out.Do(DropTrajectories{trajectory.serial, trajectory.serial + 1, 0});
  out.Do(DropPayloads{{trajectory.id}});
}

void ExperienceBuffer::BeginStep(size_t most, bool keeps_all, EffectSink& out) {
  store::v1::StepSerials next;
  next.set_step(out.step() + 1);
  next.set_first_serial(next_serial_);
  // The evaluation before a step, and a step that is begun again, count with the step.
  if (kept_.empty() || kept_.back().step() != next.step()) kept_.push_back(next);
  while (kept_.size() > most) {
    out.Do(DropTrajectories{kept_[0].first_serial(), kept_[1].first_serial(),
                            keeps_all ? 0 : kept_[1].first_file()});
    if (!keeps_all) out.Do(DropBatches{kept_[0].step(), kept_[1].step()});
    kept_.erase(kept_.begin());
  }
  out.Do(PutJob{});
}

void ExperienceBuffer::KeepFiles(const Trajectories& trajectories) {
  if (kept_.empty()) return;
  uint32_t first = kept_.back().first_file();  // of the evaluation before the step; 0: none
  for (const auto& [id, t] : trajectories) {
    first = first == 0 ? t.location.file : std::min(first, t.location.file);
  }
  kept_.back().set_first_file(first);
}

void ExperienceBuffer::RollBack(Metrics algorithm, bool keeps_all, EffectSink& out) {
  algorithm_ = std::move(algorithm);
  // The step in progress may have its batch already.
  if (!kept_.empty() && kept_.back().step() > out.step() && !Mutant("batch-outlives-rollback")) {
    // Steps before the kept ones have no row left: a way back may be millions of steps long.
    const int64_t first = keeps_all ? 1 : kept_.front().step();
    out.Do(DropBatches{std::max(out.step() + 1, first), kept_.back().step() + 1});
  }
  uint64_t end = next_serial_;  // each row is dropped once
  while (!kept_.empty() && kept_.back().step() > out.step() &&
         !(Mutant("stale-restored") || Mutant("stale-consumed"))) {
    out.Do(DropTrajectories{kept_.back().first_serial(), end, 0});
    if (!Mutant("rollback-drops-rows-again")) end = kept_.back().first_serial();
    kept_.pop_back();
  }
}

void ExperienceBuffer::EndWork(const Trajectories& trajectories, EffectSink& out) {
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories) drop.trajectories.push_back(id);
  if (!drop.trajectories.empty()) out.Do(std::move(drop));
  found_.clear();
  held_ = false;
  next_algorithm_.clear();
  column_hashes_.clear();
}

void ExperienceBuffer::Build(const Trajectories& trajectories, const v1::JobSpec& spec,
                             uint32_t least, uint64_t held_out, EffectSink& out) const {
  BuildBatch batch;
  batch.step = out.step() + 1;
  batch.incarnation = out.incarnation();
  batch.algorithm = algorithm_;
  // Dynamic sampling draws more groups than a step needs; the first ones that teach are taken.
  if (spec.algorithm().dynamic_sampling()) {
    batch.max_groups = static_cast<uint32_t>(spec.data().train_batch_size());
  }
  batch.held_out = held_out;
  Members members = MembersOf(trajectories, least);
  batch.baselines = std::move(members.baselines);
  batch.trajectories.reserve(members.trajectories.size());
  for (const TrajectoryInfo* member : members.trajectories) batch.trajectories.push_back(*member);
  if (Mutant("group-in-part")) batch.trajectories.pop_back();
  out.Do(std::move(batch));
}

ExperienceBuffer::Members ExperienceBuffer::MembersOf(const Trajectories& trajectories,
                                                      uint32_t least) {
  Members members;
  const std::set<uint64_t> lost = LostGroups(trajectories, least);
  for (const auto& [id, trajectory] : trajectories) {
    const bool failed = trajectory.failed != 0 && !Mutant("no-reward-in-batch");
    if (failed || lost.count(trajectory.draw) > 0) continue;
    if (trajectory.purpose == v1::PURPOSE_BASELINE) {
      members.baselines[trajectory.draw] = trajectory.scores.at("reward");
    } else {
      members.trajectories.push_back(&trajectory);
    }
  }
  return members;
}

void ExperienceBuffer::PutRow(const Trajectories& trajectories, uint32_t least,
                              EffectSink& out) const {
  PutBatch put;
  put.row.set_step(out.step() + 1);
  put.row.set_incarnation(out.incarnation());
  const Members members = MembersOf(trajectories, least);
  put.row.mutable_baselines()->insert(members.baselines.begin(), members.baselines.end());
  for (const TrajectoryInfo* member : members.trajectories) {
    store::v1::BatchEntry* const entry = put.row.add_entries();
    *entry->mutable_trajectory() = ToRow(*member, /*step=*/0, /*incarnation=*/0);
    const auto hashes = column_hashes_.find(member->id);
    if (hashes == column_hashes_.end()) continue;
    entry->mutable_column_hashes()->Assign(hashes->second.begin(), hashes->second.end());
  }
  out.Do(std::move(put));
}

void ExperienceBuffer::Built(const BatchBuilt& event, absl::Time now) {
  built_at_ = now;
  batch_metrics_ = event.metrics;
  column_hashes_ = event.column_hashes;
  batch_size_ = event.size;
  next_algorithm_ = event.algorithm;
}

}  // namespace baton::controller
