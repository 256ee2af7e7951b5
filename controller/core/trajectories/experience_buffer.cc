#include "controller/core/trajectories/experience_buffer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/trajectories/lost_groups.h"

namespace baton::controller {
namespace {

// The parts of a batch.
struct BatchMembers {
  std::vector<const TrajectoryInfo*> trajectories;  // in order
  std::map<uint64_t, double> baselines;             // by prompt index
};

BatchMembers MembersOf(const ExperienceBuffer::Trajectories& trajectories, uint32_t least) {
  BatchMembers members;
  const std::set<uint64_t> lost = LostGroups(trajectories, least);
  for (const auto& [id, trajectory] : trajectories) {
    if (trajectory.failed != 0 || lost.count(trajectory.prompt_index) > 0) continue;
    if (trajectory.purpose == v1::PURPOSE_BASELINE) {
      members.baselines[trajectory.prompt_index] = trajectory.scores.at("reward");
    } else {
      members.trajectories.push_back(&trajectory);
    }
  }
  return members;
}

// The request for the step's batch, without responses.
BuildBatch AskForBatch(const v1::JobSpec& spec, const ExperienceBuffer::Metrics& algorithm,
                       const EffectSink& out) {
  BuildBatch batch;
  batch.step = out.step() + 1;
  batch.incarnation = out.incarnation();
  batch.algorithm = algorithm;
  return batch;
}

}  // namespace

void ExperienceBuffer::Restore(const store::v1::JobRow& row) {
  next_serial_ = std::max<uint64_t>(row.next_serial(), 1);  // of a new row: 0
  oldest_serial_ = row.oldest_serial();
  for (const store::v1::StepSerials& kept : row.kept_steps()) {
    kept_.push_back({kept.step(), kept.first_serial(), {}});
    kept_.back().files.Restore(kept);
  }
  algorithm_ = {row.algorithm().begin(), row.algorithm().end()};
}

void ExperienceBuffer::Save(store::v1::JobRow* row) const {
  row->set_next_serial(next_serial_);
  row->set_oldest_serial(oldest_serial_);
  for (const KeptStep& kept : kept_) {
    store::v1::StepSerials* const step = row->add_kept_steps();
    step->set_step(kept.step);
    step->set_first_serial(kept.first_serial);
    kept.files.Save(step);
  }
  for (const auto& [name, value] : algorithm_) (*row->mutable_algorithm())[name] = value;
}

void ExperienceBuffer::NoteFound(uint64_t serial, const store::v1::TrajectoryRow& row,
                                 bool current) {
  // Rows written after the job's last row have larger serials than that row says.
  next_serial_ = std::max(next_serial_, serial + 1);
  Need(row.file());
  for (const store::v1::ColumnsRow& columns : row.columns()) Need(columns.file());
  const TrajectoryInfo found = FromRow(row, serial, /*wanted=*/0);
  earlier_.Note(found);
  history_.Note(found);
  if (row.purpose() == v1::PURPOSE_EVAL) evaluations_[serial] = row.step();
  if (!current) return;
  found_.Add(serial, row);
}

void ExperienceBuffer::PutNew(TrajectoryInfo& trajectory, EffectSink& out) {
  trajectory.serial = next_serial_++;
  earlier_.Note(trajectory);
  history_.Note(trajectory);
  Put(trajectory, out);
}

void ExperienceBuffer::Put(const TrajectoryInfo& trajectory, EffectSink& out) {
  Need(trajectory);
  const int64_t done = trajectory.pin.version != 0 ? trajectory.pin.step : out.step();
  if (trajectory.purpose == v1::PURPOSE_EVAL) evaluations_[trajectory.serial] = done;
  out.Do(PutTrajectory{trajectory.serial, StepOf(trajectory.purpose, done), out.incarnation(),
                       trajectory});
}

void ExperienceBuffer::Drop(const TrajectoryInfo& trajectory, EffectSink& out) {
  evaluations_.erase(trajectory.serial);
  out.Do(DropTrajectories{trajectory.serial, trajectory.serial + 1});
  out.Do(DropPayloads{{trajectory.id}});
}

void ExperienceBuffer::DropFound(v1::Purpose purpose, EffectSink& out) {
  for (const uint64_t serial : found_.Take(purpose)) {
    evaluations_.erase(serial);
    out.Do(DropTrajectories{serial, serial + 1});
  }
}

void ExperienceBuffer::DropEvaluation(int64_t step, EffectSink& out) {
  DropTrajectories drop;
  for (auto it = evaluations_.begin(); it != evaluations_.end();) {
    if (it->second != step) {
      ++it;
      continue;
    }
    if (it->first != drop.end) {
      if (drop.end > drop.begin) out.Do(drop);
      drop.begin = it->first;
    }
    drop.end = it->first + 1;
    it = evaluations_.erase(it);
  }
  if (drop.end > drop.begin) out.Do(drop);
}

void ExperienceBuffer::BeginStep(size_t most, bool keeps_all, uint64_t oldest, EffectSink& out) {
  const int64_t next = out.step() + 1;
  // A step that is begun again has its row.
  if (kept_.empty() || kept_.back().step != next) kept_.push_back({next, next_serial_, {}});
  while (kept_.size() > most && kept_[1].first_serial <= oldest) {
    out.Do(DropTrajectories{kept_[0].first_serial, kept_[1].first_serial});
    if (!keeps_all) out.Do(DropBatches{kept_[0].step, kept_[1].step});
    kept_.erase(kept_.begin());
    earlier_.Retire(kept_.front().first_serial);
    history_.Retire(kept_.front().first_serial);
    evaluations_.erase(evaluations_.begin(), evaluations_.lower_bound(kept_.front().first_serial));
  }
  // Rows that are put from here on have larger serials, so this holds until the next step begins.
  oldest_serial_ = std::min(oldest, next_serial_);
  // At every step, because a controller may have died before it deleted files that its rows no
  // longer need.
  if (!keeps_all) DropFiles(out);
  out.Do(PutJob{});
}

void ExperienceBuffer::Need(const TrajectoryInfo& trajectory) {
  Need(trajectory.location.file);
  for (const auto& [node, columns] : trajectory.columns) Need(columns.file);
}

void ExperienceBuffer::Need(uint32_t file) {
  if (file == 0) return;  // files are numbered from 1
  newest_file_ = std::max(newest_file_, file);
  if (!kept_.empty()) kept_.back().files.Add(file);
}

// Payloads reach the log and their rows in the same order. So a payload that has no row yet lies in
// the newest file that a row names, or behind it.
void ExperienceBuffer::DropFiles(EffectSink& out) const {
  DropLogFiles drop;
  drop.end = newest_file_;
  for (const KeptStep& kept : kept_) drop.needed.Add(kept.files);
  if (drop.end > 1) out.Do(std::move(drop));
}

// Rows that the redone steps had put stay with the step in progress, because some belong to the
// work, with the files of their payloads.
void ExperienceBuffer::RollBack(const Trajectories& live, bool spans_steps, Metrics algorithm,
                                bool keeps_all, EffectSink& out) {
  if (kept_.empty()) {  // nothing was put; a replay trains on rows that were there before it
    algorithm_ = std::move(algorithm);
    return;
  }
  KeptStep next{out.step() + 1, next_serial_, {}};
  std::vector<KeptStep> before = kept_;
  while (!before.empty() && before.back().step > out.step()) {
    next.first_serial = before.back().first_serial;
    next.files.Add(before.back().files);
    before.pop_back();
  }
  std::set<uint64_t> spared = found_.Serials();
  for (const auto& [id, trajectory] : live) {
    if (trajectory.serial != 0) spared.insert(trajectory.serial);
  }
  // Rows of the work may be older than all steps that are kept.
  uint64_t first = next.first_serial;
  if (before.empty() && !spared.empty()) first = std::min(first, *spared.begin());
  for (const auto& [serial, step] : evaluations_) {
    if (step <= out.step()) spared.insert(serial);
  }
  algorithm_ = std::move(algorithm);
  // The step in progress may have its batch already. Steps before the kept ones have no row left,
  // so they are skipped: a rollback may be millions of steps long.
  if (kept_.back().step > out.step()) {
    const int64_t oldest = keeps_all ? 1 : kept_.front().step;
    out.Do(DropBatches{std::max(out.step() + 1, oldest), kept_.back().step + 1});
  }
  DropOthers(next.first_serial, spared, out);
  // If work spans steps, an older row may have scores that were put later.
  if (!spans_steps && spared.empty()) next.files = {};
  for (auto it = evaluations_.lower_bound(next.first_serial); it != evaluations_.end();) {
    it = spared.count(it->first) > 0 ? std::next(it) : evaluations_.erase(it);
  }
  next.first_serial = first;
  before.push_back(std::move(next));
  kept_ = std::move(before);
  if (!keeps_all) DropFiles(out);
}

void ExperienceBuffer::DropOthers(uint64_t first, const std::set<uint64_t>& spared,
                                  EffectSink& out) const {
  uint64_t begin = first;
  for (auto it = spared.lower_bound(first); it != spared.end(); ++it) {
    if (*it > begin) out.Do(DropTrajectories{begin, *it});
    begin = *it + 1;
  }
  if (next_serial_ > begin) out.Do(DropTrajectories{begin, next_serial_});
}

ExperienceBuffer::Trajectories ExperienceBuffer::GiveBack() {
  batch_.Clear();
  return std::exchange(taken_, {});
}

void ExperienceBuffer::EndBatch(EffectSink& out) {
  DropPayloads drop;
  for (const auto& [id, trajectory] : taken_) drop.trajectories.push_back(id);
  if (!drop.trajectories.empty()) out.Do(std::move(drop));
  taken_.clear();
  batch_.Clear();
}

void ExperienceBuffer::EndWork(const Trajectories& trajectories, EffectSink& out) {
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories) drop.trajectories.push_back(id);
  if (!drop.trajectories.empty()) out.Do(std::move(drop));
  // The found rows belonged to this work. A batch that waited is given up with it.
  found_.Clear();
  EndBatch(out);
}

void ExperienceBuffer::Replay(const v1::JobSpec& spec, EffectSink& out) const {
  BuildBatch batch = AskForBatch(spec, algorithm_, out);
  batch.recorded = Recorded::kReplay;
  out.Do(std::move(batch));
}

void ExperienceBuffer::Build(const Trajectories& trajectories, const v1::JobSpec& spec,
                             uint32_t least, uint64_t held_out, Recorded recorded,
                             EffectSink& out) const {
  BuildBatch batch = AskForBatch(spec, algorithm_, out);
  batch.held_out = held_out;
  batch.recorded = recorded;
  BatchMembers members = MembersOf(trajectories, least);
  batch.baselines = std::move(members.baselines);
  batch.trajectories.reserve(members.trajectories.size());
  for (const TrajectoryInfo* member : members.trajectories) batch.trajectories.push_back(*member);
  out.Do(std::move(batch));
}

absl::Status ExperienceBuffer::PutRow(const Trajectories& trajectories, uint32_t least,
                                      int64_t max_bytes, EffectSink& out) {
  PutBatch put;
  put.row.set_step(out.step() + 1);
  put.row.set_incarnation(out.incarnation());
  const BatchMembers members = MembersOf(trajectories, least);
  put.row.mutable_baselines()->insert(members.baselines.begin(), members.baselines.end());
  for (const TrajectoryInfo* member : members.trajectories) {
    Need(*member);
    store::v1::BatchEntry* const entry = put.row.add_entries();
    *entry->mutable_trajectory() = ToRow(*member, /*step=*/0, /*incarnation=*/0);
    const auto hashes = batch_.column_hashes().find(member->id);
    if (hashes == batch_.column_hashes().end()) continue;
    entry->mutable_column_hashes()->Assign(hashes->second.begin(), hashes->second.end());
  }
  const auto bytes = static_cast<int64_t>(put.row.ByteSizeLong());
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the batch of step ", put.row.step(), " has ", put.row.entries_size(),
        " responses, whose row has ", bytes, " bytes; at most ", max_bytes,
        " can be stored: lower data.train_batch_size or rollout.n, or have methods report fewer "
        "scores"));
  }
  out.Do(std::move(put));
  return absl::OkStatus();
}

PayloadBytes ExperienceBuffer::bytes_held(const Trajectories& trajectories) const {
  PayloadBytes held;
  for (const auto& [id, trajectory] : trajectories) {
    uint64_t bytes = trajectory.location.size;
    for (const auto& [node, column] : trajectory.columns) bytes += column.size;
    if (batch_.column_hashes().count(id) > 0) {
      held.batched += bytes;
    } else if (trajectory.state == TrajectoryState::kReady) {
      held.ready += bytes;
    } else {
      held.scoring += bytes;
    }
  }
  return held;
}

}  // namespace baton::controller
