// Prompts and examples from JSONL files.
#ifndef BATON_CONTROLLER_RUNTIME_DATA_SET_H_
#define BATON_CONTROLLER_RUNTIME_DATA_SET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

/// One line. Either `prompt` or `messages` is set.
struct Example {
  std::string prompt;
  std::vector<v1::ChatMessage> messages;
  std::string answer;
  std::string response;  ///< Of a pair: the chosen one.
  std::string rejected;  ///< Of a pair.
  std::string source;
  std::string extra_json;  ///< As given; "" when absent.

  /// For people: the prompt, or the messages' contents one after the other.
  std::string PromptText() const;
};

struct DataSet {
  std::vector<Example> examples;
  std::vector<std::string> problems;  ///< "FILE:LINE: what"; at most 20, then how many more.
};

struct DataSetOptions {
  bool needs_response = false;  ///< Kind sft.
  bool needs_pair = false;      ///< Kind reward_model: `chosen` and `rejected`.
};

/// Reads `files` in order as one list. Empty lines are skipped. A broken line is a problem and
/// is left out; a file that cannot be read, or that holds no example, is one too. May block.
DataSet ReadDataSet(const std::vector<std::string>& files, const DataSetOptions& options);

/// What a job of this kind needs of its examples; held-out ones of kind sft are prompts alone.
DataSetOptions OptionsOf(v1::JobKind kind, bool held_out);

/// Parses one line. The error says what is wrong, without the file's name.
absl::StatusOr<Example> ParseExample(absl::string_view line, const DataSetOptions& options);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_DATA_SET_H_
