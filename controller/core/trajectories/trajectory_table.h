// The trajectories of the step or the evaluation in progress.
//
// Owns each trajectory's record and how many are READY, and knows which score nodes can run.
//
//   PENDING --dispatched--> GENERATING --its response is stored--> SCORING --all nodes--> READY
//      ^                        |                                     |                     |
//      +-- the worker is lost --+------- its payload is lost ---------+---------------------+
//
// A trajectory that needs no score, such as an example of kind sft, is READY at once.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_TABLE_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/trajectory.h"
#include "controller/spec/dataflow/score_graph.h"

namespace baton::controller {

/// The plan of a job's responses to each prompt: the number of responses, whether there is a greedy
/// one too, and which scores make a response READY. Constant: it follows from the spec and the
/// dataflow.
class ResponsePlan {
 public:
  /// `submitted` has effective_spec and dataflow.
  explicit ResponsePlan(std::shared_ptr<const v1::Job> submitted);

  const ScoreGraph& graph() const { return graph_; }
  /// Score nodes without which the trajectory is not READY.
  uint64_t Wanted(const TrajectoryInfo& trajectory) const {
    return graph_.Wanted(trajectory.purpose) & ~(trajectory.selected ? 0 : graph_.at_selection());
  }
  /// Responses to one prompt.
  uint32_t Samples(v1::Purpose purpose) const;
  /// True if each training prompt has a greedy response beside its samples (ReMax).
  bool has_baseline() const { return has_baseline_; }
  /// Trajectories of a prompt index: samples, and perhaps a baseline.
  uint32_t PerPrompt() const { return Samples(v1::PURPOSE_TRAIN) + (has_baseline_ ? 1 : 0); }

 private:
  std::shared_ptr<const v1::Job> submitted_;
  ScoreGraph graph_;
  bool has_baseline_ = false;
};

class TrajectoryTable {
 public:
  /// `submitted` has effective_spec and dataflow.
  explicit TrajectoryTable(std::shared_ptr<const v1::Job> submitted)
      : plan_(std::move(submitted)) {}

  const ResponsePlan& plan() const { return plan_; }

  const std::map<uint64_t, TrajectoryInfo>& all() const { return trajectories_; }
  /// Null: there is none with that id.
  TrajectoryInfo* Find(uint64_t id);
  const TrajectoryInfo* Find(uint64_t id) const;
  TrajectoryInfo& At(uint64_t id) { return trajectories_.at(id); }
  TrajectoryInfo& Add(TrajectoryInfo trajectory);
  /// Takes trajectories out: all training responses of a prompt index with their baseline; or all
  /// responses of the evaluation.
  std::map<uint64_t, TrajectoryInfo> TakeGroup(uint64_t prompt_index);
  std::map<uint64_t, TrajectoryInfo> TakeEvaluation();
  /// Number of trajectories taken out since the step began.
  uint64_t taken() const { return taken_; }
  /// Counts one that was taken out before a restart.
  void CountTaken() { ++taken_; }
  void BeginStep() { taken_ = 0; }
  void Remove(uint64_t id);
  void Clear();
  uint64_t ready() const { return ready_; }
  void CountReady() { ++ready_; }
  bool AllReady() const { return ready_ >= trajectories_.size(); }
  /// The training responses of a prompt index and their baseline, by id; fewer if not all are
  /// there.
  std::vector<TrajectoryInfo*> GroupMembers(uint64_t prompt_index);
  /// True if all of the group's trajectories, except `given_up` of them, are there and READY.
  bool GroupReady(uint64_t prompt_index, size_t given_up) const;

  /// The responses to the same prompt, in order, without those that were given up.
  std::vector<TrajectoryInfo*> PromptGroupOf(const TrajectoryInfo& trajectory);
  /// The scores that became possible with `trajectory`: trajectories, each with the node that
  /// scores it next, in the order of the nodes. A node over the group scores the other responses to
  /// its prompt as well.
  std::vector<std::pair<TrajectoryInfo*, uint32_t>> NextScores(TrajectoryInfo& trajectory);
  /// A batch selects a READY trajectory: the nodes that run at the selection are now wanted.
  /// False: there is none, and the trajectory stays READY.
  bool Select(TrajectoryInfo& trajectory);
  /// The batch is given up: scores that were made at its selection are dropped, and the trajectory
  /// is READY without them.
  void Deselect(TrajectoryInfo& trajectory);
  /// A score node is done with the trajectory.
  void Scored(TrajectoryInfo& trajectory, uint32_t node);
  /// Makes the trajectory as new, with the next attempts: the response goes, and all its scores
  /// with it.
  void Reset(TrajectoryInfo& trajectory, uint64_t version, const EffectSink& out);

  /// The task of a unit of work (WorkId) of a role.
  TaskRef RefOf(const std::string& role, uint64_t work) const;
  /// "3 of 64 groups": the groups that are not complete yet.
  std::string OpenGroups() const;

 private:
  TrajectoryInfo Take(std::map<uint64_t, TrajectoryInfo>::iterator at);

  ResponsePlan plan_;
  std::map<uint64_t, TrajectoryInfo> trajectories_;  // by id
  uint64_t ready_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_TABLE_H_
