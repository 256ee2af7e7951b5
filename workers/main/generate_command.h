// `baton-worker generate`: tries a model without a service.
#ifndef BATON_WORKERS_MAIN_GENERATE_COMMAND_H_
#define BATON_WORKERS_MAIN_GENERATE_COMMAND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

struct GenerateOptions {
  std::string model;   ///< A Hugging Face directory, or a checkpoint's folder.
  std::string prompt;  ///< Text, or one user message under a chat template.
  std::string chat_template = "none";
  std::string dtype = "float32";
  std::string device = "cpu";
  int64_t max_new_tokens = 256;
  // Absent: the model's generation_config.json, else 1 (temperature, top_p) and 0 (top_k).
  std::optional<double> temperature;  ///< 0: greedy.
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  uint64_t seed = 1;
};

/// Calls `write` with pieces of the response's text as they are sampled.
[[nodiscard]] absl::Status Generate(const GenerateOptions& options,
                                    const std::function<void(absl::string_view)>& write);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_GENERATE_COMMAND_H_
