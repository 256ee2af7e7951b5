#include "sdk/cli/jobs/graph.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "sdk/cli/shared/table.h"

namespace baton::cli {
namespace {

// Longest way from a node without needs.
std::map<std::string, int> Depths(const v1::ExplainJobResponse& job) {
  std::map<std::string, int> depth;
  for (int round = 0; round < job.nodes_size(); ++round) {
    for (const v1::NodeStatus& node : job.nodes()) {
      for (const std::string& need : node.needs()) {
        depth[node.node()] = std::max(depth[node.node()], depth[need] + 1);
      }
    }
  }
  return depth;
}

std::string Mark(const v1::NodeStatus& node) {
  if (node.state() == "done") return "[x]";
  return node.state() == "running" ? "[>]" : "[ ]";
}

std::string ProgressText(const v1::NodeStatus& node) {
  if (node.done() < 0 || node.total() == 0) return node.state();
  return absl::StrCat(node.done(), "/", node.total(),
                      node.running() > 0 ? absl::StrCat(", ", node.running(), " in work") : "");
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

std::string GraphAsText(const v1::ExplainJobResponse& job) {
  std::map<std::string, int> depth = Depths(job);
  std::vector<const v1::NodeStatus*> nodes;
  for (const v1::NodeStatus& node : job.nodes()) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(), [&](const auto* a, const auto* b) {
    return depth[a->node()] < depth[b->node()];
  });
  Table table({"NODE", "ROLE", "METHOD", "MAKES", "AFTER", "STATE"});
  for (const v1::NodeStatus* node : nodes) {
    const std::string indent(static_cast<size_t>(2 * depth[node->node()]), ' ');
    table.Add({absl::StrCat(Mark(*node), " ", indent, node->node()), node->role(), node->method(),
               node->out().empty() ? "-" : node->out(),
               node->needs().empty() ? "-" : absl::StrJoin(node->needs(), ", "),
               ProgressText(*node)});
  }
  return table.Format();
}

std::string GraphAsDot(const std::string& name, const v1::ExplainJobResponse& job) {
  std::string out = absl::StrCat("digraph ", Quoted(name),
                                 " {\n  rankdir=LR;\n  node [shape=box, style=filled];\n");
  for (const v1::NodeStatus& node : job.nodes()) {
    const char* color = node.state() == "done"      ? "palegreen"
                        : node.state() == "running" ? "khaki"
                                                    : "white";
    const std::string label =
        absl::StrCat(node.node(), "\n", node.role(), ".", node.method(), "\n", ProgressText(node));
    absl::StrAppend(&out, "  ", Quoted(node.node()),
                    " [label=", absl::StrReplaceAll(Quoted(label), {{"\n", "\\n"}}),
                    ", fillcolor=", color, "];\n");
  }
  for (const v1::NodeStatus& node : job.nodes()) {
    for (const std::string& need : node.needs()) {
      absl::StrAppend(&out, "  ", Quoted(need), " -> ", Quoted(node.node()), ";\n");
    }
  }
  return out + "}\n";
}

}  // namespace baton::cli
