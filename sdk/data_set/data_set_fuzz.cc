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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "sdk/base/utf8.h"
#include "sdk/data_set/data_set.h"

namespace {

using namespace baton;
using Json = nlohmann::json;

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

bool Same(const Example& a, const Example& b) {
  bool same = a.prompt == b.prompt && a.answer == b.answer && a.response == b.response &&
              a.source == b.source && a.extra_json == b.extra_json &&
              a.messages.size() == b.messages.size();
  for (size_t i = 0; same && i < a.messages.size(); ++i) {
    same = a.messages[i].role() == b.messages[i].role() &&
           a.messages[i].content() == b.messages[i].content();
  }
  return same;
}

// The line that a program would write for it.
std::string LineOf(const Example& example) {
  Json line;
  if (example.messages.empty()) line["prompt"] = example.prompt;
  for (const auto& message : example.messages) {
    line["prompt"].push_back({{"role", message.role()}, {"content", message.content()}});
  }
  line["answer"] = example.answer;
  line["response"] = example.response;
  line["source"] = example.source;
  if (!example.extra_json.empty()) line["extra"] = Json::parse(example.extra_json);
  return line.dump();
}

void CheckExample(const Example& example, const DataSetOptions& options) {
  Require(example.prompt.empty() != example.messages.empty(), "a prompt or messages");
  Require(!options.needs_response || !example.response.empty(), "sft has something to train on");
  for (const std::string* text : {&example.prompt, &example.answer, &example.response,
                                  &example.source, &example.extra_json}) {
    Require(baton::IsValidUtf8(*text), "texts are UTF-8, as the API's messages need it");
  }
  for (const auto& message : example.messages) {
    Require(message.role() == "system" || message.role() == "user" || message.role() == "assistant",
            "a role that chat templates know");
  }
  Require(baton::IsValidUtf8(example.PromptText()), "people can read it");
  const auto again = ParseExample(LineOf(example), options);
  Require(again.ok() && Same(*again, example), "what is written is read again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  DataSetOptions options;
  options.needs_response = data[0] % 2 == 1;
  const MemoryFile file(text);
  const DataSet read = ReadDataSet({file.path()}, options);

  std::vector<Example> expected;
  size_t broken = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
    auto example = ParseExample(line, options);
    if (!example.ok()) {
      Require(!example.status().message().empty(), "a broken line says why");
      ++broken;
      continue;
    }
    CheckExample(*example, options);
    expected.push_back(*std::move(example));
  }
  Require(std::equal(read.examples.begin(), read.examples.end(), expected.begin(), expected.end(),
                     Same),
          "the file's examples are its lines', in order");
  const size_t lines = std::min<size_t>(broken, 20) + (broken > 20 ? 1 : 0);
  const size_t problems = expected.empty() && broken == 0 ? 1 : lines;
  Require(read.problems.size() == problems, "every broken line is a problem, the 21st and on one");
  for (const std::string& problem : read.problems) {
    Require(baton::IsValidUtf8(problem), "a problem can be sent");
  }
  const DataSet twice = ReadDataSet({file.path(), file.path()}, options);
  Require(twice.examples.size() == 2 * expected.size(), "files are read one after the other");
  return 0;
}
