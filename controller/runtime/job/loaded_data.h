// The data sets that a job works with, once their files are read.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_LOADED_DATA_H_
#define BATON_CONTROLLER_RUNTIME_JOB_LOADED_DATA_H_

#include <cstdint>
#include <memory>

#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "sdk/common/data_set/data_set.h"

namespace baton::controller {

/// On the job's strand; the files are read on the threads of data readers.
class LoadedData {
 public:
  LoadedData(const JobScope* scope, JobThreads* threads) : scope_(scope), threads_(threads) {}

  /// Reads the files of the job's spec, then tells the core DataLoaded, or DataWaits.
  void Load(const LoadData& effect);
  /// Drops the sets, also those that are being read.
  void StopReading();
  void Drop() { train_ = val_ = pretrain_ = nullptr; }

  /// The example of the trajectory's prompt; null: there is none.
  const Example* Of(const TrajectoryInfo& info) const;
  /// Null: not read yet.
  const std::shared_ptr<const DataSet>& train() const { return train_; }
  const std::shared_ptr<const DataSet>& val() const { return val_; }
  const std::shared_ptr<const DataSet>& pretrain() const { return pretrain_; }

 private:
  const JobScope* const scope_;
  JobThreads* const threads_;
  std::shared_ptr<const DataSet> train_, val_, pretrain_;
  uint64_t reading_ = 0;  // the newest one; what an older one read is dropped
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_LOADED_DATA_H_
