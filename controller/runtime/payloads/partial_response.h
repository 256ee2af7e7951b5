// The known tokens of a running generation, and the tokens that older weights drew for it.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_PARTIAL_RESPONSE_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_PARTIAL_RESPONSE_H_

#include <cstdint>
#include <vector>

#include "baton/v1/experience.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

struct PartialResponse {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  std::vector<float> sampling_log_probs;  ///< Empty: equal to log_probs.

  std::vector<int32_t> draft;  ///< Tokens from other weights.

  void Append(const v1::Progress& progress);
  /// Takes all tokens from the columns of a stopped generation's result.
  void TakeAll(const v1::TaskResult& result);
  /// Uses the tokens of an earlier response to the same prompt index as a draft.
  void DraftFrom(const v1::Trajectory& earlier);
  /// Other weights go on: the tokens are a draft for them.
  void BecomeDraft();
  /// Sets the tokens that the generation continues: its own, and the rest of the draft.
  void Fill(v1::Generate* generate) const;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_PARTIAL_RESPONSE_H_
