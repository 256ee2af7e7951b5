#include "sdk/cli/jobs/graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

v1::ExplainJobResponse SomeJob() {
  v1::ExplainJobResponse job;
  const auto add = [&](const char* node, const char* role, const char* method, const char* state,
                       std::initializer_list<const char*> needs) {
    v1::NodeStatus* status = job.add_nodes();
    status->set_node(node);
    status->set_role(role);
    status->set_method(method);
    status->set_state(state);
    status->set_done(-1);
    for (const char* need : needs) status->add_needs(need);
    return status;
  };
  add("update actor", "actor", "ppo_clip", "waiting", {"advantage"});
  add("advantage", "controller", "gae", "waiting", {"values"});
  v1::NodeStatus* values = add("values", "critic", "compute_values", "running", {"generate"});
  values->set_out("values");
  values->set_done(3);
  values->set_running(2);
  values->set_total(8);
  v1::NodeStatus* generate = add("generate", "rollout", "generate", "done", {});
  generate->set_done(8);
  generate->set_total(8);
  return job;
}

TEST(GraphTest, TextHasEachNodeBelowWhatItWaitsFor) {
  EXPECT_EQ(
      GraphAsText(SomeJob()),
      "NODE                    ROLE        METHOD          MAKES   AFTER      STATE\n"
      "[x] generate            rollout     generate        -       -          8/8\n"
      "[>]   values            critic      compute_values  values  generate   3/8, 2 in work\n"
      "[ ]     advantage       controller  gae             -       values     waiting\n"
      "[ ]       update actor  actor       ppo_clip        -       advantage  waiting\n");
}

TEST(GraphTest, DotHasEveryNodeAndEdge) {
  const std::string dot = GraphAsDot("my \"job\"", SomeJob());
  EXPECT_THAT(dot, HasSubstr("digraph \"my \\\"job\\\"\" {"));
  EXPECT_THAT(dot, HasSubstr("  \"generate\" -> \"values\";\n"));
  EXPECT_THAT(dot, HasSubstr("  \"advantage\" -> \"update actor\";\n"));
  EXPECT_THAT(dot, HasSubstr("\"values\" [label=\"values\\ncritic.compute_values\\n3/8, 2 in "
                             "work\", fillcolor=khaki];"));
}

}  // namespace
}  // namespace baton::cli
