// The score nodes of a dataflow: their inputs, the roles that serve them, and which of them a
// response needs.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_SCORE_GRAPH_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_SCORE_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Most score nodes of a dataflow: they are bits of a number.
inline constexpr int kMaxScoreNodes = 63;

/// Columns that every response brings along; score nodes make the others.
const std::vector<std::string>& GeneratedColumns();

/// Pure. A set of nodes is a number whose bit i is node i of the dataflow.
class ScoreGraph {
 public:
  /// `dataflow` was checked (controller/spec/dataflow/check_dataflow.h). `is_async`: of an async
  /// job.
  explicit ScoreGraph(const v1::Dataflow& dataflow, bool is_async = false);

  int size() const { return static_cast<int>(needs_.size()); }
  const std::string& role(uint32_t node) const { return roles_[node]; }
  /// The roles that serve some node, each once, by name.
  std::vector<std::string> roles() const;
  /// True for a node that runs once all responses to a prompt have its inputs.
  bool over_group(uint32_t node) const { return (over_group_ >> node & 1) != 0; }
  /// Nodes whose output this one reads.
  uint64_t needs(uint32_t node) const { return needs_[node]; }
  /// The node itself and all that could not run without its output.
  uint64_t WithDependents(uint32_t node) const;
  /// Nodes without which a response of `purpose` is not READY: all for training; otherwise those
  /// that its reward needs.
  uint64_t Wanted(v1::Purpose purpose) const {
    return purpose == v1::PURPOSE_TRAIN ? all_ : rewarding_;
  }
  /// The wanted nodes that run only when a batch is selected: in an async job, the actor's and
  /// those that read their outputs. The proximal log-probs of decoupled PPO (AReaL, arXiv
  /// 2505.24298, section 5.2) are those of the very weights that the update begins with.
  uint64_t at_selection() const { return at_selection_; }
  /// True for a node whose output is part of the reward.
  bool IsReward(uint32_t node) const { return (sources_ >> node & 1) != 0; }
  /// The weighted sum of the sources among `scores`; scores that are missing count 0.
  double Reward(const std::map<std::string, double>& scores) const;

 private:
  std::vector<std::string> roles_;
  std::vector<uint64_t> needs_;
  uint64_t all_ = 0;
  uint64_t over_group_ = 0;
  uint64_t sources_ = 0;
  uint64_t rewarding_ = 0;  // sources_ and all that they need
  uint64_t at_selection_ = 0;
  std::map<std::string, double> weights_;  // of the sources, by output
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_SCORE_GRAPH_H_
