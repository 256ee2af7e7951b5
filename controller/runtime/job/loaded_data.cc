#include "controller/runtime/job/loaded_data.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/runtime/payloads/make_payload.h"

namespace baton::controller {
namespace {

DataLoaded EventOf(const JobData& read) {
  DataLoaded loaded;
  if (!read.problems.empty()) {
    loaded.status = absl::InvalidArgumentError(
        absl::StrCat("the data cannot be used:\n  ", absl::StrJoin(read.problems, "\n  ")));
  }
  loaded.train_size = read.train->examples.size();
  loaded.val_size = read.val->examples.size();
  loaded.train_file_sizes = read.train->file_sizes;
  for (const Example& example : read.val->examples) loaded.val_sources.push_back(example.source);
  const std::vector<Example>& train = read.train->examples;
  loaded.train_sources = SeriesOfSources(
      train.size(), [&train](size_t i) -> const std::string& { return train[i].source; });
  return loaded;
}

}  // namespace

void LoadedData::Load(const LoadData& effect) {
  const v1::JobSpec spec = scope_->core.effective_spec();
  const auto read = [this, spec, held = effect.held, reading = ++reading_,
                     restoring = scope_->restoring] {
    // Only while restoring: later, a job may read its files for longer than it works, so a crash
    // then would say nothing about the job.
    const auto mark = restoring ? scope_->files->MarkWork() : nullptr;
    const absl::StatusOr<JobData> data = scope_->files->ReadData(spec, held);
    if (!data.ok()) {
      return threads_->OnStrand(
          [this, reading, waits = DataWaits{std::string(data.status().message())}] {
            if (!IsTerminal(scope_->core.state()) && reading == reading_) scope_->run(waits);
          });
    }
    const auto loaded = std::make_shared<const DataLoaded>(EventOf(*data));
    threads_->OnStrand([this, reading, loaded, data = *data] {
      if (IsTerminal(scope_->core.state()) || reading != reading_) return;
      train_ = data.train;
      val_ = data.val;
      pretrain_ = data.pretrain;
      scope_->run(*loaded);
    });
  };
  threads_->OnDataReaders(spec.data(), read);
}

void LoadedData::StopReading() {
  ++reading_;
  Drop();
}

const Example* LoadedData::Of(const TrajectoryInfo& info) const {
  return FindExample(info, train_.get(), val_.get());
}

}  // namespace baton::controller
