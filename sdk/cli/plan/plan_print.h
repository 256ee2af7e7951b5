// A plan as text and as JSON.
#ifndef BATON_SDK_CLI_PLAN_PLAN_PRINT_H_
#define BATON_SDK_CLI_PLAN_PLAN_PRINT_H_

#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "sdk/planner/placement/search.h"

namespace baton::cli {

struct PlanReport {
  const placement::Problem& problem;
  const placement::SearchResult& result;
  std::vector<std::string> notes;
  size_t top = 5;             ///< Runners-up that are shown.
  double search_seconds = 0;  ///< Duration of the search.
};

std::string PlanAsText(const PlanReport& report);
std::string PlanAsJson(const PlanReport& report);
/// The plan as `resources` of a spec, and nothing else.
v1::JobSpec PlanAsSpec(const PlanReport& report);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_PLAN_PLAN_PRINT_H_
