// A job's dataflow as text for people.
#ifndef BATON_SDK_CLI_JOBS_GRAPH_H_
#define BATON_SDK_CLI_JOBS_GRAPH_H_

#include <string>

#include "baton/v1/job_service.pb.h"

namespace baton::cli {

/// A line a node, in the order in which they can begin; what a node waits for stands above it.
std::string GraphAsText(const v1::ExplainJobResponse& job);
/// For Graphviz. Green is done, yellow runs.
std::string GraphAsDot(const std::string& name, const v1::ExplainJobResponse& job);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_JOBS_GRAPH_H_
