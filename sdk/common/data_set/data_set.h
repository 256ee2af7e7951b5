// Prompts and examples from JSONL files.
#ifndef BATON_SDK_COMMON_DATA_SET_DATA_SET_H_
#define BATON_SDK_COMMON_DATA_SET_DATA_SET_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/data_set/answer_use.h"
#include "sdk/common/data_set/line_reader.h"

namespace baton {

/// One line. Either `prompt` or `messages` is set.
struct Example {
  std::string prompt;
  std::vector<v1::ChatMessage> messages;
  std::string tools_json;  ///< A list of functions' schemas; "" when absent.
  /// The line's own variables for the chat template, as a JSON object; "" when there is none.
  std::string chat_template_kwargs_json;
  std::string answer;       ///< A number is as written in the file: "1.10".
  bool has_answer = false;  ///< The line has one; it may be "".
  std::string response;     ///< In a pair: the chosen one.
  std::string rejected;     ///< In a pair only.
  /// The response as turns where a text does not say all of it (v1.Trajectory.response_messages);
  /// `response` is for people then.
  std::vector<v1::ChatMessage> response_messages;
  std::optional<v1::ChatMessage> rejected_message;  ///< The same of `rejected`.
  /// Whether people liked `response`; only in lines that kind sft trains on, or that kind
  /// reward_model pairs.
  std::optional<bool> label;
  /// All that kind sft could train on has `"weight": 0`: there is no response.
  bool weightless = false;
  /// `messages` has turns after those that are the prompt, and they are not used.
  bool cut_turns = false;
  bool nulls_in_tools = false;  ///< null stands inside `tools` or `tool_calls`.
  std::string source;
  std::string extra_json;  ///< Numbers as written, keys sorted; "" when absent.

  bool has_response() const { return !response.empty() || !response_messages.empty(); }
  bool has_rejected() const { return !rejected.empty() || rejected_message.has_value(); }
  /// The prompt as one text, before any chat template: `prompt`, or the content of the only message
  /// where the user says it; of other messages "ROLE: CONTENT", a line each, for people.
  std::string PromptText() const;
  /// Memory that the example takes.
  uint64_t MemoryBytes() const;
};

/// Write the prompt of `example`, before any chat template, where a task to generate and where a
/// trajectory carry it. A worker renders the same prompt from both.
void SetPrompt(const Example& example, v1::Generate* generate);
void SetPrompt(const Example& example, v1::Trajectory* trajectory);
/// Writes the response of `example`, and in a pair the rejected one, where a trajectory carries it.
void SetResponse(const Example& example, v1::Trajectory* trajectory);

/// Lines without an answer that a part of the job gets.
struct UnansweredLines {
  uint64_t lines = 0;
  // Of the first one:
  std::string keys;   ///< "`prompt`, `solution`".
  std::string place;  ///< "FILE:LINE".
  std::string use;    ///< AnswerUse::place.
};

struct DataSet {
  std::vector<Example> examples;
  std::vector<uint64_t> file_sizes;   ///< Number of examples of each file, in the files' order.
  std::vector<std::string> problems;  ///< As ProblemList has them.
  uint64_t disliked = 0;              ///< Lines of kind sft whose label is false: left out.
  uint64_t weightless = 0;            ///< Example::weightless: left out.
  uint64_t cut_turns = 0;             ///< Examples with Example::cut_turns.
  uint64_t unpaired = 0;  ///< Lines of kind reward_model with a label and no partner: left out.
  uint64_t nulls_in_tools = 0;  ///< Lines with null inside `tools` or `tool_calls`.
  /// An example has what workers without kChatSettingsFeature leave out: variables of its own for
  /// the chat template, turns with reasoning or other keys, a response that is turns.
  bool chat_settings = false;
  UnansweredLines unanswered;
  std::vector<std::string> unused_keys;  ///< LineCounts, of the first 1,000 lines of each file.
  uint64_t memory_bytes = 0;             ///< Memory of the examples.
};

struct DataSetOptions {
  bool needs_response = false;  ///< Kind sft.
  bool needs_pair = false;      ///< Kind reward_model: `chosen` and `rejected`, or a `label`.
  bool all_turns = false;       ///< spec.data.loss_on is all_assistant, and a response is needed.
  // Keys of spec.data; empty: the usual ones.
  std::string prompt_key = {};
  std::string answer_key = {};
  std::string response_key = {};
  std::string source_key = {};
  std::string extra_key = {};
  /// The parts of the job that get answers. ReadDataSet then counts the lines that lack one, and
  /// refuses a list in which no line has one that a rule compares with, and a line without one that
  /// a judge quotes.
  std::vector<AnswerUse> answer_uses = {};
  /// Reading ends with a problem once the examples take more: of short lines each takes many times
  /// its length.
  uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
};

/// Reads `files` in order as one list. Empty lines are skipped. A broken line is a problem and
/// is left out; a file that cannot be read, or that holds no example, is one too. From lines with a
/// `label`, kind sft takes those that people liked, and kind reward_model makes pairs: the first
/// liked and the first disliked response to one prompt, the second ones, and so on. Kind sft goes
/// without lines that have weight 0 on all that it could train on. For kind rl it is a problem too
/// if no line has a key that the options name, or an answer that they need. May block.
DataSet ReadDataSet(const std::vector<std::string>& files, const DataSetOptions& options);

/// The options that a job of this kind needs.
DataSetOptions OptionsOf(v1::JobKind kind);
/// As above, with the keys of `data`, spec.data of an effective spec.
DataSetOptions OptionsOf(v1::JobKind kind, const v1::DataSpec& data);

/// Parses one line (docs/formats/data-set.md). If a line has `messages` alone, the last turn of the
/// assistant whose weight is not 0 is the response where one is needed, and the turns before it are
/// the prompt (with all_turns the response begins with the first such turn); else the prompt ends
/// with the last turn of the user. The error says what is wrong, without the file's name.
absl::StatusOr<Example> ParseExample(absl::string_view line, const DataSetOptions& options);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_DATA_SET_H_
