#include "controller/core/prompts/prompt_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

// A job may end and make room at any time. A try that finds no room usually reads no file, so it is
// cheap.
constexpr absl::Duration kRoomRetry = absl::Seconds(2);

// The files are read anew after each restart, and may have changed meanwhile.
absl::Status FitsMix(const DataLoaded& event, const v1::DataSpec& spec) {
  const std::vector<uint64_t>& sizes = event.train_file_sizes;
  if (spec.train_mix().empty()) return absl::OkStatus();
  if (sizes.size() != static_cast<size_t>(spec.train_mix_size())) {
    return absl::InvalidArgumentError(absl::StrCat("data.train_mix has ", spec.train_mix_size(),
                                                   " entries, and ", sizes.size(),
                                                   " files were read"));
  }
  for (size_t file = 0; file < sizes.size(); ++file) {
    if (sizes[file] > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.train_files[", file,
                     "] has no prompt, and data.train_mix draws from it; give the "
                     "file its prompts back"));
  }
  return absl::OkStatus();
}

}  // namespace

void PromptData::Load(bool held, EffectSink& out) {
  loading_ = true;
  wait_.clear();
  since_ = out.now();
  out.Do(LoadData{held});
}

void PromptData::Waits(const DataWaits& event, absl::Time now) {
  if (!loading_) return;
  wait_ = event.reason;
  retry_ = now + kRoomRetry;
}

void PromptData::Retry(EffectSink& out) {
  if (!loading_ || wait_.empty() || out.now() < retry_) return;
  retry_ = absl::InfiniteFuture();  // until the answer
  out.Do(LoadData{});
}

std::string PromptData::HasWaitedFor(absl::Time now, absl::Duration limit) const {
  return loading_ && now - since_ > limit ? wait_ : "";
}

absl::Status PromptData::Loaded(const DataLoaded& event, const v1::DataSpec& spec) {
  loading_ = false;
  wait_.clear();
  if (!event.status.ok()) return event.status;
  if (absl::Status fits = FitsMix(event, spec); !fits.ok()) return fits;
  loaded_ = true;
  prompts_ = spec.train_mix().empty() ? PromptMix(spec, {event.train_size})
                                      : PromptMix(spec, event.train_file_sizes);
  train_size_ = prompts_.size();
  val_sources_ = event.val_sources;
  train_sources_ = event.train_sources;
  return absl::OkStatus();
}

absl::Status PromptData::CheckDeadline(absl::Time now, absl::Duration limit) {
  if (!loading_ || !wait_.empty() || now - since_ <= limit) return absl::OkStatus();
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
  if (!wait_.empty()) {
    waits.Add("data", absl::StrCat("job ", job), wait_, since_, limit,
              "the job gives its workers back and queues again");
    return;
  }
  waits.Add("data", absl::StrCat("job ", job), "its data files to be read", since_, limit,
            "the job fails");
}

uint64_t PromptData::ValSize(const v1::DataSpec& spec) const {
  const auto limit = static_cast<uint64_t>(spec.val_max_samples());
  return limit == 0 ? val_sources_.size() : std::min<uint64_t>(limit, val_sources_.size());
}

}  // namespace baton::controller
