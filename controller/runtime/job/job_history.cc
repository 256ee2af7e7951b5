#include "controller/runtime/job/job_history.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/job_spec/same_prompts.h"
#include "controller/spec/settings/check_speculation.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr int kMostHistoryPrompts = 256;
constexpr size_t kMostResponses = 64;  // to one prompt
// If the job itself has this many responses to a prompt, nothing else is looked up; a group often
// has as many.
constexpr size_t kEnoughResponses = 8;

absl::Status CheckHistoryPrompts(const v1::FetchHistoryRequest& request) {
  const int prompts = request.prompts_size();
  if (prompts > 0 && prompts <= kMostHistoryPrompts) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, "HISTORY_PROMPTS",
      absl::StrCat(prompts, " prompts are asked for; ask for 1 to ", kMostHistoryPrompts));
}

}  // namespace

/// The answer to one call, as far as it is known.
struct JobHistory::Call {
  Job job;
  Done done;
  int64_t max_bytes = 0;
  std::shared_ptr<void> place;
  std::vector<uint64_t> keys;                // of the prompts, each once
  std::vector<HistoryPart::Prompt> prompts;  // as keys
  uint64_t first_known = 0;                  // serial of the core's first row; 0: it has none

  bool LacksSome() const {
    return std::any_of(prompts.begin(), prompts.end(), [](const HistoryPart::Prompt& prompt) {
      return prompt.size() < kEnoughResponses;
    });
  }
};

JobHistory::JobHistory(const RuntimeContext* context, std::string name, std::string uid,
                       std::shared_ptr<const v1::Job> submitted)
    : context_(context),
      name_(std::move(name)),
      uid_(std::move(uid)),
      submitted_(std::move(submitted)) {}

std::string JobHistory::Capability() const {
  return Mac(context_->secret, {"FetchHistory", name_, uid_});
}

void JobHistory::Fetch(const v1::FetchHistoryRequest& request, bool ended,
                       const PromptHistory& known, Job job, Done done) {
  if (!SameSecret(request.capability(), Capability())) {
    return done(MakeError(absl::StatusCode::kPermissionDenied, "CAPABILITY",
                          "this capability is not for the history of this job"));
  }
  if (ended) {
    return done(MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
                          absl::StrCat("job '", name_, "' has ended")));
  }
  if (absl::Status checked = CheckHistoryPrompts(request); !checked.ok()) return done(checked);
  if (*served_ >= kMostCalls) {
    return done(MakeError(absl::StatusCode::kResourceExhausted, "HISTORY_BUSY",
                          absl::StrCat(kMostCalls, " calls for the history of job '", name_,
                                       "' are being served; try again later")));
  }
  const auto call = std::make_shared<Call>();
  ++*served_;
  call->place = std::shared_ptr<void>(nullptr, [served = served_](void*) { --*served; });
  call->job = std::move(job);
  call->done = std::move(done);
  call->max_bytes = request.max_bytes();
  call->first_known = known.first_serial();
  std::set<uint64_t> seen;
  for (const v1::HistoryPrompt& prompt : request.prompts()) {
    const uint64_t key = PromptKey(prompt.purpose(), prompt.prompt_id());
    if (!seen.insert(key).second) continue;
    call->keys.push_back(key);
    call->prompts.emplace_back().own = known.Of(key, kMostResponses);
  }
  AddStored(call);
}

// Adds responses that the job made under an earlier controller, or before it ended and was resumed:
// all are older than those that the core knows.
void JobHistory::AddStored(const std::shared_ptr<Call>& call) {
  if (!call->LacksSome()) return AddSeed(call);
  WithStored(*call, name_, uid_, call->first_known, [this, call](const PromptHistory& stored) {
    for (size_t i = 0; i < call->keys.size(); ++i) {
      std::vector<PastResponse>& own = call->prompts[i].own;
      if (own.size() >= kEnoughResponses) continue;
      for (const PastResponse& response : stored.Of(call->keys[i], kMostResponses - own.size())) {
        // The rows that were read may include some that the core put meanwhile.
        const bool known = call->first_known != 0 && response.serial >= call->first_known;
        if (!known) own.push_back(response);
      }
    }
    AddSeed(call);
  });
}

void JobHistory::AddSeed(const std::shared_ptr<Call>& call) {
  const std::string seed = SeedJob(submitted_->effective_spec());
  if (seed.empty() || !call->LacksSome() || context_->find_job == nullptr) return Answer(*call, {});
  // Always a job of the same project, even if the name says otherwise.
  const std::string name = absl::StrCat(name_.substr(0, name_.rfind('/') + 1), seed);
  if (name == name_) return Answer(*call, {});
  context_->find_job(name, [this, call, name](std::optional<FoundJob> found) {
    call->job.on_strand([this, call, name, found = std::move(found)] {
      if (!found.has_value()) return Answer(*call, {});
      AddSeedOf(call, name, *found);
    });
  });
}

void JobHistory::AddSeedOf(const std::shared_ptr<Call>& call, const std::string& name,
                           const FoundJob& found) {
  // The named job may have been deleted, and another one may have its name.
  const auto stored = stored_.find(name);
  const bool checked = stored != stored_.end() && stored->second.uid == found.uid;
  const v1::JobSpec& spec = submitted_->effective_spec();
  if (!checked && !WhyOtherPrompts(spec, found.submitted->effective_spec()).empty()) {
    return Answer(*call, {});
  }
  WithStored(*call, name, found.uid, /*end=*/0,
             [call, log = found.log](const PromptHistory& stored) {
               for (size_t i = 0; i < call->keys.size(); ++i) {
                 HistoryPart::Prompt& prompt = call->prompts[i];
                 const size_t own = prompt.own.size();
                 if (own >= kEnoughResponses) continue;
                 prompt.of_seed = stored.Of(call->keys[i], kMostResponses - own);
               }
               Answer(*call, log);
             });
}

void JobHistory::Answer(Call& call, BatchSource seed) {
  call.done(std::make_shared<HistoryPart>(std::move(call.prompts), call.max_bytes,
                                          std::move(call.job.log), std::move(seed),
                                          std::move(call.place)));
}

void JobHistory::WithStored(const Call& call, const std::string& job, const std::string& uid,
                            uint64_t end, Use use) {
  StoredRows& stored = stored_[job];
  if (stored.uid == uid && stored.rows != nullptr) return use(*stored.rows);
  if (stored.uid != uid) {  // calls that wait for an earlier job of the name get nothing of it
    for (const Use& waiting : std::exchange(stored, {uid, nullptr, {}}).waiting) {
      waiting(PromptHistory());
    }
  }
  stored.waiting.push_back(std::move(use));
  if (stored.waiting.size() > 1) return;  // the rows are being read
  Read(call.job, job, uid, std::make_shared<StoredHistory>(job, end));
}

void JobHistory::Read(const Job& through, const std::string& job, const std::string& uid,
                      const std::shared_ptr<StoredHistory>& rows) {
  context_->executors->PostRead([this, through, job, uid, rows] {
    const absl::StatusOr<bool> more = rows->ReadMore(*context_->store);
    if (more.ok() && *more) return Read(through, job, uid, rows);
    if (!more.ok()) {
      baton::Log(LogLevel::kWarn, "rows of earlier responses cannot be read",
                 {{"job", job}, {"error", std::string(more.status().message())}});
    }
    auto read = std::make_shared<const PromptHistory>(rows->Take());
    through.on_strand([this, job, uid, whole = more.ok(), read = std::move(read)] {
      const auto stored = stored_.find(job);
      // The job has ended meanwhile, or another one has its name.
      if (stored == stored_.end() || stored->second.uid != uid) return;
      const std::vector<Use> waiting = std::exchange(stored->second.waiting, {});
      if (whole) {
        stored->second.rows = read;
      } else {
        stored_.erase(stored);  // the next call that needs it reads it again
      }
      for (const Use& use : waiting) use(*read);
    });
  });
}

void JobHistory::Forget() {
  for (const auto& [job, stored] : std::exchange(stored_, {})) {
    for (const Use& waiting : stored.waiting) waiting(PromptHistory());
  }
}

void JobHistory::Abandon() {
  for (auto& [job, stored] : stored_) stored.waiting.clear();
}

}  // namespace baton::controller
