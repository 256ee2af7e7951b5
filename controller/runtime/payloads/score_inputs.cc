#include "controller/runtime/payloads/score_inputs.h"

#include <algorithm>
#include <string>

#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {
namespace {

bool ReadsTokensAlone(const v1::ScoreNode& node) {
  if (node.method() == "compute_log_prob") {
    return node.role() == roles::kActor || node.role() == roles::kReference;
  }
  return node.method() == "compute_values" &&
         (node.role() == roles::kCritic || node.role() == roles::kCostCritic);
}

bool ReadsColumn(const v1::ScoreNode& node, bool tokens_alone, const std::string& name) {
  if (name == "prompt_tokens" || name == "tokens") return true;
  if (name == "rollout_log_prob" && !tokens_alone) return true;
  return std::find(node.inputs().begin(), node.inputs().end(), name) != node.inputs().end();
}

void CopyNames(const v1::Trajectory& from, v1::Trajectory* to) {
  to->set_trajectory_id(from.trajectory_id());
  to->set_purpose(from.purpose());
  to->set_prompt_id(from.prompt_id());
  to->set_sample_index(from.sample_index());
  to->set_policy_version(from.policy_version());
  *to->mutable_segments() = from.segments();
}

void CopyTexts(const v1::Trajectory& from, v1::Trajectory* to) {
  to->set_group_id(from.group_id());
  to->set_finish_reason(from.finish_reason());
  to->set_prompt_text(from.prompt_text());
  to->set_rendered_prompt(from.rendered_prompt());
  *to->mutable_messages() = from.messages();
  to->set_tools_json(from.tools_json());
  to->set_chat_template_kwargs_json(from.chat_template_kwargs_json());
  to->set_prompt_suffix(from.prompt_suffix());
  to->set_response_text(from.response_text());
  to->set_answer(from.answer());
  to->set_unanswered(from.unanswered());
  to->set_source(from.source());
}

}  // namespace

v1::Trajectory ScoreInputs(const v1::Trajectory& payload,
                           const std::map<std::string, double>& scores, const v1::ScoreNode& node) {
  const bool tokens_alone = ReadsTokensAlone(node);
  v1::Trajectory inputs;
  CopyNames(payload, &inputs);
  if (!tokens_alone) {
    CopyTexts(payload, &inputs);
    inputs.mutable_scores()->insert(scores.begin(), scores.end());
  }
  for (const v1::Column& column : payload.columns()) {
    if (ReadsColumn(node, tokens_alone, column.name())) *inputs.add_columns() = column;
  }
  return inputs;
}

}  // namespace baton::controller
