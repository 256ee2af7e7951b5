// The tokens that are known of a generation that runs.
#ifndef BATON_CONTROLLER_RUNTIME_PARTIAL_RESPONSE_H_
#define BATON_CONTROLLER_RUNTIME_PARTIAL_RESPONSE_H_

#include <cstdint>
#include <vector>

#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

struct PartialResponse {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  std::vector<float> sampling_log_probs;  ///< Empty: equal to log_probs.

  void Append(const v1::Progress& progress);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PARTIAL_RESPONSE_H_
