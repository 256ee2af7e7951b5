// The responses that a job keeps, from READY until no step and no call needs them.
//
// Owns the serials of trajectory rows, which steps' rows and payloads are kept, the rows that a
// restarted controller found, and the batch that is built or trained on. For each trajectory:
//
// clang-format off
//   READY --Build--> in a batch --Consume: in a BatchRow--> CONSUMED --step is old--> RETIRED
//     ^                  |                                      |
//     |                  +------------- a rollback -------------+--> dropped, and made again
//     +-- a restart: its row is there
// clang-format on
//
// The batch takes its trajectories out of the work, which may go on during the update; when the
// batch is given up they go back, and are READY again.
//
// A row outlives its trajectory: experience of the last steps can be read, and its payload lies in
// the experience log until the step is retired. A file of the log goes when no kept step needs it:
// a step needs the files of the rows that were put while it was the newest, and those of its batch.
// With trainer.keep_experience `all` the payloads and the BatchRows stay for good, and only the
// trajectory rows go, because a BatchRow has their contents.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_EXPERIENCE_BUFFER_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_EXPERIENCE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"
#include "controller/core/job/file_ranges.h"
#include "controller/core/job/trajectory.h"
#include "controller/core/prompts/prompt_history.h"

namespace baton::controller {

/// The rows of trajectories that a restarted controller found, until the work in progress has taken
/// them in. A response that is READY in the store is not generated again.
class FoundRows {
 public:
  void Add(uint64_t serial, store::v1::TrajectoryRow row) {
    const uint64_t id = row.id();
    rows_[id] = {serial, std::move(row)};
  }
  void Clear() { rows_.clear(); }
  bool empty() const { return rows_.empty(); }

  /// The response for `made` that an earlier controller stored; nullopt: there is none, or it
  /// responds to another prompt. `wanted`: the score nodes that make it READY.
  std::optional<TrajectoryInfo> Recall(const TrajectoryInfo& made, uint64_t wanted) const {
    const auto found = rows_.find(made.id);
    if (found == rows_.end()) return std::nullopt;
    const auto& [serial, row] = found->second;
    // The data may have changed while the controller was away; then this prompt index is another
    // prompt.
    const bool same = row.purpose() == made.purpose && row.prompt_index() == made.prompt_index &&
                      row.sample() == made.sample && row.prompt_id() == made.prompt_id;
    if (!same) return std::nullopt;
    return FromRow(row, serial, wanted);
  }
  /// Forgets the rows of that purpose. Returns their serials.
  std::vector<uint64_t> Take(v1::Purpose purpose) {
    std::vector<uint64_t> serials;
    for (auto it = rows_.begin(); it != rows_.end();) {
      if (it->second.row.purpose() != purpose) {
        ++it;
        continue;
      }
      serials.push_back(it->second.serial);
      it = rows_.erase(it);
    }
    return serials;
  }
  std::set<uint64_t> Serials() const {
    std::set<uint64_t> serials;
    for (const auto& [id, found] : rows_) serials.insert(found.serial);
    return serials;
  }

 private:
  struct Row {
    uint64_t serial = 0;
    store::v1::TrajectoryRow row;
  };
  std::map<uint64_t, Row> rows_;  // by id
};

/// The batch of the step in progress, once it is built.
///
/// Owns the runtime's report of it (BatchBuilt).
///
///   none --Built--> built --the update leaves--> trained on --Clear: the step ends--> none
class CurrentBatch {
 public:
  void Built(BatchBuilt event, absl::Time now) {
    event_ = std::move(event);
    at_ = now;
  }
  /// The step ends, or the batch is given up. Its size and its metrics stay known until the next
  /// batch is built.
  void Clear() {
    event_.column_hashes.clear();
    event_.algorithm.clear();
  }

  /// Responses in it.
  uint32_t size() const { return event_.size; }
  absl::Time built_at() const { return at_; }
  const std::map<std::string, double>& metrics() const { return event_.metrics; }
  /// Column hashes of each response in the batch, by id.
  const std::map<uint64_t, std::vector<uint64_t>>& column_hashes() const {
    return event_.column_hashes;
  }
  /// Takes the algorithm's state after the batch's step. Called once, when the step is done.
  std::map<std::string, double> TakeAlgorithm() { return std::exchange(event_.algorithm, {}); }

 private:
  BatchBuilt event_;
  absl::Time at_;
};

/// The responses whose rows are kept, by trajectory: READY ones, those that a batch consumed, and
/// those that were dropped.
///
/// A response may be made again: the job went back to a checkpoint, its group was dropped, or an
/// evaluation uses the same prompts. The random numbers of a response depend only on its prompt
/// index and its sample, so the earlier response is a good guess at the new one: the controller
/// sends it along as Generate.draft_tokens. As far as both agree, the response is made at the speed
/// of a prefill. No token depends on the guess.
///
/// Derived: a restarted controller fills it from the rows that it finds.
class EarlierResponses {
 public:
  /// The response has a row, and its payload is in the log.
  void Note(const TrajectoryInfo& trajectory) {
    responses_[trajectory.id] = {
        trajectory.serial, trajectory.prompt_id, {trajectory.location, trajectory.tokens}};
  }
  /// Rows below `serial` are not kept any more, nor are the files that held their payloads.
  void Retire(uint64_t serial) {
    for (auto it = responses_.begin(); it != responses_.end();) {
      it = it->second.serial < serial ? responses_.erase(it) : std::next(it);
    }
  }
  /// The earlier response for the same prompt index and sample; without tokens: none is kept.
  EarlierResponse Of(const TrajectoryInfo& trajectory) const {
    const auto found = responses_.find(trajectory.id);
    // The data may have changed while the controller was away.
    const bool same = found != responses_.end() &&
                      found->second.prompt_id == trajectory.prompt_id &&
                      found->second.response.location.file != 0;
    return same ? found->second.response : EarlierResponse();
  }

 private:
  struct Kept {
    uint64_t serial = 0;
    uint64_t prompt_id = 0;
    EarlierResponse response;
  };
  std::map<uint64_t, Kept> responses_;  // by id
};

/// Bytes of the payloads that the work in progress holds, by how far their trajectories are.
struct PayloadBytes {
  uint64_t scoring = 0;  ///< Some score is missing.
  uint64_t ready = 0;    ///< Nothing is missing, and no batch has it.
  uint64_t batched = 0;  ///< In the batch that is built.
  uint64_t total() const { return scoring + ready + batched; }
};

class ExperienceBuffer {
 public:
  using Trajectories = std::map<uint64_t, TrajectoryInfo>;  ///< By id.
  using Metrics = std::map<std::string, double>;
  static constexpr uint64_t kNoSerial = ~uint64_t{0};

  void Restore(const store::v1::JobRow& row);
  void Save(store::v1::JobRow* row) const;

  // ---- Rows.
  /// A row that a restarted controller found. It counts if `current`: it belongs to the step or the
  /// evaluation in progress.
  void NoteFound(uint64_t serial, const store::v1::TrajectoryRow& row, bool current);
  /// The found rows that belong to the work, until it has taken them in.
  FoundRows& found() { return found_; }
  const FoundRows& found() const { return found_; }
  /// The evaluation after that step is given up: its rows are dropped.
  void DropEvaluation(int64_t step, EffectSink& out);
  /// The work of that purpose is given up before it has taken in its found rows.
  void DropFound(v1::Purpose purpose, EffectSink& out);
  /// Responses whose rows are kept, in case they are made again.
  const EarlierResponses& earlier() const { return earlier_; }
  /// The same rows, by prompt.
  const PromptHistory& history() const { return history_; }
  /// The job has ended; its history is only in the store.
  void ForgetHistory() { history_ = PromptHistory(); }
  /// A new response: its row gets a serial.
  void PutNew(TrajectoryInfo& trajectory, EffectSink& out);
  /// The row of a response changed.
  void Put(const TrajectoryInfo& trajectory, EffectSink& out);
  /// The response is lost: its row and its payload are dropped.
  void Drop(const TrajectoryInfo& trajectory, EffectSink& out);

  // ---- Steps.
  /// The next step begins. Steps beyond the newest `most` are retired; with `keeps_all` their
  /// payloads and batches stay. `oldest`: the smallest serial of the trajectories in the work;
  /// steps whose rows may be among these are not retired.
  void BeginStep(size_t most, bool keeps_all, uint64_t oldest, EffectSink& out);
  /// The job went back: rows of later steps are dropped, and `algorithm` is restored. Rows of the
  /// work, `live`, stay, and so do those of evaluations of steps that are not undone, as far as
  /// this controller put them or found them. `keeps_all` as for BeginStep. `spans_steps`: responses
  /// of the work may be older than the steps that are undone.
  void RollBack(const Trajectories& live, bool spans_steps, Metrics algorithm, bool keeps_all,
                EffectSink& out);
  /// The work in progress ends, consumed or not; its payloads are not needed in memory any more.
  void EndWork(const Trajectories& trajectories, EffectSink& out);

  // ---- What a batch takes out of the work.
  void Take(Trajectories group) { taken_.merge(group); }
  /// The batch is given up: its trajectories go back.
  Trajectories GiveBack();
  /// The step is done: payloads of its batch are not needed in memory any more.
  void EndBatch(EffectSink& out);
  const Trajectories& taken() const { return taken_; }

  // ---- The batch.
  /// Asks for the batch of these trajectories, all READY. Trajectories without a reward are left
  /// out, and so are groups that have fewer than `least` with one. `held_out`: see BuildBatch.
  /// `recorded`: kNot, or kCompare.
  void Build(const Trajectories& trajectories, const v1::JobSpec& spec, uint32_t least,
             uint64_t held_out, Recorded recorded, EffectSink& out) const;
  /// Asks for the batch that the step's BatchRow names.
  void Replay(const v1::JobSpec& spec, EffectSink& out) const;
  /// The updates on the batch leave with this turn, and its row goes with it. `trajectories`,
  /// `least`: as they were for Build. RESOURCE_EXHAUSTED: the row would have more than `max_bytes`,
  /// and no store would take it.
  absl::Status PutRow(const Trajectories& trajectories, uint32_t least, int64_t max_bytes,
                      EffectSink& out);
  CurrentBatch& batch() { return batch_; }
  const CurrentBatch& batch() const { return batch_; }
  /// Counts the responses and columns of `trajectories`, those of the work in progress, anew.
  PayloadBytes bytes_held(const Trajectories& trajectories) const;
  /// The update is done: the algorithm's new state counts from now on.
  void Consume() { algorithm_ = batch_.TakeAlgorithm(); }
  /// The algorithm's state that is carried from step to step: "kl_coef", "lambda".
  const Metrics& algorithm() const { return algorithm_; }

 private:
  struct KeptStep {
    int64_t step = 0;
    uint64_t first_serial = 0;
    FileRanges files;  // of the experience log, that it needs
  };
  /// The newest kept step needs the payload of that row.
  void Need(const TrajectoryInfo& trajectory);
  void Need(uint32_t file);
  /// Deletes the files that no kept step needs.
  void DropFiles(EffectSink& out) const;

  /// Forgets the rows from `first` on, except `spared`.
  void DropOthers(uint64_t first, const std::set<uint64_t>& spared, EffectSink& out) const;

  uint64_t next_serial_ = 1;
  uint64_t oldest_serial_ = 0;               // of the work, as of when the step began; 0: none
  std::map<uint64_t, int64_t> evaluations_;  // rows of evaluations: the step of each serial
  std::vector<KeptStep> kept_;               // oldest first
  uint32_t newest_file_ = 0;  // of the experience log, as far as rows of this controller say
  FoundRows found_;           // until the work in progress ends
  EarlierResponses earlier_;
  PromptHistory history_;
  Metrics algorithm_;
  CurrentBatch batch_;
  Trajectories taken_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_EXPERIENCE_BUFFER_H_
