// Run-ahead responses, which rollouts sample ahead of need while they have nothing else to do
// (rollout.speculation.run_ahead).
//
// Owns which prompt indices come next, which of their responses were begun ahead, and which of
// these run. A response to an upcoming prompt is sampled with its own key and the current weights,
// and goes only into the trees of its rollout (docs/speculation.md), as a good guess at the
// response that foreground work will make later. It is an AheadResponse and never a trajectory. So
// it has no row and no payload, and no batch can have it.
//
//   to come --a rollout is idle--> running --it came--> done
//      ^                              |
//      +--- it was stopped -----------+
//
// A rollout stops a run-ahead response by itself when it gets foreground work or other weights, so
// nothing ever waits for one. A rollout that fails, or stops for no reason, rests for a while,
// longer each time.
//
// Derived: a restarted controller begins anew.
#ifndef BATON_CONTROLLER_CORE_STEPS_RUN_AHEAD_H_
#define BATON_CONTROLLER_CORE_STEPS_RUN_AHEAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/dispatch/task_scheduler.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/events.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/task.h"
#include "controller/core/prompts/prompt_data.h"
#include "controller/core/prompts/prompt_ledger.h"

namespace baton::controller {

/// The parts that decide which run-ahead responses are assigned in a turn.
struct AheadContext {
  EffectSink& out;
  TaskScheduler& rollouts;
  const Roster& roster;
  PromptData& data;
  PromptLedger& prompts;
  /// Groups that the job may still open; 0: none, as far as is known.
  uint64_t groups_left = 0;
};

class RunAhead {
 public:
  explicit RunAhead(const v1::JobSpec& spec);

  /// Gives idle rollouts responses to the next prompts: those of the next step, or of as many
  /// groups as a batch has. Call it at the end of a turn; it gives a few at a time.
  void AssignWork(const AheadContext& job);
  /// Time has passed. A rest ends only at a tick, so that no other event begins work merely because
  /// of its time.
  void Tick(absl::Time now) { ticked_ = now; }
  /// True if that task runs on that worker.
  bool Wants(const std::string& worker, const TaskRef& ref) const;
  /// The result of a task that is wanted.
  void OnDone(const TaskDone& event, const TaskScheduler& rollouts, absl::Time now);
  /// The worker is attached again. Tasks that it does not know were lost on the way; tasks that
  /// this class does not know were given by an earlier controller.
  void OnWorkerReconnected(const WorkerReconnected& event, EffectSink& out);
  /// The worker left the job.
  void Forget(const std::string& worker);
  /// All workers leave.
  void Clear();

  size_t running() const { return running_.size(); }
  /// rollout/spec/ahead_* since the last call.
  std::map<std::string, double> TakeMetrics();

 private:
  // An upcoming prompt index, and which of its responses were not begun.
  struct Upcoming {
    uint64_t prompt_id = 0;
    uint32_t next = 0;            // sample
    std::vector<uint32_t> again;  // smaller ones that were stopped
    std::string preferred;        // the worker that has the prompt; "": any may
  };
  struct Running {
    std::string worker;
    TaskRef ref;
    uint64_t version = 0;
    AheadResponse response;
  };
  struct Worker {
    int load = 0;
    bool sated = false;  // there is nothing that it may be given
    // Failures in a row, the end of the rest, and the newest task at the last failure. A whole wave
    // of tasks fails at once and counts as one failure.
    int failures = 0;
    absl::Time rests_until = absl::InfinitePast();
    uint64_t wave = 0;
  };

  void Look(const AheadContext& job);
  std::optional<AheadResponse> Pick(const std::string& worker);
  void Start(const std::string& worker, const AheadResponse& response, const AheadContext& job);
  void End(std::map<uint64_t, Running>::iterator it, bool whole);
  void NoteFailure(const TaskDone& event, absl::Time now);

  const bool on_;
  const uint32_t samples_;  // per prompt
  const uint64_t window_;   // prompts
  const int places_;        // of a rollout
  const uint32_t longest_;  // response, in tokens
  // Tells whether the upcoming prompt indices have changed since the last look.
  std::optional<std::pair<uint64_t, uint64_t>> looked_;
  std::map<uint64_t, Upcoming> upcoming_;       // by prompt index
  std::map<std::string, uint64_t> preferring_;  // of those, by worker
  uint64_t share_ = 0;                          // of those, for one worker
  std::map<uint64_t, Running> running_;         // by the subject of its task
  std::map<std::string, Worker>
      workers_;  // workers that got responses, or for which there are none
  absl::Time ticked_ = absl::InfinitePast();
  uint64_t begun_ = 0;      // tasks
  uint64_t responses_ = 0;  // whole ones, since the last step …
  double tokens_ = 0;       // … and the tokens of all
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_RUN_AHEAD_H_
