#include "controller/runtime/controller/replay_verdicts.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/replay_files.h"
#include "controller/spec/dataflow/replay.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr size_t kMostJudged = 256;  // verdicts in memory

}  // namespace

void ReplayVerdicts::Ask(const std::shared_ptr<JobRuntime>& job, Callback<v1::Replay> done) {
  if (const v1::Job now = job->Snapshot(); !Replays(now.dataflow())) {
    return done(MakeError(
        absl::StatusCode::kFailedPrecondition, "NOT_A_REPLAY",
        absl::StrCat("job '", now.name(), "' is no replay; `baton replay JOB` makes one")));
  }
  const std::string name = job->name();
  {
    absl::MutexLock lock(&mu_);
    std::vector<Callback<v1::Replay>>& waiting = judging_[name];
    waiting.push_back(std::move(done));
    if (waiting.size() > 1) return;  // the files are read once for all of them
  }
  const auto size = [this, job] {
    return FilesToJudge(JobFolderOf(data_root_, job->name()), job->Snapshot()).bytes;
  };
  readers_->Post(access::ProjectOf(name), size, [this, job, name] {
    const absl::StatusOr<v1::Replay> judged = Judge(*job);
    std::vector<Callback<v1::Replay>> waiting;
    {
      absl::MutexLock lock(&mu_);
      waiting = std::move(judging_.extract(name).mapped());
    }
    for (const Callback<v1::Replay>& answer : waiting) answer(judged);
  });
}

// On a thread that reads data. Reading takes as long as the checkpoints are large, and a caller may
// have gone: a later call gets the verdict if no file was changed since.
absl::StatusOr<v1::Replay> ReplayVerdicts::Judge(const JobRuntime& job) {
  const v1::Job now = job.Snapshot();
  const std::string folder = JobFolderOf(data_root_, now.name());
  const std::string state = absl::StrCat(now.uid(), " ", FilesToJudge(folder, now).state);
  {
    absl::MutexLock lock(&mu_);
    const auto known = judged_.find(now.name());
    if (known != judged_.end() && known->second.first == state) return known->second.second;
  }
  auto replay = JudgeReplay(folder, now, [this] { return gate_->closed(); });
  if (!replay.ok() || !IsTerminal(now.state())) return replay;
  absl::MutexLock lock(&mu_);
  if (judged_.size() >= kMostJudged) judged_.clear();
  judged_[now.name()] = {state, *replay};
  return replay;
}

}  // namespace baton::controller
