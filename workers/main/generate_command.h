// `baton-worker generate`: responses of a model without a service, to one prompt or to a file of
// them.
#ifndef BATON_WORKERS_MAIN_GENERATE_COMMAND_H_
#define BATON_WORKERS_MAIN_GENERATE_COMMAND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"
#include "workers/main/batch_generation.h"

namespace baton {

struct GenerateOptions {
  std::string model;   ///< A Hugging Face directory, or a checkpoint's folder.
  std::string prompt;  ///< One message of the user if the model has a chat template, else a text.
  bool raw = false;    ///< `prompt` is a text in any case.
  std::string chat_template = "auto";
  google::protobuf::Struct chat_template_kwargs;  ///< As spec.model.chat_template_kwargs.
  std::string chat_template_date;                 ///< "2026-02-03"; empty: today (UTC).
  std::string dtype = "float32";
  std::string device = "cpu";
  int64_t max_new_tokens = 256;
  // Absent: the model's generation_config.json, else 1 (temperature, top_p) and 0 (top_k).
  // With several samples an absent temperature is never 0.
  std::optional<double> temperature;  ///< 0: greedy.
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  uint64_t seed = 1;
  bool tokens = false;  ///< Show the tokens of responses and their log-probs.

  // GenerateFile alone; `prompt` is then not looked at.
  std::string prompts;  ///< A file as data sets are.
  DataSetOptions keys;  ///< How its lines are read: as a job of kind rl reads them.
  std::string out;      ///< A file; "-": standard output.
  int64_t samples = 1;  ///< To each prompt.
  int64_t max_num_seqs = 128;
  int64_t kv_cache_bytes = int64_t{1} << 30;
};

/// `json`, an object such as {"enable_thinking": false}, as variables of a chat template.
[[nodiscard]] absl::StatusOr<google::protobuf::Struct> ReadTemplateKwargs(absl::string_view json);

/// Calls `write` with pieces of the response's text as they are sampled; with options.tokens with a
/// line for each token instead: its id, its log-prob under the full softmax at the sampling
/// temperature, and its bytes as a JSON string. Answers with a sentence for the user if the
/// response has no text that a reader would see; else with "".
[[nodiscard]] absl::StatusOr<std::string> Generate(
    const GenerateOptions& options, const std::function<void(absl::string_view)>& write);

/// Writes the lines of GenerateBatch for `prompts` to `out`, which is there once it is complete: a
/// file that stood there is replaced then. All prompts are checked before the first is generated
/// for. `progress` hears at the start and then after every step; `total` are all prompts.
using TellProgress = std::function<void(const BatchProgress& done, int64_t total)>;
[[nodiscard]] absl::Status GenerateFile(const GenerateOptions& options,
                                        const TellProgress& progress);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_GENERATE_COMMAND_H_
