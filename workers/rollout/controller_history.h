// Earlier responses from the controller, for the trees of this replica.
#ifndef BATON_WORKERS_ROLLOUT_CONTROLLER_HISTORY_H_
#define BATON_WORKERS_ROLLOUT_CONTROLLER_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/experience_client.h"
#include "workers/rollout/speculation/history_fetcher.h"

namespace baton::rollout {

class ControllerHistory : public HistorySource {
 public:
  /// The history of the job of an "assign_role" task that has a history_capability. `client`
  /// outlives this.
  ControllerHistory(const ExperienceClient* client, const v1::Task& task);

  absl::StatusOr<std::vector<HistoryResponse>> Fetch(
      absl::Span<const HistoryPrompt> prompts) override;
  void Cancel() override { canceller_.Cancel(); }

 private:
  const ExperienceClient* const client_;
  v1::FetchHistoryRequest request_;  // without prompts
  CallCanceller canceller_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_CONTROLLER_HISTORY_H_
