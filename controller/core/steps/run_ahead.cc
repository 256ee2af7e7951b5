#include "controller/core/steps/run_ahead.h"

#include <algorithm>
#include <iterator>

#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/settings/check_speculation.h"

namespace baton::controller {
namespace {

constexpr uint64_t kMostUpcoming = 256;  // prompts
constexpr int kMostAtOnce = 16;          // tasks that a worker gets in one turn
constexpr absl::Duration kFirstRest = absl::Seconds(1);
constexpr int kMostDoublings = 6;  // of a rest

uint64_t PromptsAhead(const v1::JobSpec& spec) {
  return std::min(kMostUpcoming, static_cast<uint64_t>(std::max(1, spec.data().gen_batch_size())));
}

}  // namespace

RunAhead::RunAhead(const v1::JobSpec& spec)
    : on_(RunsAhead(spec)),
      samples_(static_cast<uint32_t>(std::max(1, spec.rollout().n()))),
      window_(PromptsAhead(spec)),
      places_(std::max(1, spec.rollout().max_num_seqs())),
      longest_(static_cast<uint32_t>(std::max(0, spec.data().max_response_length()))) {}

// ---- What comes next ----------------------------------------------------------------------------

// Keeps what was begun for each upcoming prompt index. Prompt affinity is looked up only here,
// because work that is assigned meanwhile changes it only for other prompts.
void RunAhead::Look(const AheadContext& job) {
  const auto now = std::make_pair(job.groups_left, job.prompts.changes());
  if (looked_ == now) return;
  looked_ = now;
  std::map<uint64_t, Upcoming> upcoming;
  preferring_.clear();
  for (const uint64_t prompt_index : job.prompts.Upcoming(std::min(window_, job.groups_left))) {
    Upcoming& of_prompt = upcoming[prompt_index];
    const auto known = upcoming_.find(prompt_index);
    if (known != upcoming_.end()) {
      of_prompt = std::move(known->second);
    } else {
      of_prompt.prompt_id = job.data.PromptOf(prompt_index);
    }
    of_prompt.preferred = job.rollouts.affinity().Of(TrainPromptKey(of_prompt.prompt_id));
    if (job.rollouts.Places(of_prompt.preferred) == 0) of_prompt.preferred.clear();  // it has left
    if (!of_prompt.preferred.empty()) ++preferring_[of_prompt.preferred];
  }
  upcoming_ = std::move(upcoming);
  const auto& slots = job.roster.slots();
  const auto workers = static_cast<uint64_t>(std::count_if(
      slots.begin(), slots.end(), [](const RoleSlot& s) { return s.role == roles::kRollout; }));
  share_ = (upcoming_.size() + workers - 1) / std::max<uint64_t>(1, workers);
  for (auto& [name, worker] : workers_) worker.sated = false;
}

// ---- Assignment ---------------------------------------------------------------------------------

// The first response that the worker may get. A prompt stays with its preferred worker; of the
// others a worker gets only its share, because it will get no more of them as foreground work
// either.
std::optional<AheadResponse> RunAhead::Pick(const std::string& worker) {
  for (auto& [prompt_index, of_prompt] : upcoming_) {
    if (of_prompt.again.empty() && of_prompt.next >= samples_) continue;
    if (of_prompt.preferred != worker &&
        (!of_prompt.preferred.empty() || preferring_[worker] >= share_)) {
      continue;
    }
    if (of_prompt.preferred.empty()) {
      of_prompt.preferred = worker;
      ++preferring_[worker];
    }
    AheadResponse response{prompt_index, of_prompt.next, of_prompt.prompt_id};
    if (of_prompt.again.empty()) {
      ++of_prompt.next;
    } else {
      response.sample = of_prompt.again.back();
      of_prompt.again.pop_back();
    }
    return response;
  }
  return std::nullopt;
}

void RunAhead::Start(const std::string& worker, const AheadResponse& response,
                     const AheadContext& job) {
  job.rollouts.affinity().Note(TrainPromptKey(response.prompt_id), worker);
  StartAhead task;
  task.worker = worker;
  task.ref = job.out.Ref(TaskKind::kRunAhead, ++begun_, job.out.attempt_base());
  task.policy_version = job.rollouts.version(worker);
  task.response = response;
  running_[begun_] = {worker, task.ref, task.policy_version, response};
  ++workers_[worker].load;
  job.out.Do(std::move(task));
}

void RunAhead::AssignWork(const AheadContext& job) {
  if (!on_) return;
  const std::vector<std::string> idle = job.rollouts.Idle();
  if (idle.empty()) return;
  Look(job);
  std::map<std::string, int> free;  // places
  for (const std::string& name : idle) {
    Worker& worker = workers_[name];
    const RoleSlot* const slot = job.roster.Find(name, roles::kRollout);
    if (slot == nullptr || !slot->ready() || worker.sated) continue;
    if (worker.rests_until > ticked_) continue;
    const int places = std::min(kMostAtOnce, std::min(places_, slot->credits) - worker.load);
    if (places > 0) free[name] = places;
  }
  // In turns, so that each gets prompts.
  while (!free.empty()) {
    for (auto it = free.begin(); it != free.end();) {
      const std::optional<AheadResponse> response = Pick(it->first);
      if (response.has_value()) Start(it->first, *response, job);
      workers_[it->first].sated = !response.has_value();
      it = !response.has_value() || --it->second == 0 ? free.erase(it) : std::next(it);
    }
  }
}

bool RunAhead::Wants(const std::string& worker, const TaskRef& ref) const {
  const auto found = running_.find(ref.subject);
  return found != running_.end() && found->second.ref == ref && found->second.worker == worker;
}

// ---- Results and failures -----------------------------------------------------------------------

// `whole`: the response came; otherwise it is assigned again.
void RunAhead::End(std::map<uint64_t, Running>::iterator it, bool whole) {
  const Running& running = it->second;
  --workers_[running.worker].load;
  const auto of_prompt = upcoming_.find(running.response.prompt_index);
  if (!whole && of_prompt != upcoming_.end()) {
    of_prompt->second.again.push_back(running.response.sample);
    for (auto& [name, worker] : workers_) worker.sated = false;
  }
  running_.erase(it);
}

void RunAhead::NoteFailure(const TaskDone& event, absl::Time now) {
  Worker& worker = workers_[event.worker];
  if (event.ref.subject <= worker.wave) return;
  worker.wave = begun_;
  worker.rests_until = absl::IsUnimplemented(event.status)
                           ? absl::InfiniteFuture()
                           : now + kFirstRest * (1 << std::min(worker.failures, kMostDoublings));
  ++worker.failures;
}

void RunAhead::OnDone(const TaskDone& event, const TaskScheduler& rollouts, absl::Time now) {
  const auto found = running_.find(event.ref.subject);
  const auto reported = event.output.metrics.find(kAheadTokens);
  // A worker may report any number, even NaN.
  if (reported != event.output.metrics.end() && reported->second > 0) {
    tokens_ += std::min<double>(reported->second, longest_);
  }
  const uint64_t version = found->second.version;
  End(found, event.status.ok());
  if (event.status.ok()) {
    ++responses_;
    workers_[event.worker].failures = 0;
  } else if (absl::IsUnimplemented(event.status) ||
             (rollouts.load(event.worker) == 0 && rollouts.version(event.worker) == version)) {
    NoteFailure(event, now);  // it stopped without foreground work, as it seems
  }
}

void RunAhead::OnWorkerReconnected(const WorkerReconnected& event, EffectSink& out) {
  const auto has = [&](const std::vector<TaskRef>& refs, const TaskRef& ref) {
    return std::find(refs.begin(), refs.end(), ref) != refs.end();
  };
  for (auto it = running_.begin(); it != running_.end();) {
    const auto next = std::next(it);
    const Running& running = it->second;
    if (running.worker == event.worker && !has(event.running, running.ref) &&
        !has(event.unacked, running.ref)) {
      End(it, /*whole=*/false);
    }
    it = next;
  }
  for (const TaskRef& ref : event.running) {
    const bool unwanted = ref.kind == TaskKind::kRunAhead && !Wants(event.worker, ref);
    if (unwanted) {
      out.Do(StopTask{event.worker, ref, "it is not wanted any more"});
    }
  }
}

void RunAhead::Forget(const std::string& worker) {
  for (auto it = running_.begin(); it != running_.end();) {
    const auto next = std::next(it);
    if (it->second.worker == worker) End(it, /*whole=*/false);
    it = next;
  }
  workers_.erase(worker);
  looked_.reset();  // its prompts go to others
}

void RunAhead::Clear() {
  workers_.clear();
  upcoming_.clear();
  preferring_.clear();
  running_.clear();
  looked_.reset();
}

std::map<std::string, double> RunAhead::TakeMetrics() {
  std::map<std::string, double> metrics;
  if (!on_) return metrics;
  metrics["rollout/spec/ahead_responses"] = static_cast<double>(std::exchange(responses_, 0));
  metrics["rollout/spec/ahead_tokens"] = std::exchange(tokens_, 0);
  return metrics;
}

}  // namespace baton::controller
