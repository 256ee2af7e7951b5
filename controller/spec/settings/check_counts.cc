#include "controller/spec/settings/check_counts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/score_graph.h"
#include "controller/spec/settings/train_mix.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton::controller {
namespace {

class CountCheck {
 public:
  explicit CountCheck(Violations* out) : out_(*out), before_(out->size()) {}

  void AtMost(absl::string_view field, int64_t count, int64_t most) {
    if (count > most) out_.Add(field, absl::StrCat("has ", count, " entries, at most ", most));
  }
  // Reported once per list.
  void Name(absl::string_view field, absl::string_view name, size_t most = kMostNameBytes) {
    Text(field, "name", name, most);
  }
  void Text(absl::string_view field, absl::string_view what, absl::string_view text, size_t most) {
    if (text.size() <= most || named_ == field) return;
    named_ = std::string(field);
    out_.Add(field, absl::StrCat("a ", what, " has ", text.size(), " bytes, at most ", most));
  }
  bool good() const { return out_.size() == before_; }

 private:
  Violations& out_;
  const size_t before_;
  std::string named_;
};

void CheckNodes(const v1::Dataflow& dataflow, CountCheck& check) {
  check.AtMost("dataflow.score", dataflow.score_size(), kMaxScoreNodes);
  check.AtMost("dataflow.update", dataflow.update_size(), kMostUpdates);
  check.AtMost("dataflow.generate", dataflow.generate_size(), kMostUpdates);
  check.AtMost("dataflow.advantage.rewards", dataflow.advantage().rewards_size(), kMaxScoreNodes);
  int64_t inputs = 0;
  for (const v1::ScoreNode& node : dataflow.score()) {
    inputs += node.inputs_size();
    for (const std::string* name : {&node.node(), &node.role(), &node.method(), &node.out()}) {
      check.Name("dataflow.score", *name);
    }
    for (const std::string& input : node.inputs()) check.Name("dataflow.score", input);
  }
  check.AtMost("dataflow.score.inputs", inputs, kMostInputs);
  for (const v1::UpdateNode& node : dataflow.update()) check.Name("dataflow.update", node.role());
  for (const auto& [out, weight] : dataflow.advantage().rewards()) {
    check.Name("dataflow.advantage.rewards", out);
  }
}

void CheckPools(const v1::ResourcesSpec& resources, CountCheck& check) {
  check.AtMost("resources.pools", resources.pools_size(), kMostRoles);
  check.AtMost("resources.role_workers", resources.role_workers_size(), kMostRoles);
  int64_t roles = 0, layouts = 0;
  for (const v1::PoolSpec& pool : resources.pools()) {
    roles += pool.roles_size();
    layouts += pool.layouts_size();
    for (const std::string& role : pool.roles()) check.Name("resources.pools", role);
    for (const auto& [role, layout] : pool.layouts()) check.Name("resources.pools", role);
  }
  check.AtMost("resources.pools.roles", roles, kMostRoles);
  check.AtMost("resources.pools.layouts", layouts, kMostRoles);
  for (const auto& [role, workers] : resources.role_workers()) {
    check.Name("resources.role_workers", role);
  }
}

void CheckLabels(const v1::JobSpec& spec, CountCheck& check) {
  check.AtMost("labels", spec.labels_size(), kMostLabels);
  for (const auto& [name, value] : spec.labels()) {
    check.Name("labels", name, kNameBytes);
    check.Text("labels", "value", value, kLabelBytes);
  }
}

}  // namespace

bool CheckCounts(const v1::JobSpec& spec, Violations* out) {
  CountCheck check(out);
  CheckNodes(spec.dataflow(), check);
  CheckPools(spec.resources(), check);
  check.AtMost("data.train_mix", spec.data().train_mix_size(), kMostMixedFiles);
  CheckLabels(spec, check);
  return check.good();
}

}  // namespace baton::controller
