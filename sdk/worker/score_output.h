// The name of a scoring method's result.
#ifndef BATON_SDK_WORKER_SCORE_OUTPUT_H_
#define BATON_SDK_WORKER_SCORE_OUTPUT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "baton/v1/worker_service.pb.h"

namespace baton {

/// The name that the dataflow's node gives to the number or column: its option `out`. Without this
/// option, `default_name`: "reward", "values" …
inline std::string OutputName(const v1::Score& score, absl::string_view default_name) {
  const auto out = score.options().fields().find("out");
  const bool named = out != score.options().fields().end() && !out->second.string_value().empty();
  return named ? out->second.string_value() : std::string(default_name);
}

}  // namespace baton

#endif  // BATON_SDK_WORKER_SCORE_OUTPUT_H_
