#include "controller/core/prompt_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::controller {

void PromptData::Load(EffectSink& out) {
  loading_ = true;
  since_ = out.now();
  out.Do(LoadData{});
}

absl::Status PromptData::Loaded(const DataLoaded& event, const v1::DataSpec& spec) {
  loading_ = false;
  if (!event.status.ok()) return event.status;
  loaded_ = true;
  prompts_ = PromptSource(event.train_size, static_cast<uint64_t>(spec.seed()), spec.shuffle());
  val_sources_ = event.val_sources;
  return absl::OkStatus();
}

absl::Status PromptData::CheckDeadline(absl::Time now, absl::Duration limit) {
  if (!loading_ || now - since_ <= limit) return absl::OkStatus();
  loading_ = false;  // or each tick would fail the job again
  return absl::DeadlineExceededError(absl::StrCat("the data files were not read within ",
                                                  absl::FormatDuration(limit),
                                                  "; check the disk of the data root"));
}

void PromptData::Delay(absl::Duration duration, absl::Time now) {
  DelayTime(duration, now, since_);
}

void PromptData::Explain(const std::string& job, absl::Duration limit, WaitList& waits) const {
  if (!loading_) return;
  waits.Add("data", absl::StrCat("job ", job), "its data files to be read", since_, limit,
            "the job fails");
}

uint64_t PromptData::ValSize(const v1::DataSpec& spec) const {
  const auto limit = static_cast<uint64_t>(spec.val_max_samples());
  return limit == 0 ? val_sources_.size() : std::min<uint64_t>(limit, val_sources_.size());
}

}  // namespace baton::controller
