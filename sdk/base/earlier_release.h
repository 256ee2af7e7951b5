// Jobs that an earlier release admitted, and what they mean by settings that have changed since.
#ifndef BATON_SDK_BASE_EARLIER_RELEASE_H_
#define BATON_SDK_BASE_EARLIER_RELEASE_H_

namespace baton {

/// Whether a release made an effective spec that had no chat templates of models and read fewer
/// keys of data files. `data`: spec.data of an effective spec. Later releases fill in
/// data.filter_overlong_prompts, whatever the user gives.
template <class DataSpec>
bool OfEarlierRelease(const DataSpec& data) {
  return !data.has_filter_overlong_prompts();
}

/// What AssignRole.spec says as a model's chat_template where such a job has `none`: the contents
/// of a prompt's messages are joined with nothing between, as that release did. Only workers with
/// the feature chat_templates are told so: others do it under `none`. Users cannot choose it.
inline constexpr char kJoinedMessages[] = "joined";

}  // namespace baton

#endif  // BATON_SDK_BASE_EARLIER_RELEASE_H_
