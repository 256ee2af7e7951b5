#include "controller/runtime/payloads/early_responses.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

PartialResponse* EarlyResponses::RoomFor(const Task& task, size_t more) {
  size_t kept = 0;
  for (const auto& [other, partial] : pieces_) kept += partial.tokens.size();
  return kept + more <= bounds_.tokens ? &pieces_[task] : nullptr;
}

void EarlyResponses::Add(Result result) {
  const auto known = std::find_if(results_.begin(), results_.end(), [&](const Result& other) {
    return other.worker == result.worker && other.ref == result.ref;
  });
  const bool repeated = known != results_.end();
  if (repeated) result_bytes_ -= known->result.ByteSizeLong();
  if (result_bytes_ + result.result.ByteSizeLong() > bounds_.result_bytes) {
    result.result.Clear();
    *result.result.mutable_status() = ToProto(absl::ResourceExhaustedError(
        absl::StrCat("the results that came before the data files were read took more than ",
                     bounds_.result_bytes, " bytes")));
  }
  result_bytes_ += result.result.ByteSizeLong();
  if (repeated) {
    *known = std::move(result);
  } else {
    results_.push_back(std::move(result));
  }
}

std::map<EarlyResponses::Task, PartialResponse> EarlyResponses::TakePieces() {
  return std::exchange(pieces_, {});
}

std::vector<EarlyResponses::Result> EarlyResponses::TakeResults() {
  result_bytes_ = 0;
  return std::exchange(results_, {});
}

}  // namespace baton::controller
