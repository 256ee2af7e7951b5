// jobs prune: deletes jobs that ended long ago.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/shared/lifetime.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/messages/times.h"

namespace baton::cli {
namespace {

struct PruneFlags {
  std::string older_than;
  int64_t keep = 0;
  bool dry_run = false, yes = false;
};

struct EndedJob {
  std::string name, state;
  absl::Time end;
};

// The jobs to delete, the newest first. The newest `keep` stay, whatever their age.
std::vector<EndedJob> ChooseOld(const std::vector<v1::Job>& jobs, absl::Time before, int64_t keep) {
  std::vector<EndedJob> ended;
  for (const v1::Job& job : jobs) {
    const auto& end = job.has_end_time() ? job.end_time() : job.create_time();
    ended.push_back({job.name(), v1::Job::State_Name(job.state()).substr(6), FromProto(end)});
  }
  std::stable_sort(ended.begin(), ended.end(),
                   [](const EndedJob& a, const EndedJob& b) { return a.end > b.end; });
  ended.erase(ended.begin(), ended.begin() + std::min<int64_t>(keep, std::ssize(ended)));
  ended.erase(std::remove_if(ended.begin(), ended.end(),
                             [before](const EndedJob& job) { return job.end >= before; }),
              ended.end());
  return ended;
}

int Prune(const GlobalOptions& options, const PruneFlags& flags) {
  const auto age = ParseLifetime("--older-than", flags.older_than);
  if (!age.ok()) return Fail(options, age.status());
  auto client = MakeClient(options);
  const auto jobs =
      client->ListJobs({v1::Job::STATE_SUCCEEDED, v1::Job::STATE_FAILED, v1::Job::STATE_CANCELLED});
  if (!jobs.ok()) return Fail(options, jobs.status());
  const std::vector<EndedJob> old = ChooseOld(*jobs, absl::Now() - absl::Seconds(*age), flags.keep);
  const bool deletes = flags.yes && !flags.dry_run;
  v1::ListJobsResponse done;
  Table table({"JOB", "STATE", "ENDED"});
  for (const EndedJob& job : old) {
    if (deletes) {
      const absl::Status deleted = client->DeleteJob(job.name);
      // Another user deleted or resumed it meanwhile, so it need not be deleted any more.
      if (absl::IsNotFound(deleted) || absl::IsFailedPrecondition(deleted)) continue;
      if (!deleted.ok()) return Fail(options, deleted);
    }
    done.add_jobs()->set_name(job.name);
    table.Add({ShortJobName(job.name), job.state,
               absl::StrCat(ShortDuration(absl::ToDoubleSeconds(absl::Now() - job.end)), " ago")});
  }
  if (options.json()) {
    std::printf("%s\n", ToJson(done).c_str());
  } else if (old.empty()) {
    std::printf("no job ended longer ago than %s\n", flags.older_than.c_str());
  } else {
    std::printf("%s\n%d %s %s\n", table.Format().c_str(), done.jobs_size(),
                done.jobs_size() == 1 ? "job" : "jobs",
                deletes ? "deleted, with files" : "would be deleted, with files");
  }
  if (deletes || flags.dry_run || old.empty()) return kOk;
  std::fprintf(stderr, "nothing is deleted yet; add --yes to delete them\n");
  return kUsage;
}

}  // namespace

void AddPruneCommand(CLI::App* jobs, GlobalOptions* options, int* code) {
  auto* prune = jobs->add_subcommand("prune", "Delete jobs that ended long ago, with their files");
  AddOutput(prune, options);
  auto f = std::make_shared<PruneFlags>();
  prune->add_option("--older-than", f->older_than, "Since their end, e.g. 90m, 12h or 30d")
      ->required();
  prune->add_option("--keep", f->keep, "Keep so many of the newest in any case")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  prune->add_flag("--dry-run", f->dry_run, "Only list them");
  prune->add_flag("--yes", f->yes, "Delete them; without it they are only listed");
  prune->callback([=] { *code = Prune(*options, *f); });
}

}  // namespace baton::cli
