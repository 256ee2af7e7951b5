#include "workers/policy/sequences.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/columns.h"
#include "workers/policy/chat_messages.h"
#include "workers/policy/trajectory_columns.h"

namespace baton::policy {
namespace {

/// Masks the response tokens that the policy did not sample.
std::vector<uint8_t> MakeMask(const v1::Trajectory& trajectory, int64_t prompt_length,
                              int64_t response_length) {
  std::vector<uint8_t> mask;
  for (const v1::Segment& segment : trajectory.segments()) {
    if (segment.kind() != v1::Segment::KIND_ENVIRONMENT) continue;
    if (mask.empty()) mask.assign(static_cast<size_t>(response_length), 1);
    const int64_t begin = std::max<int64_t>(0, int64_t{segment.begin()} - prompt_length);
    const int64_t end = std::min<int64_t>(response_length, int64_t{segment.end()} - prompt_length);
    for (int64_t i = begin; i < end; ++i) mask[static_cast<size_t>(i)] = 0;
  }
  return mask;
}

bool IsPositive(const v1::Trajectory& trajectory) {
  auto score = trajectory.scores().find("accuracy");
  if (score == trajectory.scores().end()) score = trajectory.scores().find("reward");
  return score != trajectory.scores().end() && score->second > 0;
}

absl::StatusOr<std::vector<float>> ReadOptional(const v1::Trajectory& trajectory,
                                                absl::string_view name) {
  if (FindColumn(trajectory, name) == nullptr) return std::vector<float>();
  return ReadFloat(trajectory, name);
}

}  // namespace

absl::StatusOr<engine::TrainSequence> FromColumns(const v1::Trajectory& trajectory,
                                                  const ValueColumns& columns) {
  engine::TrainSequence sequence;
  BATON_ASSIGN_OR_RETURN(sequence.tokens, ReadInt32(trajectory, "prompt_tokens"));
  sequence.prompt_length = static_cast<int64_t>(sequence.tokens.size());
  BATON_ASSIGN_OR_RETURN(const auto response, ReadInt32(trajectory, "tokens"));
  sequence.tokens.insert(sequence.tokens.end(), response.begin(), response.end());
  BATON_ASSIGN_OR_RETURN(sequence.behaviour_log_probs,
                         ReadOptional(trajectory, "rollout_log_prob"));
  BATON_ASSIGN_OR_RETURN(sequence.old_log_probs, ReadOptional(trajectory, "old_log_prob"));
  BATON_ASSIGN_OR_RETURN(auto sampling, ReadOptional(trajectory, "sampling_log_prob"));
  if (!sampling.empty()) {
    if (sequence.old_log_probs.empty()) sequence.old_log_probs = sequence.behaviour_log_probs;
    sequence.behaviour_log_probs = std::move(sampling);
  }
  BATON_ASSIGN_OR_RETURN(sequence.ref_log_probs, ReadOptional(trajectory, "ref_log_prob"));
  BATON_ASSIGN_OR_RETURN(sequence.advantages, ReadOptional(trajectory, "advantages"));
  BATON_ASSIGN_OR_RETURN(sequence.values, ReadOptional(trajectory, columns.values));
  BATON_ASSIGN_OR_RETURN(sequence.returns, ReadOptional(trajectory, columns.returns));
  sequence.loss_mask =
      MakeMask(trajectory, sequence.prompt_length, static_cast<int64_t>(response.size()));
  sequence.positive = IsPositive(trajectory);
  return sequence;
}

engine::TrainSequence FromHeader(const v1::Trajectory& header) {
  engine::TrainSequence sequence;
  for (const v1::Segment& segment : header.segments()) {
    if (segment.kind() == v1::Segment::KIND_PROMPT) sequence.prompt_length = segment.end();
    sequence.remote_length = std::max<int64_t>(sequence.remote_length, segment.end());
  }
  sequence.loss_mask = MakeMask(header, sequence.prompt_length, sequence.response_length());
  sequence.positive = IsPositive(header);
  return sequence;
}

bool IsSampled(const v1::Trajectory& trajectory) {
  return FindColumn(trajectory, "tokens") != nullptr || !trajectory.segments().empty();
}

absl::StatusOr<engine::TrainSequence> FromTexts(const v1::Trajectory& trajectory,
                                                const v1::DataSpec& data,
                                                const PolicySource& source, bool ends) {
  BATON_ASSIGN_OR_RETURN(
      const Prompt prompt,
      RenderPromptOf(source, trajectory.messages(), trajectory.prompt_text(),
                     trajectory.tools_json(), trajectory.chat_template_kwargs_json()));
  BATON_ASSIGN_OR_RETURN(Demonstration said,
                         EncodeResponse(source, prompt, trajectory.response_text(),
                                        trajectory.response_messages(), data, ends));
  engine::TrainSequence sequence;
  sequence.tokens = std::move(said.prompt);
  sequence.prompt_length = static_cast<int64_t>(sequence.tokens.size());
  sequence.tokens.insert(sequence.tokens.end(), said.response.begin(), said.response.end());
  sequence.loss_mask = std::move(said.mask);
  sequence.pretraining = true;
  sequence.cut = said.cut;
  return sequence;
}

absl::StatusOr<std::vector<engine::TrainSequence>> MakeTrainBatch(
    absl::Span<const v1::Trajectory> trajectories, const v1::DataSpec& data,
    const PolicySource& source, const ValueColumns& columns) {
  std::vector<engine::TrainSequence> batch;
  batch.reserve(trajectories.size());
  for (const v1::Trajectory& trajectory : trajectories) {
    absl::StatusOr<engine::TrainSequence> sequence;
    if (FindColumn(trajectory, "tokens") != nullptr) {
      sequence = FromColumns(trajectory, columns);
    } else if (IsSampled(trajectory)) {
      sequence = FromHeader(trajectory);
    } else {
      sequence = FromTexts(trajectory, data, source);
    }
    if (!sequence.ok()) {
      return Annotate(sequence.status(), absl::StrCat("trajectory ", trajectory.trajectory_id(),
                                                      " (prompt ", trajectory.prompt_id(), ")"));
    }
    sequence->row = static_cast<int64_t>(batch.size());
    batch.push_back(*std::move(sequence));
  }
  return batch;
}

}  // namespace baton::policy
