// The shape of a dataflow: its nodes without their options.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_DATAFLOW_SHAPE_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_DATAFLOW_SHAPE_H_

#include <string>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Nodes and updates, for comparisons. Two graphs with the same text have the same roles, methods
/// and columns. Pure.
std::string ShapeText(const v1::Dataflow& dataflow);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_DATAFLOW_SHAPE_H_
