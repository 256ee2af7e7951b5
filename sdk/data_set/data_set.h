// Prompts and examples from JSONL files.
#ifndef BATON_SDK_DATA_SET_DATA_SET_H_
#define BATON_SDK_DATA_SET_DATA_SET_H_

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton {

/// One line. Either `prompt` or `messages` is set.
struct Example {
  std::string prompt;
  std::vector<v1::ChatMessage> messages;
  std::string answer;
  std::string response;  ///< Of a pair: the chosen one.
  std::string rejected;  ///< Of a pair.
  std::string source;
  std::string extra_json;  ///< As given; "" when absent.

  /// The prompt as one text, before any chat template: `prompt`, or the content of the only message
  /// where the user says it; of other messages "ROLE: CONTENT", a line each, for people.
  std::string PromptText() const;
};

/// Write the prompt of `example`, before any chat template, where a task to generate and where a
/// trajectory carry it. A worker renders the same prompt from both.
void SetPrompt(const Example& example, v1::Generate* generate);
void SetPrompt(const Example& example, v1::Trajectory* trajectory);

struct DataSet {
  std::vector<Example> examples;
  std::vector<std::string> problems;  ///< As ProblemList has them.
};

/// What is wrong with files, "FILE: what", and with their lines, "FILE:LINE: what": the first 20
/// lines, then how many more.
class ProblemList {
 public:
  void AddFile(const std::string& file, absl::string_view what);
  void AddLine(const std::string& file, size_t line, absl::string_view what);
  std::vector<std::string> Take() &&;

 private:
  std::vector<std::string> problems_;
  size_t suppressed_ = 0;
};

/// The lines of one file, but for those of white space alone, one after the other. One thread.
class LineReader {
 public:
  /// NOT_FOUND, INVALID_ARGUMENT (a folder; a pipe, which would block). No error has the file's
  /// name.
  static absl::StatusOr<LineReader> Open(const std::string& file);

  /// False at the end and when the rest cannot be read, which status() tells apart.
  [[nodiscard]] bool Next();
  const std::string& line() const { return line_; }
  size_t number() const { return number_; }  ///< Of line(), from 1.
  absl::Status status() const;

 private:
  explicit LineReader(std::ifstream in) : in_(std::move(in)) {}

  std::ifstream in_;
  std::string line_;
  size_t number_ = 0;
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

}  // namespace baton

#endif  // BATON_SDK_DATA_SET_DATA_SET_H_
