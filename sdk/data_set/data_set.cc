#include "sdk/data_set/data_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/base/status_macros.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxProblems = 20;
constexpr size_t kMaxLine = 16u << 20;
constexpr int kMaxNesting = 100;  // Json::dump recurses: a line must not empty the stack

// The deepest nesting of brackets outside strings. Never too small for valid JSON.
int NestingOf(absl::string_view json) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// A string, or a number written as one, as data sets often have in `answer`.
absl::Status TakeText(const Json& object, const char* key, bool numbers, std::string* out) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return absl::OkStatus();
  if (it->is_string()) {
    *out = it->get<std::string>();
  } else if (numbers && (it->is_number() || it->is_boolean())) {
    *out = it->dump();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("`", key, "` is ", it->type_name(), ", not a string"));
  }
  return absl::OkStatus();
}

absl::Status TakeMessages(const Json& list, Example* out) {
  if (list.empty()) return absl::InvalidArgumentError("`prompt` is an empty list");
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& turn = list[i];
    v1::ChatMessage message;
    const bool good = turn.is_object() && turn.contains("role") && turn["role"].is_string() &&
                      turn.contains("content") && turn["content"].is_string();
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("`prompt[", i, "]` is not {\"role\": string, \"content\": string}"));
    }
    message.set_role(turn["role"].get<std::string>());
    message.set_content(turn["content"].get<std::string>());
    if (message.role() != "system" && message.role() != "user" && message.role() != "assistant") {
      return absl::InvalidArgumentError(absl::StrCat("`prompt[", i, "].role` is '", message.role(),
                                                     "', not one of: system, user, assistant"));
    }
    out->messages.push_back(std::move(message));
  }
  return absl::OkStatus();
}

absl::Status TakePair(const Json& object, Example* out) {
  out->response.clear();
  BATON_RETURN_IF_ERROR(TakeText(object, "chosen", false, &out->response));
  BATON_RETURN_IF_ERROR(TakeText(object, "rejected", false, &out->rejected));
  if (out->response.empty() || out->rejected.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", out->response.empty() ? "chosen" : "rejected",
                     "` is missing; kind reward_model learns from pairs"));
  }
  if (out->response == out->rejected) {
    return absl::InvalidArgumentError("`chosen` and `rejected` are equal; remove the line");
  }
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& file, const DataSetOptions& options, DataSet* out,
                      ProblemList* problems) {
  BATON_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(file));
  bool empty = true;
  for (; lines.Next(); empty = false) {
    absl::StatusOr<Example> example = ParseExample(lines.line(), options);
    if (example.ok()) {
      out->examples.push_back(*std::move(example));
    } else {
      problems->AddLine(file, lines.number(), example.status().message());
    }
  }
  BATON_RETURN_IF_ERROR(lines.status());
  if (!empty) return absl::OkStatus();
  return absl::InvalidArgumentError("holds no example; give one JSON object a line");
}

}  // namespace

std::string Example::PromptText() const {
  if (messages.empty()) return prompt;
  if (messages.size() == 1 && messages.front().role() == "user") return messages.front().content();
  std::string text;
  for (const v1::ChatMessage& message : messages) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", message.role(), ": ", message.content());
  }
  return text;
}

void SetPrompt(const Example& example, v1::Generate* generate) {
  generate->set_prompt(example.prompt);
  generate->mutable_messages()->Assign(example.messages.begin(), example.messages.end());
}

void SetPrompt(const Example& example, v1::Trajectory* trajectory) {
  trajectory->set_prompt_text(example.PromptText());
  trajectory->mutable_messages()->Assign(example.messages.begin(), example.messages.end());
}

absl::StatusOr<Example> ParseExample(absl::string_view line, const DataSetOptions& options) {
  if (line.size() > kMaxLine) return absl::InvalidArgumentError("the line is longer than 16 MiB");
  if (NestingOf(line) > kMaxNesting) {
    return absl::InvalidArgumentError(
        absl::StrCat("values are nested more than ", kMaxNesting, " deep"));
  }
  const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("not valid JSON");
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  Example example;
  auto prompt = json.find("prompt");
  if (prompt == json.end()) return absl::InvalidArgumentError("`prompt` is missing");
  if (prompt->is_array()) {
    BATON_RETURN_IF_ERROR(TakeMessages(*prompt, &example));
  } else {
    BATON_RETURN_IF_ERROR(TakeText(json, "prompt", false, &example.prompt));
    if (example.prompt.empty()) return absl::InvalidArgumentError("`prompt` is empty");
  }
  BATON_RETURN_IF_ERROR(TakeText(json, "answer", true, &example.answer));
  BATON_RETURN_IF_ERROR(TakeText(json, "response", false, &example.response));
  BATON_RETURN_IF_ERROR(TakeText(json, "source", false, &example.source));
  if (options.needs_response && example.response.empty()) {
    return absl::InvalidArgumentError("`response` is missing; kind sft trains on it");
  }
  if (options.needs_pair) BATON_RETURN_IF_ERROR(TakePair(json, &example));
  auto extra = json.find("extra");
  if (extra != json.end() && !extra->is_null()) {
    example.extra_json = extra->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return example;
}

DataSetOptions OptionsOf(v1::JobKind kind, bool held_out) {
  DataSetOptions options;
  options.needs_response = kind == v1::JOB_KIND_SFT && !held_out;
  options.needs_pair = kind == v1::JOB_KIND_REWARD_MODEL;
  return options;
}

void ProblemList::AddFile(const std::string& file, absl::string_view what) {
  problems_.push_back(absl::StrCat(file, ": ", what));
}

void ProblemList::AddLine(const std::string& file, size_t line, absl::string_view what) {
  if (problems_.size() < kMaxProblems) {
    problems_.push_back(absl::StrCat(file, ":", line, ": ", what));
  } else {
    ++suppressed_;
  }
}

std::vector<std::string> ProblemList::Take() && {
  if (suppressed_ > 0) {
    problems_.push_back(absl::StrCat("… and ", suppressed_, " more broken lines"));
  }
  return std::move(problems_);
}

absl::StatusOr<LineReader> LineReader::Open(const std::string& file) {
  std::error_code code;
  if (std::filesystem::exists(file, code) && !std::filesystem::is_regular_file(file, code)) {
    return absl::InvalidArgumentError("is not a file; give a JSONL file");  // a pipe would block
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::NotFoundError("cannot be opened; check the path and its permissions");
  return LineReader(std::move(in));
}

bool LineReader::Next() {
  while (std::getline(in_, line_)) {
    ++number_;
    if (line_.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

absl::Status LineReader::status() const {
  if (in_.bad()) return absl::DataLossError("cannot be read to its end");
  return absl::OkStatus();
}

DataSet ReadDataSet(const std::vector<std::string>& files, const DataSetOptions& options) {
  DataSet out;
  ProblemList problems;
  for (const std::string& file : files) {
    const absl::Status status = ReadFile(file, options, &out, &problems);
    if (!status.ok()) problems.AddFile(file, status.message());
  }
  out.problems = std::move(problems).Take();
  return out;
}

}  // namespace baton
