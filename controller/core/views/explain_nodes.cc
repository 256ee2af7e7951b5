#include "controller/core/views/explain_nodes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

namespace {

v1::NodeStatus* AddNode(const NodesView& view, const std::string& node, const std::string& role,
                        const std::string& method, v1::ExplainJobResponse* out) {
  v1::NodeStatus* status = out->add_nodes();
  status->set_node(node);
  status->set_role(role);
  status->set_method(method);
  status->set_state(view.succeeded ? "done" : "waiting");
  status->set_done(-1);  // it has no trajectories of its own
  return status;
}

// The state follows from the counts, so a restart shows the same.
void Count(v1::NodeStatus* status, int64_t done, int64_t running, int64_t total) {
  status->set_done(done);
  status->set_running(running);
  status->set_total(total);
  if (total > 0 && done == total) status->set_state("done");
  // Between two trajectories a node runs nothing, but counts as running.
  if (running > 0 || (done > 0 && done < total)) status->set_state("running");
}

void ExplainGenerate(const NodesView& view, const v1::GenerateNode& node,
                     v1::ExplainJobResponse* out) {
  if (Replays(view.dataflow)) {  // its responses are there
    AddNode(view, "recorded", "controller", "read", out)->set_state("done");
    return;
  }
  const bool train = node.purpose() == "train";
  int64_t done = 0, running = 0, total = 0;
  for (const auto& [id, t] : view.scheduler.table().all()) {
    if ((t.purpose == v1::PURPOSE_BASELINE) == train) continue;
    ++total;
    done += t.state == TrajectoryState::kScoring || t.state == TrajectoryState::kReady;
    running += t.state == TrajectoryState::kGenerating;
  }
  v1::NodeStatus* status =
      AddNode(view, train ? "generate" : "baseline", roles::kRollout, "generate", out);
  Count(status, done, running, total);
}

// `i`: the score node's number.
void ExplainScore(const NodesView& view, uint32_t i, v1::ExplainJobResponse* out) {
  const ScoreGraph& graph = view.scheduler.table().plan().graph();
  const v1::ScoreNode& node = view.dataflow.score(static_cast<int>(i));
  v1::NodeStatus* status = AddNode(view, node.node(), node.role(), node.method(), out);
  status->set_out(node.out());
  status->add_needs("generate");
  for (int k = 0; k < graph.size(); ++k) {
    if ((graph.needs(i) >> k & 1) != 0) status->add_needs(view.dataflow.score(k).node());
  }
  int64_t done = 0, total = 0;
  for (const auto& [id, t] : view.scheduler.table().all()) {
    if ((graph.Wanted(t.purpose) >> i & 1) == 0) continue;
    ++total;
    done += static_cast<int64_t>(t.scored >> i & 1);
  }
  const auto& running = view.scheduler.queues().Of(node.role()).running();
  const auto here = std::count_if(running.begin(), running.end(),
                                  [&](const auto& work) { return NodeOf(work.first) == i; });
  Count(status, done, here, total);
}

void ExplainUpdate(const NodesView& view, const v1::UpdateNode& node, bool rl,
                   v1::ExplainJobResponse* out) {
  v1::NodeStatus* update =
      AddNode(view, absl::StrCat("update ", node.role()), node.role(), node.loss(), out);
  if (rl) update->add_needs("advantage");
  if (view.activity != Activity::kUpdate) return;
  const Group* group = view.groups.Find(node.role());
  const Command* const command = group == nullptr ? nullptr : view.commands.Of(*group);
  // There is no command any more once its ranks have done it; a command that waits for its pool is
  // not sent yet.
  update->set_state(command == nullptr ? "done" : command->sent.empty() ? "waiting" : "running");
  if (command == nullptr) return;
  if (const auto progress = view.commands.ProgressOf(*group)) {
    update->set_done(progress->done);
    update->set_total(progress->total);
  }
}

}  // namespace

void ExplainNodes(const NodesView& view, v1::ExplainJobResponse* out) {
  const bool rl = view.spec.kind() == v1::JOB_KIND_RL;
  if (rl) {
    for (const v1::GenerateNode& node : view.dataflow.generate()) ExplainGenerate(view, node, out);
  }
  const int scores = view.scheduler.table().plan().graph().size();
  for (int i = 0; i < scores; ++i) ExplainScore(view, static_cast<uint32_t>(i), out);
  if (rl) {
    v1::NodeStatus* advantage =
        AddNode(view, "advantage", "controller", view.dataflow.advantage().estimator(), out);
    for (const v1::ScoreNode& node : view.dataflow.score()) advantage->add_needs(node.node());
    if (view.activity == Activity::kBatch) advantage->set_state("running");
    if (view.activity == Activity::kUpdate) advantage->set_state("done");
  }
  for (const v1::UpdateNode& node : view.dataflow.update()) ExplainUpdate(view, node, rl, out);
}

}  // namespace baton::controller
