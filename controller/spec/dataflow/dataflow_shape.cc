#include "controller/spec/dataflow/dataflow_shape.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::controller {

std::string ShapeText(const v1::Dataflow& dataflow) {
  std::vector<std::string> parts;
  for (const v1::GenerateNode& node : dataflow.generate()) parts.push_back(node.purpose());
  for (const v1::ScoreNode& node : dataflow.score()) {
    parts.push_back(absl::StrCat(node.node(), " ", node.role(), ".", node.method(), " -> ",
                                 node.out(), " of ", absl::StrJoin(node.inputs(), ", "), " ",
                                 node.over()));
  }
  for (const v1::UpdateNode& node : dataflow.update()) {
    parts.push_back(absl::StrCat("update ", node.role()));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace baton::controller
