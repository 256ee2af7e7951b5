#include "controller/core/trajectories/trajectory_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {
namespace {

// The runtime looks at every tick, and after every write, whether there is room.
constexpr absl::Duration kLooksAgain = absl::Seconds(1);

}  // namespace

// ---- The wait for the experience log ------------------------------------------------------------

void PayloadWait::Heard(const PayloadsWait& event, absl::Time now) {
  if (!event.waits) return wait_.reset();
  if (!wait_.has_value()) wait_ = Wait{event, now};
}

void PayloadWait::Explain(const std::string& work, WaitList& waits) const {
  if (!wait_.has_value()) return;
  const PayloadsWait& event = wait_->event;
  waits.Add(
      "payloads", work,
      absl::StrCat("the experience log to take ", event.bytes, " bytes of responses and columns; ",
                   event.budget, " bytes may wait for it (baton-controller ",
                   event.of_job ? "--job-payload-bytes)" : "--payload-bytes, for all jobs)"),
      wait_->since, waits.now() + kLooksAgain - wait_->since,
      "Baton looks again whether there is room; no prompt is begun until the disk of the "
      "data root has taken them, and nothing is lost");
}

TrajectoryScheduler::TrajectoryScheduler(std::shared_ptr<const v1::Job> submitted,
                                         const JobCoreOptions& options)
    : submitted_(std::move(submitted)),
      options_(options),
      table_(submitted_),
      queues_(table_.plan().graph().roles(), options.stragglers),
      admission_(submitted_),
      generations_(submitted_, options),
      scores_(submitted_, options) {}

// ---- The work in progress -----------------------------------------------------------------------

void TrajectoryScheduler::BeginWork(bool evaluates, uint64_t responses) {
  admission_.BeginWork(evaluates, responses);
  scores_.errors().Begin();
  table_.BeginStep();
}

void TrajectoryScheduler::AddGroup(std::vector<TrajectoryInfo> made) {
  std::vector<TrajectoryInfo*> added;
  for (TrajectoryInfo& trajectory : made) {
    scores_.errors().Recall(trajectory);
    added.push_back(&table_.Add(std::move(trajectory)));
  }
  // A score over the group asks for all of them.
  for (TrajectoryInfo* trajectory : added) Enqueue(*trajectory);
}

void TrajectoryScheduler::Withdraw(const std::string& role, uint64_t work,
                                   const std::string& reason, const Context& context) {
  TaskScheduler& tasks = queues_.Of(role);
  const auto running = tasks.running().find(work);
  if (running != tasks.running().end()) {
    context.out.Do(StopTask{running->second.worker, table_.RefOf(role, work), reason});
  }
  tasks.Withdraw(work);
}

bool TrajectoryScheduler::Select(const std::vector<TrajectoryInfo*>& selected) {
  bool scores = false;
  for (TrajectoryInfo* trajectory : selected) {
    if (!table_.Select(*trajectory)) continue;
    scores = true;
    scores_.Enqueue(*trajectory, Work());
  }
  return scores;
}

void TrajectoryScheduler::Deselect(const std::vector<TrajectoryInfo*>& selected,
                                   const std::string& reason, const Context& context) {
  const ScoreGraph& graph = table_.plan().graph();
  for (TrajectoryInfo* trajectory : selected) {
    for (uint32_t node = 0; node < trajectory->tries.size(); ++node) {
      NodeTry& tried = trajectory->tries[node];
      if ((graph.at_selection() >> node & 1) == 0) continue;
      if (tried.asked) Withdraw(graph.role(node), WorkId(trajectory->id, node), reason, context);
      // The attempt is used up, because a result of it may be on its way.
      tried = NodeTry{context.out.NextAttempt(tried.attempt)};
    }
    table_.Deselect(*trajectory);
  }
}

void TrajectoryScheduler::DropAll(const std::vector<TrajectoryInfo*>& dropped,
                                  const std::string& reason, const Context& context) {
  for (const TrajectoryInfo* trajectory : dropped) {
    Withdraw(roles::kRollout, trajectory->id, reason, context);
    for (uint32_t node = 0; node < trajectory->tries.size(); ++node) {
      if (!trajectory->tries[node].asked) continue;
      Withdraw(table_.plan().graph().role(node), WorkId(trajectory->id, node), reason, context);
    }
    scores_.errors().Forget(*trajectory);
    if (trajectory->serial != 0) {
      context.buffer.Drop(*trajectory, context.out);
    } else {  // without a row it may have tokens
      context.out.Do(DropPayloads{{trajectory->id}});
    }
  }
  for (const TrajectoryInfo* trajectory : dropped) table_.Remove(trajectory->id);
}

void TrajectoryScheduler::SpendGroup(uint64_t prompt_index, const Context& context) {
  DropPayloads drop;
  for (const auto& [id, trajectory] : table_.TakeGroup(prompt_index)) {
    drop.trajectories.push_back(id);
  }
  context.out.Do(std::move(drop));
}

bool TrajectoryScheduler::AllGenerated() const {
  const bool rl = submitted_->effective_spec().kind() == v1::JOB_KIND_RL;
  const TaskScheduler& rollouts = queues_.rollouts().tasks;
  return rl && !table_.all().empty() && rollouts.queued() == 0 && rollouts.running().empty();
}

// Queues the work that can be done next on the trajectory; if nothing is left, it is READY.
void TrajectoryScheduler::Enqueue(TrajectoryInfo& trajectory) {
  const bool generated =
      trajectory.state == TrajectoryState::kScoring || trajectory.state == TrajectoryState::kReady;
  if (generated) return scores_.Enqueue(trajectory, Work());
  generations_.Enqueue(trajectory, "", Work());
}

void TrajectoryScheduler::Clear(const std::string& reason, const Context& context) {
  queues_.ForEach([&](const std::string& role, RoleQueue& queue) {
    for (const auto& [work, running] : queue.tasks.Clear()) {
      context.out.Do(StopTask{running.worker, table_.RefOf(role, work), reason});
    }
    queue.stragglers.DropPhase();  // an interrupted phase does not measure paces
  });
  context.buffer.EndWork(table_.all(), context.out);
  table_.Clear();
  scores_.errors().Begin();
}

// ---- Tasks --------------------------------------------------------------------------------------

void TrajectoryScheduler::Dispatch(const Context& context) {
  TaskScheduler& rollouts = queues_.rollouts().tasks;
  const absl::Time now = context.out.now();
  while (!payload_wait_.waits()) {
    const auto assignment = rollouts.Next(now);
    if (!assignment.has_value()) break;
    generations_.Start(*assignment, Work(), context);
  }
  for (auto& [role, queue] : queues_.scorers()) {
    while (auto assignment = queue.tasks.Next(now)) {
      scores_.Start(role, *assignment, Work(), context.out);
    }
  }
}

TrajectoryScheduler::Verdict TrajectoryScheduler::OnGenerated(const TaskDone& event,
                                                              const Context& context) {
  const Verdict verdict = generations_.OnGenerated(event, Work(), context);
  if (verdict.next == Next::kDone) {
    generated_at_ = context.out.now();
    Enqueue(table_.At(event.ref.subject));
  }
  return verdict;
}

TrajectoryScheduler::Verdict TrajectoryScheduler::OnScored(const TaskDone& event, bool late,
                                                           const Context& context) {
  return scores_.OnScored(event, late, Work(), context);
}

void TrajectoryScheduler::GenerateAnew(TrajectoryInfo& trajectory, const Context& context) {
  EffectSink& out = context.out;
  const ScoreGraph& graph = table_.plan().graph();
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    std::vector<TrajectoryInfo*> those = {&trajectory};
    if (graph.over_group(node)) those = table_.PromptGroupOf(trajectory);
    const std::string& role = graph.role(node);
    TaskScheduler& tasks = queues_.Of(role);
    for (TrajectoryInfo* t : those) {
      NodeTry& tried = t->tries[node];
      if (!tried.asked) continue;
      const uint64_t work = WorkId(t->id, node);
      const auto running = tasks.running().find(work);
      if (running != tasks.running().end()) {
        if (t != &trajectory) continue;  // it was told of this one's scores
        out.Do(StopTask{running->second.worker, table_.RefOf(role, work), "its payload is lost"});
      }
      tasks.Withdraw(work);
      tried.asked = false;
      tried.attempt = out.NextAttempt(tried.attempt);
    }
  }
  scores_.errors().Forget(trajectory);
  context.buffer.Drop(trajectory, out);
  table_.Reset(trajectory, context.versions.newest(), out);
  Enqueue(trajectory);
}

}  // namespace baton::controller
