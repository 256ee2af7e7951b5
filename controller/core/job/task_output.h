// The output of a task, as the core of its job needs it.
#ifndef BATON_CONTROLLER_CORE_JOB_TASK_OUTPUT_H_
#define BATON_CONTROLLER_CORE_JOB_TASK_OUTPUT_H_

#include <cstdint>
#include <map>
#include <string>

#include "controller/core/job/trajectory.h"

namespace baton::controller {

struct TaskOutput {
  uint32_t tokens = 0;
  uint32_t prompt_tokens = 0;
  std::string finish_reason;
  PayloadLocation location;  ///< Of a generation, or of a score's columns; already written.
  std::map<std::string, double> metrics;
  std::string error;          ///< A reward failed on this response …
  bool infra_failed = false;  ///< … for a reason of the infrastructure.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_TASK_OUTPUT_H_
