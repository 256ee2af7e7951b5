#include "controller/core/run_ahead.h"

#include <algorithm>
#include <iterator>

#include "controller/core/job_parts.h"
#include "controller/spec/check_speculation.h"
#include "controller/spec/role_names.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

constexpr uint64_t kMostUpcoming = 256;  // draws
constexpr int kMostRefusals = 3;

uint64_t DrawsAhead(const v1::JobSpec& spec) {
  return std::min(kMostUpcoming, static_cast<uint64_t>(std::max(1, spec.data().gen_batch_size())));
}

}  // namespace

RunAhead::RunAhead(const v1::JobSpec& spec)
    : on_(RunsAhead(spec)),
      samples_(static_cast<uint32_t>(std::max(1, spec.rollout().n()))),
      window_(DrawsAhead(spec)),
      places_(std::max(1, spec.rollout().max_num_seqs())),
      longest_(static_cast<uint32_t>(std::max(0, spec.data().max_response_length()))) {}

// Empty: the job draws nothing more, as far as is known.
std::vector<uint64_t> RunAhead::DrawsToCome(JobParts& job) const {
  std::vector<uint64_t> draws;
  const int64_t step = job.out.step();
  if (job.is_async) {
    DrawLedger& ledger = job.async.groups.draws();
    const int64_t left = std::max<int64_t>(0, job.life.job().total_steps() - step);
    const uint64_t groups = static_cast<uint64_t>(left) * GroupsPerBatch(job);
    if (job.milestones.AtEnd(step) || groups <= ledger.open().size()) return draws;
    return ledger.Upcoming(std::min<uint64_t>(window_, groups - ledger.open().size()));
  }
  const StepDraws& of_step = job.scheduler.admission().draws();
  const bool in_step = of_step.upcoming() != of_step.cursor();
  const int64_t done = in_step && !Mutant("ahead-of-the-end") ? step + 1 : step;
  if (job.milestones.AtEnd(done)) return draws;
  for (uint64_t i = 0; i < window_; ++i) draws.push_back(of_step.upcoming() + i);
  return draws;
}

// Keeps of each draw what was begun, as long as it is to come.
void RunAhead::Look(JobParts& job) {
  const StepDraws& of_step = job.scheduler.admission().draws();
  DrawLedger& ledger = job.async.groups.draws();
  const auto now = job.is_async ? std::make_tuple(job.out.step(), ledger.Next(), ledger.spent(),
                                                  uint64_t{ledger.open().size()})
                                : std::make_tuple(job.out.step(), of_step.upcoming(),
                                                  of_step.cursor(), uint64_t{0});
  if (std::exchange(looked_, now) == now) return;
  std::map<uint64_t, Upcoming> upcoming;
  for (const uint64_t draw : DrawsToCome(job)) {
    const auto known = upcoming_.find(draw);
    if (known != upcoming_.end()) {
      upcoming.insert(std::move(*known));
    } else {
      upcoming[draw].prompt_id = job.data.PromptOf(draw);
    }
  }
  upcoming_ = std::move(upcoming);
}

// The first response that the worker may be given. A prompt stays where it was last, and of the
// others a worker gets its share: it will get no more of those that are made in earnest.
std::optional<AheadResponse> RunAhead::Pick(const std::string& worker, JobParts& job) {
  TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  const auto home_of = [&](const Upcoming& of_draw) {
    const std::string home = rollouts.homes().Of(TrainPromptKey(of_draw.prompt_id));
    return rollouts.Places(home) == 0 ? std::string() : home;
  };
  const auto& slots = job.roster().slots();
  const auto workers = static_cast<size_t>(std::count_if(
      slots.begin(), slots.end(), [](const RoleSlot& s) { return s.role == roles::kRollout; }));
  const size_t share = (upcoming_.size() + workers - 1) / workers;
  const auto has_share = [&] {
    const auto mine = std::count_if(upcoming_.begin(), upcoming_.end(), [&](const auto& of_draw) {
      return home_of(of_draw.second) == worker;
    });
    return static_cast<size_t>(mine) >= share;
  };
  std::optional<bool> enough;
  for (auto& [draw, of_draw] : upcoming_) {
    if (of_draw.again.empty() && of_draw.next >= samples_) continue;
    const std::string home = home_of(of_draw);
    if (home != worker) {
      if (!enough.has_value()) enough = has_share();
      if (!home.empty() || *enough) continue;
    }
    AheadResponse response{draw, of_draw.next, of_draw.prompt_id};
    if (of_draw.again.empty()) {
      ++of_draw.next;
    } else {
      response.sample = of_draw.again.back();
      of_draw.again.pop_back();
    }
    return response;
  }
  return std::nullopt;
}

void RunAhead::Start(const std::string& worker, const AheadResponse& response, JobParts& job) {
  TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  if (!Mutant("ahead-has-no-home")) {
    rollouts.homes().Note(TrainPromptKey(response.prompt_id), worker);
  }
  StartAhead task;
  task.worker = worker;
  task.ref = job.out.Ref(TaskKind::kRunAhead, ++begun_, job.out.attempt_base());
  task.policy_version = rollouts.version(worker);
  task.response = response;
  running_[begun_] = {worker, task.ref, task.policy_version, response};
  job.out.Do(std::move(task));
}

int RunAhead::LoadOf(const std::string& worker) const {
  return static_cast<int>(std::count_if(running_.begin(), running_.end(), [&](const auto& running) {
    return running.second.worker == worker;
  }));
}

bool RunAhead::Refuses(const std::string& worker) const {
  const auto refusals = refusals_.find(worker);
  return refusals != refusals_.end() && refusals->second >= kMostRefusals;
}

void RunAhead::GiveOut(JobParts& job) {
  // Before the work stands, a rollout may have responses of an earlier controller.
  if (!on_ || job.life.state() != v1::Job::STATE_RUNNING || !job.work.begun()) return;
  std::vector<std::string> idle = job.scheduler.queues().rollouts().tasks.Idle();
  if (Mutant("ahead-beside-real-work")) {
    idle.clear();
    for (const RoleSlot& slot : job.roster().slots()) {
      if (slot.role == roles::kRollout && slot.ready()) idle.push_back(slot.worker);
    }
  }
  std::map<std::string, int> free;  // places
  for (const std::string& worker : idle) {
    const RoleSlot* const slot = job.roster().Find(worker, roles::kRollout);
    if (slot == nullptr || !slot->ready() || Refuses(worker)) continue;
    const int places = std::min(places_, slot->credits) - LoadOf(worker);
    if (places > 0) free[worker] = places;
  }
  if (!free.empty()) Look(job);
  // In turns, so that each gets prompts.
  while (!free.empty()) {
    for (auto it = free.begin(); it != free.end();) {
      const std::optional<AheadResponse> response = Pick(it->first, job);
      if (response.has_value()) Start(it->first, *response, job);
      it = !response.has_value() || --it->second == 0 ? free.erase(it) : std::next(it);
    }
  }
}

bool RunAhead::Wants(const std::string& worker, const TaskRef& ref) const {
  const auto found = running_.find(ref.subject);
  return found != running_.end() && found->second.ref == ref && found->second.worker == worker;
}

void RunAhead::GiveBack(const AheadResponse& response) {
  const auto found = upcoming_.find(response.draw);
  if (found != upcoming_.end()) found->second.again.push_back(response.sample);
}

void RunAhead::OnDone(const TaskDone& event, JobParts& job) {
  const auto found = running_.find(event.ref.subject);
  const Running ended = found->second;
  running_.erase(found);
  const auto told = event.output.metrics.find(kAheadTokens);
  // Whatever number a worker says, NaN as well.
  if (told != event.output.metrics.end() && told->second > 0) {
    tokens_ += std::min<double>(told->second, longest_);
  }
  if (event.status.ok()) {
    ++responses_;
    refusals_.erase(event.worker);
    return GiveOut(job);
  }
  GiveBack(ended.response);
  const TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  const bool stopped =
      rollouts.load(event.worker) > 0 || rollouts.version(event.worker) != ended.version;
  if (Mutant("ahead-asked-for-ever")) return GiveOut(job);
  if (absl::IsUnimplemented(event.status)) {
    refusals_[event.worker] = kMostRefusals;
  } else if (!stopped) {
    ++refusals_[event.worker];
  }
  GiveOut(job);
}

void RunAhead::OnWorkerBack(const WorkerBack& event, JobParts& job) {
  const auto has = [&](const std::vector<TaskRef>& refs, const TaskRef& ref) {
    return std::find(refs.begin(), refs.end(), ref) != refs.end();
  };
  for (auto it = running_.begin(); it != running_.end();) {
    const Running& running = it->second;
    const bool lost = running.worker == event.worker && !has(event.running, running.ref) &&
                      !has(event.unacked, running.ref);
    if (lost) GiveBack(running.response);
    it = lost ? running_.erase(it) : std::next(it);
  }
  for (const TaskRef& ref : event.running) {
    const bool unwanted = ref.kind == TaskKind::kRunAhead && !Wants(event.worker, ref);
    if (unwanted && !Mutant("unwanted-ahead-goes-on")) {
      job.out.Do(StopTask{event.worker, ref, "it is not wanted any more"});
    }
  }
}

void RunAhead::Forget(const std::string& worker) {
  refusals_.erase(worker);
  for (auto it = running_.begin(); it != running_.end();) {
    if (it->second.worker != worker) {
      ++it;
      continue;
    }
    GiveBack(it->second.response);
    it = running_.erase(it);
  }
}

void RunAhead::Clear() {
  refusals_.clear();
  upcoming_.clear();
  running_.clear();
  looked_ = {-1, 0, 0, 0};
}

std::map<std::string, double> RunAhead::TakeMetrics() {
  std::map<std::string, double> metrics;
  if (!on_) return metrics;
  metrics["rollout/spec/ahead_responses"] = static_cast<double>(std::exchange(responses_, 0));
  metrics["rollout/spec/ahead_tokens"] = std::exchange(tokens_, 0);
  return metrics;
}

}  // namespace baton::controller
