// The sources of lines that rules of a job are limited to.
#ifndef BATON_SDK_COMMON_DATA_SET_RULE_SOURCES_H_
#define BATON_SDK_COMMON_DATA_SET_RULE_SOURCES_H_

#include <set>
#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton {

struct SourceProblem {
  std::string field;  ///< "spec.reward.rules[0].when.source".
  std::string what;
};

/// The mistakes in spec.reward.rules[i].when: a source that no line has, and lines that get a
/// reward from no part of the job. `sources`: those of all lines of train_files and val_files; "":
/// of lines without one.
std::vector<SourceProblem> FindSourceProblems(const v1::JobSpec& spec,
                                              const std::set<std::string>& sources);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_RULE_SOURCES_H_
