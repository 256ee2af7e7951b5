// Any bytes as a JSONL file: examples that say what their lines say, and a problem for every other
// line that is not empty.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/utf8.h"
#include "sdk/common/data_set/data_set.h"

namespace {

using namespace baton;
using Json = nlohmann::ordered_json;  // texts of tools keep their order

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

// A file without a folder.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view bytes) : fd_(::memfd_create("data", MFD_CLOEXEC)) {
    Require(fd_ >= 0, "there is memory for a file");
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      Require(n > 0, "a file in memory takes bytes");
      done += static_cast<size_t>(n);
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

bool SameTurns(const std::vector<v1::ChatMessage>& a, const std::vector<v1::ChatMessage>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = a[i].SerializeAsString() == b[i].SerializeAsString();
  }
  return same;
}

bool Same(const Example& a, const Example& b) {
  const bool same =
      a.prompt == b.prompt && a.answer == b.answer && a.response == b.response &&
      a.rejected == b.rejected && a.label == b.label && a.tools_json == b.tools_json &&
      a.chat_template_kwargs_json == b.chat_template_kwargs_json && a.source == b.source &&
      a.extra_json == b.extra_json && SameTurns(a.messages, b.messages) &&
      SameTurns(a.response_messages, b.response_messages) &&
      a.rejected_message.has_value() == b.rejected_message.has_value();
  return same && (!a.rejected_message.has_value() ||
                  SameTurns({*a.rejected_message}, {*b.rejected_message}));
}

Json TurnOf(const v1::ChatMessage& message) {
  Json turn = {{"role", message.role()}};
  if (message.has_content()) turn["content"] = message.content();
  if (!message.tool_calls_json().empty()) {
    turn["tool_calls"] = Json::parse(message.tool_calls_json());
  }
  if (message.has_name()) turn["name"] = message.name();
  if (message.has_tool_call_id()) turn["tool_call_id"] = message.tool_call_id();
  if (!message.other_fields_json().empty()) turn.update(Json::parse(message.other_fields_json()));
  return turn;
}

// A response: the turn that it is, where a text does not say all of it.
Json ResponseOf(const std::string& text, const std::vector<v1::ChatMessage>& turns) {
  if (turns.empty()) return text;
  Json list = Json::array();
  for (const v1::ChatMessage& turn : turns) list.push_back(TurnOf(turn));
  return list;
}

// The line that a program would write for it.
std::string LineOf(const Example& example, const DataSetOptions& options) {
  Json line;
  const std::string prompt = options.prompt_key.empty() ? "prompt" : options.prompt_key;
  if (example.messages.empty()) line[prompt] = example.prompt;
  for (const auto& message : example.messages) line[prompt].push_back(TurnOf(message));
  line["answer"] = example.answer;
  line["source"] = example.source;
  if (example.has_rejected()) {
    std::vector<v1::ChatMessage> rejected;
    if (example.rejected_message.has_value()) rejected.push_back(*example.rejected_message);
    line["chosen"] = ResponseOf(example.response, example.response_messages);
    line["rejected"] = ResponseOf(example.rejected, rejected);
  } else {
    line["response"] = ResponseOf(example.response, example.response_messages);
  }
  if (!example.chat_template_kwargs_json.empty()) {
    line["chat_template_kwargs"] = Json::parse(example.chat_template_kwargs_json);
  }
  if (example.label.has_value()) line["label"] = *example.label;
  if (!example.tools_json.empty()) line["tools"] = Json::parse(example.tools_json);
  std::string text = line.dump();
  if (!example.extra_json.empty()) {  // its numbers stay as they are written
    text.insert(text.size() - 1, absl::StrCat(",\"extra\":", example.extra_json));
  }
  return text;
}

void CheckExample(const Example& example, const DataSetOptions& options) {
  Require(example.prompt.empty() != example.messages.empty(), "a prompt or messages");
  Require(!options.needs_response || example.has_response(), "sft has something to train on");
  Require(!options.needs_pair || example.label.has_value() || example.has_rejected(),
          "a reward model has two responses, or one with a label");
  for (const std::string* text :
       {&example.prompt, &example.answer, &example.response, &example.rejected, &example.source,
        &example.extra_json, &example.tools_json, &example.chat_template_kwargs_json}) {
    Require(baton::IsValidUtf8(*text), "texts are UTF-8, as the API's messages need it");
  }
  for (const auto& message : example.messages) {
    Require(message.role() == "system" || message.role() == "developer" ||
                message.role() == "user" || message.role() == "assistant" ||
                message.role() == "tool",
            "a role that chat templates know");
    Require(baton::IsValidUtf8(message.content()) &&
                baton::IsValidUtf8(message.tool_calls_json()) &&
                baton::IsValidUtf8(message.name()) && baton::IsValidUtf8(message.tool_call_id()) &&
                baton::IsValidUtf8(message.other_fields_json()),
            "what a turn says is UTF-8");
  }
  Require(baton::IsValidUtf8(example.PromptText()), "people can read it");
  const auto again = ParseExample(LineOf(example, options), options);
  Require(again.ok() && Same(*again, example), "what is written is read again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  DataSetOptions options;
  options.needs_response = data[0] % 4 == 1;
  options.needs_pair = data[0] % 4 == 2;
  if (data[0] % 8 >= 4) options.prompt_key = "q";
  const MemoryFile file(text);
  const DataSet read = ReadDataSet({file.path()}, options);

  std::vector<Example> expected;
  size_t broken = 0, labelled = 0;
  bool objects = false;  // some line is a JSON object
  bool array = false;    // the file begins as a JSON array
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
    auto example = ParseExample(line, options);
    const absl::string_view begin = absl::StripLeadingAsciiWhitespace(line);
    if (!objects && broken == 0) array = absl::StartsWith(begin, "[");
    objects = objects || example.ok() || (absl::StartsWith(begin, "{") && Json::accept(line));
    if (!example.ok()) {
      Require(!example.status().message().empty(), "a broken line says why");
      ++broken;
      continue;
    }
    CheckExample(*example, options);
    if (example->label.has_value()) ++labelled;
    if (options.needs_pair && example->label.has_value()) continue;  // half of a pair
    if (example->label == false) continue;
    expected.push_back(*std::move(example));
  }
  // A file without JSON lines is one problem; its lines are not listed.
  const size_t lines = objects && !array ? std::min<size_t>(broken, 20) + (broken > 20 ? 1 : 0)
                                         : std::min<size_t>(broken, 1);
  if (options.needs_pair && labelled > 0) {
    const size_t pairs = read.examples.size() - expected.size();
    Require(read.examples.size() >= expected.size(), "lines with a pair are examples");
    Require(2 * pairs + read.unpaired <= labelled, "a line with a label is half of one pair");
    Require(read.problems.size() >= lines, "every broken line is a problem");
  } else {
    Require(std::equal(read.examples.begin(), read.examples.end(), expected.begin(), expected.end(),
                       Same),
            "the file's examples are its lines', in order");
    const bool left_out = read.disliked > 0 && expected.empty();
    const size_t problems = expected.empty() && broken == 0 ? 1 : lines + (left_out ? 1 : 0);
    Require(read.problems.size() == problems,
            "every broken line is a problem, the 21st and on one");
  }
  for (const std::string& problem : read.problems) {
    Require(baton::IsValidUtf8(problem), "a problem can be sent");
  }
  const DataSet twice = ReadDataSet({file.path(), file.path()}, options);
  Require(twice.examples.size() >= 2 * read.examples.size(), "files are read one after the other");
  return 0;
}
