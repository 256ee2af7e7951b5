// The data files of one job.
//
// Owns whether the files are read, the map from prompt indices to prompts, and the sources of the
// validation prompts.
//
//   unread --Load--> loading --Loaded--> loaded
//      ^             |     ^               |
//      |             Waits |               |
//      |             v     a retry is due  |
//      |            waits--+               |
//      +--- a failure, or Forget ----------+
//
// The files are read anew after every restart of the controller, because the core keeps no text.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_DATA_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/prompts/prompt_mix.h"

namespace baton::controller {

class PromptData {
 public:
  /// Asks for the files. `held`: as LoadData says.
  void Load(bool held, EffectSink& out);
  /// Restores the number of prompts that the files had when they were read last.
  void Restore(const store::v1::JobRow& row) { train_size_ = row.train_size(); }
  /// The answer. Returns its status; INVALID_ARGUMENT: the files do not fit data.train_mix.
  absl::Status Loaded(const DataLoaded& event, const v1::DataSpec& spec);
  /// The answer while other jobs' data leave no room. Asks again after a while.
  void Waits(const DataWaits& event, absl::Time now);
  /// At each tick.
  void Retry(EffectSink& out);
  /// Forgets what was read.
  void Forget() {
    loaded_ = loading_ = false;
    wait_.clear();
  }

  bool loaded() const { return loaded_; }
  bool loading() const { return loading_; }

  /// "room for …" if the job has waited for room longer than `limit`; "" if not. Meanwhile the job
  /// holds workers that the jobs that use up the room may need.
  std::string HasWaitedFor(absl::Time now, absl::Duration limit) const;
  /// DEADLINE_EXCEEDED once loading has taken longer than `limit`; then it is given up.
  absl::Status CheckDeadline(absl::Time now, absl::Duration limit);
  /// Nothing could move for `duration`, so that time counts towards no deadline.
  void Delay(absl::Duration duration, absl::Time now);
  void Explain(const std::string& job, absl::Duration limit, WaitList& waits) const;

  /// The prompt of a prompt index. Data must be loaded.
  uint64_t PromptOf(uint64_t prompt_index) { return prompts_.At(prompt_index); }
  /// 0: they were never read.
  uint64_t train_size() const { return train_size_; }
  /// The map behind PromptOf; it knows the files of data.train_mix.
  const PromptMix& prompts() const { return prompts_; }
  /// Number of prompts of an evaluation; 0 before data is loaded.
  uint64_t ValSize(const v1::DataSpec& spec) const;
  bool validates() const { return !val_sources_.empty(); }
  /// One source per validation prompt.
  const std::vector<std::string>& val_sources() const { return val_sources_; }
  /// Of the training prompts.
  const SourceSeries& train_sources() const { return train_sources_; }

 private:
  bool loaded_ = false;
  bool loading_ = false;
  absl::Time since_;  // of loading
  std::string wait_;  // what for; "": it does not wait
  absl::Time retry_;  // of a wait
  PromptMix prompts_;
  uint64_t train_size_ = 0;
  std::vector<std::string> val_sources_;
  SourceSeries train_sources_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_DATA_H_
