#include "controller/runtime/payloads/make_payload.h"

#include "absl/strings/str_cat.h"

namespace baton::controller {

const Example* FindExample(const TrajectoryInfo& info, const DataSet* train, const DataSet* val) {
  const DataSet* const data = info.purpose == v1::PURPOSE_EVAL ? val : train;
  if (data == nullptr || info.prompt_id >= data->examples.size()) return nullptr;
  return &data->examples[info.prompt_id];
}

v1::Trajectory MakePayload(const TrajectoryInfo& info, const Example* example) {
  v1::Trajectory payload;
  payload.set_trajectory_id(TrajectoryName(info.id));
  payload.set_group_id(absl::StrCat("group-", info.prompt_index));
  payload.set_purpose(info.purpose);
  payload.set_prompt_id(info.prompt_id);
  payload.set_sample_index(info.sample);
  payload.set_policy_version(info.policy_version);
  if (example != nullptr) {
    SetPrompt(*example, &payload);
    payload.set_answer(example->answer);
    payload.set_unanswered(!example->has_answer);
    payload.set_source(example->source);
  }
  return payload;
}

v1::Trajectory MakeExample(const TrajectoryInfo& info, const Example* example) {
  v1::Trajectory trajectory = MakePayload(info, example);
  if (example == nullptr) return trajectory;
  SetResponse(*example, &trajectory);
  return trajectory;
}

}  // namespace baton::controller
