#include "controller/core/job/trajectory.h"

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {
// An id is purpose (8 bits), 0 (8 bits: the score node in a WorkId), ordinal (48 bits).
constexpr int kPurposeShift = 56;
constexpr int kNodeShift = 48;  // ordinals are smaller
constexpr uint64_t kNodeBits = uint64_t{0xff} << kNodeShift;
}  // namespace

uint64_t WorkId(uint64_t trajectory, uint32_t node) {
  return trajectory | uint64_t{node} << kNodeShift;
}

uint32_t NodeOf(uint64_t work) { return static_cast<uint32_t>((work & kNodeBits) >> kNodeShift); }

uint64_t TrajectoryOf(uint64_t work) { return work & ~kNodeBits; }

uint64_t TrajectoryId(v1::Purpose purpose, uint64_t prompt_index, uint32_t sample, uint32_t n) {
  return (static_cast<uint64_t>(purpose) << kPurposeShift) | (prompt_index * n + sample);
}

v1::Purpose PurposeOf(uint64_t id) { return static_cast<v1::Purpose>(id >> kPurposeShift); }

int64_t StepOf(v1::Purpose purpose, int64_t done) {
  return purpose == v1::PURPOSE_EVAL ? done : done + 1;
}

uint64_t PromptKey(const TrajectoryInfo& info) { return PromptKey(info.purpose, info.prompt_id); }

uint64_t PromptKey(v1::Purpose purpose, uint64_t prompt_id) {
  return prompt_id << 1 | (purpose == v1::PURPOSE_EVAL ? 1 : 0);
}

uint64_t TrainPromptKey(uint64_t prompt_id) { return PromptKey(v1::PURPOSE_TRAIN, prompt_id); }

std::string TrajectoryName(uint64_t id) {
  const uint64_t ordinal = id & ((uint64_t{1} << kPurposeShift) - 1);
  switch (PurposeOf(id)) {
    case v1::PURPOSE_TRAIN:
      return absl::StrCat("train-", ordinal);
    case v1::PURPOSE_EVAL:
      return absl::StrCat("eval-", ordinal);
    case v1::PURPOSE_BASELINE:
      return absl::StrCat("baseline-", ordinal);
    default:
      return absl::StrCat("lookahead-", ordinal);
  }
}

TaskRef GenerateRef(const TrajectoryInfo& info) {
  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  ref.subject = info.id;
  ref.attempt = info.attempt;
  ref.trajectory_uid = info.trajectory_uid;
  ref.version = info.policy_version;
  ref.prompt = info.prompt_id;
  return ref;
}

TaskRef ScoreRef(const TrajectoryInfo& info, uint32_t node) {
  TaskRef ref;
  ref.kind = TaskKind::kScore;
  ref.subject = info.id;
  ref.target = node;
  ref.attempt = info.tries[node].attempt;
  ref.trajectory_uid = info.trajectory_uid;
  return ref;
}

// The part of other responses that a node over a group gets: no text and no tokens, only scores.
v1::Trajectory ScoresOf(const TrajectoryInfo& info) {
  v1::Trajectory out;
  out.set_trajectory_id(TrajectoryName(info.id));
  out.set_sample_index(info.sample);
  out.set_finish_reason(info.finish_reason);
  for (const auto& [name, value] : info.scores) (*out.mutable_scores())[name] = value;
  return out;
}

store::v1::TrajectoryRow ToRow(const TrajectoryInfo& info, int64_t step, uint64_t incarnation) {
  store::v1::TrajectoryRow row;
  row.set_id(info.id);
  row.set_step(step);
  row.set_incarnation(incarnation);
  row.set_purpose(info.purpose);
  row.set_prompt_index(info.prompt_index);
  row.set_sample(info.sample);
  row.set_prompt_id(info.prompt_id);
  row.set_policy_version(info.policy_version);
  row.set_tokens(info.tokens);
  row.set_prompt_tokens(info.prompt_tokens);
  row.set_scored_nodes(info.scored);
  for (const auto& [name, value] : info.scores) (*row.mutable_scores())[name] = value;
  row.set_error(info.error);
  row.set_infra_failed(info.failed != 0);
  row.set_failed_nodes(info.failed);
  row.set_losses(info.losses);
  row.set_trajectory_uid(info.trajectory_uid);
  row.set_finish_reason(info.finish_reason);
  row.set_file(info.location.file);
  row.set_offset(info.location.offset);
  row.set_size(info.location.size);
  for (const auto& [node, location] : info.columns) {
    store::v1::ColumnsRow* columns = row.add_columns();
    columns->set_node(node);
    columns->set_file(location.file);
    columns->set_offset(location.offset);
    columns->set_size(location.size);
  }
  return row;
}

TrajectoryInfo FromRow(const store::v1::TrajectoryRow& row, uint64_t serial, uint64_t wanted) {
  TrajectoryInfo info;
  info.id = row.id();
  info.purpose = row.purpose();
  info.prompt_index = row.prompt_index();
  info.sample = row.sample();
  info.prompt_id = row.prompt_id();
  info.policy_version = row.policy_version();
  info.incarnation = row.incarnation();
  info.tokens = row.tokens();
  info.prompt_tokens = row.prompt_tokens();
  info.scored = row.scored_nodes();
  for (const auto& [name, value] : row.scores()) info.scores[name] = value;
  info.failed = row.failed_nodes();
  info.losses = row.losses();
  info.trajectory_uid = row.trajectory_uid();
  info.error = row.error();
  info.finish_reason = row.finish_reason();
  info.location = {row.file(), row.offset(), row.size()};
  for (const store::v1::ColumnsRow& columns : row.columns()) {
    info.columns[columns.node()] = {columns.file(), columns.offset(), columns.size()};
  }
  // The payload was logged before its row was put, so it is not generated again.
  info.serial = serial;
  info.state = (wanted & ~info.scored) == 0 ? TrajectoryState::kReady : TrajectoryState::kScoring;
  return info;
}

}  // namespace baton::controller
