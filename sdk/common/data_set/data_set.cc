#include "sdk/common/data_set/data_set.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/data_set/json_problem.h"
#include "sdk/common/data_set/line_counts.h"
#include "sdk/common/data_set/line_fields.h"
#include "sdk/common/data_set/number_text.h"
#include "sdk/common/data_set/parse_line.h"

namespace baton {
namespace {

using Json = DataJson;

constexpr size_t kShownOfLine = 4096;   // for what a file may be instead
constexpr size_t kLinesForKeys = 1000;  // of each file, whose keys are looked at

// The key that the spec names, or else the usual one.
absl::string_view KeyOr(const std::string& key, absl::string_view usual) {
  return key.empty() ? usual : absl::string_view(key);
}

std::string NamedBy(const std::string& key, const char* field) {
  return key.empty() ? "" : absl::StrCat(" (spec.data.", field, ")");
}

bool SameTurn(const v1::ChatMessage& a, const v1::ChatMessage& b) {
  return a.role() == b.role() && a.has_content() == b.has_content() && a.content() == b.content() &&
         a.tool_calls_json() == b.tool_calls_json() &&
         a.other_fields_json() == b.other_fields_json();
}

void SetResponse(Response response, Example* out) {
  out->response = std::move(response.text);
  out->response_messages = std::move(response.messages);
}

absl::Status NoPrompt(const Json& object, const DataSetOptions& options) {
  if (!options.prompt_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("`", options.prompt_key,
                                                   "` is missing (spec.data.prompt_key); the line "
                                                   "has ",
                                                   object.empty() ? "no key" : KeysOf(object)));
  }
  if (object.empty()) return absl::InvalidArgumentError("`prompt` is missing");
  return absl::InvalidArgumentError(
      absl::StrCat("`prompt` is missing, and so is `messages`; the line has ", KeysOf(object),
                   ": say which is the prompt with spec.data.prompt_key"));
}

// The places of the turns of the assistant that may be trained on: those whose weight is not 0.
std::vector<size_t> TrainableTurns(const Said& said) {
  std::vector<size_t> places;
  for (size_t i = 0; i < said.messages.size(); ++i) {
    if (said.messages[i].role() == "assistant" && said.weights[i]) places.push_back(i);
  }
  return places;
}

bool HasAssistant(const Said& said) {
  return std::any_of(said.messages.begin(), said.messages.end(),
                     [](const v1::ChatMessage& turn) { return turn.role() == "assistant"; });
}

// Prompt and response of a conversation: the last turn of the assistant that may be trained on
// (with `all_turns` the turns from the first one to the last one), and what precedes it.
absl::Status SplitAtResponse(Said said, bool all_turns, Example* out) {
  const auto& turns = said.messages;
  if (!HasAssistant(said)) {
    return absl::InvalidArgumentError(
        "`messages` has no turn of the assistant; kind sft trains on the last one");
  }
  const std::vector<size_t> trainable = TrainableTurns(said);
  out->weightless = trainable.empty();
  if (out->weightless) return absl::OkStatus();
  const auto begin = static_cast<std::ptrdiff_t>(all_turns ? trainable.front() : trainable.back());
  const auto end = static_cast<std::ptrdiff_t>(trainable.back() + 1);
  Said response;
  response.messages.assign(turns.begin() + begin, turns.begin() + end);
  response.weights.assign(said.weights.begin() + begin, said.weights.begin() + end);
  BATON_ASSIGN_OR_RETURN(
      Response read,
      ReadResponse(response, all_turns, "the last turn of the assistant in `messages`"));
  SetResponse(std::move(read), out);
  if (begin == 0) {
    return absl::InvalidArgumentError(
        "`messages` begins with the assistant's turn; it needs a prompt before it");
  }
  out->messages.assign(turns.begin(), turns.begin() + begin);
  return absl::OkStatus();
}

// The prompt of a conversation: all up to the last turn of the user.
absl::Status CutToPrompt(Said said, Example* out) {
  auto& turns = said.messages;
  const auto last = std::find_if(turns.rbegin(), turns.rend(),
                                 [](const v1::ChatMessage& turn) { return turn.role() == "user"; });
  if (last == turns.rend()) {
    return absl::InvalidArgumentError(
        "`messages` has no turn of the user; a prompt ends with the last one");
  }
  out->cut_turns = last.base() != turns.end();
  turns.erase(last.base(), turns.end());
  out->messages = std::move(turns);
  return absl::OkStatus();
}

absl::Status TakePrompt(const Json& object, const DataSetOptions& options, Example* out) {
  BATON_ASSIGN_OR_RETURN(Said prompt, ReadPrompt(object, KeyOr(options.prompt_key, "prompt")));
  Said messages;
  const bool answered = !options.needs_response || out->has_response();
  if (options.prompt_key.empty() && (prompt.absent() || !answered)) {
    BATON_ASSIGN_OR_RETURN(messages, ReadSaid(object, "messages"));
    if (!messages.text.empty()) {
      return absl::InvalidArgumentError("`messages` is a string, not a list of messages");
    }
  }
  if (!messages.absent()) {
    return answered ? CutToPrompt(std::move(messages), out)
                    : SplitAtResponse(std::move(messages), options.all_turns, out);
  }
  if (prompt.absent()) return NoPrompt(object, options);
  if (!options.needs_response && !prompt.messages.empty() &&
      prompt.messages.back().role() == "assistant") {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", KeyOr(options.prompt_key, "prompt"),
        "` ends with a turn of the assistant, and rollouts do not continue one; end it with a turn "
        "of the user or of a tool",
        options.prompt_key.empty() ? ", or name the conversation `messages`" : ""));
  }
  out->prompt = std::move(prompt.text);
  out->messages = std::move(prompt.messages);
  return absl::OkStatus();
}

absl::Status TakeResponse(const Json& object, const DataSetOptions& options, Example* out) {
  const absl::string_view usual =
      FindKey(object, "response") == nullptr ? "completion" : "response";
  const absl::string_view key = KeyOr(options.response_key, usual);
  const Json* value = FindKey(object, key);
  if (value == nullptr || (value->is_string() && value->get<std::string>().empty())) {
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const Said said, ReadSaid(object, key));
  const bool one_turn = said.messages.size() == 1 || options.all_turns;
  out->weightless = one_turn && HasAssistant(said) && TrainableTurns(said).empty();
  if (out->weightless) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(Response response, ReadResponse(said, options.all_turns, key));
  SetResponse(std::move(response), out);
  return absl::OkStatus();
}

// Whether both responses of a pair say the same.
bool SameResponse(const Example& pair) {
  if (pair.response != pair.rejected) return false;
  const bool turns[] = {!pair.response_messages.empty(), pair.rejected_message.has_value()};
  if (turns[0] != turns[1]) return false;
  return !turns[0] || SameTurn(pair.response_messages.front(), *pair.rejected_message);
}

// The common beginning of both conversations is the prompt, unless the prompt is given as messages.
absl::Status SplitConversations(Said* prompt, Said* chosen, Said* rejected) {
  auto &a = chosen->messages, &b = rejected->messages;
  size_t shared = 0;
  const size_t shorter = std::min(a.size(), b.size());
  while (shared < shorter && SameTurn(a[shared], b[shared])) ++shared;
  if (!prompt->messages.empty()) {
    const auto& said = prompt->messages;
    const bool repeated = shared >= said.size() && a.size() > said.size() &&
                          b.size() > said.size() &&
                          std::equal(said.begin(), said.end(), a.begin(), SameTurn);
    if (!repeated) return absl::OkStatus();  // they are responses alone
    shared = said.size();
  } else if (shared == 0) {
    return prompt->absent()
               ? absl::InvalidArgumentError(
                     "`prompt` is missing, and `chosen` and `rejected` begin with different turns")
               : absl::OkStatus();
  } else if (shared == a.size() && shared == b.size()) {
    return absl::InvalidArgumentError("`chosen` and `rejected` are equal; remove the line");
  }
  const auto border = static_cast<std::ptrdiff_t>(shared);
  prompt->text.clear();
  prompt->messages.assign(a.begin(), a.begin() + border);
  a.erase(a.begin(), a.begin() + border);
  b.erase(b.begin(), b.begin() + border);
  if (!a.empty() && !b.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`", a.empty() ? "chosen" : "rejected",
                                                 "` has no turn after those that both begin with"));
}

// The characters that both texts begin with are the prompt, without the space at its end.
absl::Status SplitTexts(Said* prompt, Said* chosen, Said* rejected) {
  std::string &a = chosen->text, &b = rejected->text;
  size_t shared = 0;
  while (shared < std::min(a.size(), b.size()) && a[shared] == b[shared]) ++shared;
  const auto inside = [&shared](const std::string& text) {
    return shared < text.size() && (static_cast<unsigned char>(text[shared]) & 0xc0) == 0x80;
  };
  while (shared > 0 && (inside(a) || inside(b))) --shared;
  if (a == b) {
    return absl::InvalidArgumentError("`chosen` and `rejected` are equal; remove the line");
  }
  if (shared > 0 && a[shared - 1] == ' ') --shared;
  if (shared == 0) {
    return absl::InvalidArgumentError(
        "`prompt` is missing, and `chosen` and `rejected` begin with different texts");
  }
  prompt->text = a.substr(0, shared);
  a.erase(0, shared);
  b.erase(0, shared);
  if (!a.empty() && !b.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`", a.empty() ? "chosen" : "rejected",
                                                 "` has no text after what both begin with; give "
                                                 "`prompt`"));
}

// Prompt and both responses; the prompt may be what both conversations, or texts, begin with.
absl::Status TakePair(const Json& object, const DataSetOptions& options, Example* out) {
  BATON_ASSIGN_OR_RETURN(Said prompt, ReadPrompt(object, KeyOr(options.prompt_key, "prompt")));
  for (const char* key : {"chosen", "rejected"}) {
    if (FindKey(object, key) != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", key, "` is missing; kind reward_model learns from pairs"));
  }
  BATON_ASSIGN_OR_RETURN(Said chosen, ReadSaid(object, "chosen"));
  BATON_ASSIGN_OR_RETURN(Said rejected, ReadSaid(object, "rejected"));
  for (const Said* said : {&chosen, &rejected}) {
    if (said->weights.empty() || said->weights.back()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "`", said == &chosen ? "chosen" : "rejected",
        "` ends with a turn of `\"weight\": 0`, which is not trained on; remove the line, or the "
        "weight"));
  }
  if (chosen.messages.empty() != rejected.messages.empty()) {
    return absl::InvalidArgumentError(
        "of `chosen` and `rejected` one is a text and the other messages; write both alike");
  }
  if (!chosen.messages.empty()) {
    BATON_RETURN_IF_ERROR(SplitConversations(&prompt, &chosen, &rejected));
  } else if (prompt.absent()) {
    if (!options.prompt_key.empty()) return NoPrompt(object, options);
    BATON_RETURN_IF_ERROR(SplitTexts(&prompt, &chosen, &rejected));
  }
  BATON_ASSIGN_OR_RETURN(Response better, ReadResponse(chosen, /*several=*/false, "chosen"));
  BATON_ASSIGN_OR_RETURN(Response worse, ReadResponse(rejected, /*several=*/false, "rejected"));
  SetResponse(std::move(better), out);
  out->rejected = std::move(worse.text);
  if (!worse.messages.empty()) out->rejected_message = std::move(worse.messages.front());
  if (SameResponse(*out)) {
    return absl::InvalidArgumentError("`chosen` and `rejected` are equal; remove the line");
  }
  out->prompt = std::move(prompt.text);
  out->messages = std::move(prompt.messages);
  return absl::OkStatus();
}

// True for a line that is a JSON object, even if keys are missing.
bool IsJsonObject(absl::string_view line) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "{") &&
         Json::accept(line.begin(), line.end());
}

// The problems of a file's lines until one line is a JSON object. If no line is, the file is
// something else: that is one problem, which a list of lines would hide.
class FirstLines {
 public:
  void Add(size_t number, const std::string& line, absl::string_view problem) {
    if (lines_.empty()) text_ = line.substr(0, kShownOfLine);
    if (lines_.size() < kMaxProblems) {
      lines_.emplace_back(number, std::string(problem));
    } else {
      ++more_;
    }
  }
  bool Empty() const { return lines_.empty(); }
  /// As problems of lines, which they are. Forgets them.
  void MoveTo(const std::string& file, ProblemList* problems) {
    for (const auto& [number, problem] : lines_) problems->AddLine(file, number, problem);
    for (; more_ > 0; --more_) problems->AddLine(file, 0, "");  // beyond those that are listed
    lines_.clear();
  }
  /// As one problem of the file.
  absl::Status OfFile() const {
    const std::string format = OtherFormat(text_);
    return absl::InvalidArgumentError(absl::StrCat(
        "has no JSON lines, which are one JSON object a line", format.empty() ? "" : "; ", format,
        "; line ", lines_.front().first, ", ", lines_.front().second));
  }
  /// True: the first line begins a JSON array, whose last element may be a line of its own.
  bool IsArray() const { return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text_), "["); }
  /// True: one line alone, which looks like one of a data set.
  bool IsOneBrokenLine() const {
    return lines_.size() == 1 && absl::StartsWith(absl::StripLeadingAsciiWhitespace(text_), "{");
  }

 private:
  std::string text_;  // how the first line begins
  std::vector<std::pair<size_t, std::string>> lines_;
  size_t more_ = 0;
};

// Prompt, and what the kind of job needs beside it.
absl::Status TakeTexts(const Json& object, const DataSetOptions& options, Example* out) {
  const Json* label = FindKey(object, "label");
  const bool labelled = label != nullptr && label->is_boolean();
  const bool pair = FindKey(object, "chosen") != nullptr || FindKey(object, "rejected") != nullptr;
  if (options.needs_pair && (pair || !labelled)) return TakePair(object, options, out);
  const bool trains = options.needs_response || options.needs_pair;
  DataSetOptions asked = options;
  asked.needs_response = trains;
  BATON_RETURN_IF_ERROR(TakeResponse(object, options, out));
  out->weightless = out->weightless && trains;
  if (out->weightless) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(TakePrompt(object, asked, out));
  if (trains && labelled) out->label = label->get<bool>();
  if (!trains || out->weightless || out->has_response()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", KeyOr(options.response_key, "response"), "` is missing",
                   NamedBy(options.response_key, "response_key"), "; kind ",
                   options.needs_pair ? "reward_model" : "sft", " trains on it"));
}

// What a reward gets beside the response: answer, source and extra.
absl::Status TakeRewardFields(absl::string_view line, const Json& json,
                              const DataSetOptions& options, Example* out) {
  const absl::string_view answer_key = KeyOr(options.answer_key, "answer");
  const absl::string_view extra_key = KeyOr(options.extra_key, "extra");
  BATON_RETURN_IF_ERROR(
      TakeText(json, KeyOr(options.source_key, "source"), /*numbers=*/false, &out->source));
  const Json* answer = FindKey(json, answer_key);
  const Json* extra = FindKey(json, extra_key);
  Json kept;  // where a number would not be written as it stands in the line
  if ((answer && HasNumberText(*answer)) || (extra && HasNumberText(*extra))) {
    kept = ParseKeepingNumbers(line);
    answer = FindKey(kept, answer_key);
    extra = FindKey(kept, extra_key);
  }
  out->has_answer = answer != nullptr;
  if (answer != nullptr && answer->is_binary()) {
    out->answer = JsonText(*answer, KeyOrder::kAsGiven);
  } else {
    BATON_RETURN_IF_ERROR(TakeText(json, answer_key, /*numbers=*/true, &out->answer));
  }
  if (extra != nullptr) out->extra_json = JsonText(*extra, KeyOrder::kSorted);
  return absl::OkStatus();
}

// Lines with a label as pairs, each where its second line stands.
class Pairs {
 public:
  /// Nothing while `example` waits for its partner.
  absl::StatusOr<std::optional<Example>> Add(Example example) {
    auto& waiting = waiting_[KeyOf(example)];
    const bool liked = *example.label;
    if (waiting.empty() || *waiting.front().label == liked) {
      waiting.push_back(std::move(example));
      ++unpaired_;
      return std::nullopt;
    }
    Example pair = std::move(waiting.front());
    waiting.pop_front();
    --unpaired_;
    if (liked) std::swap(pair, example);
    pair.rejected = std::move(example.response);
    if (!example.response_messages.empty()) {
      pair.rejected_message = std::move(example.response_messages.front());
    }
    if (SameResponse(pair)) {
      return absl::InvalidArgumentError(
          "the same response to the same prompt has `label` true and false; remove one line");
    }
    pair.label.reset();
    return pair;
  }
  uint64_t unpaired() const { return unpaired_; }

 private:
  // The prompt, each part with its length before it.
  static std::string KeyOf(const Example& example) {
    std::string key;
    const auto add = [&key](absl::string_view text) {
      absl::StrAppend(&key, text.size(), ":", text);
    };
    add(example.prompt);
    for (const v1::ChatMessage& turn : example.messages) add(turn.SerializeAsString());
    add(example.tools_json);
    add(example.chat_template_kwargs_json);
    return key;
  }

  std::unordered_map<std::string, std::deque<Example>> waiting_;  // of one prompt one label
  uint64_t unpaired_ = 0;
};

// DataSet::chat_settings of one example. Kind rl does not use responses.
bool NeedsChatSettings(const Example& example, const DataSetOptions& options) {
  if (!example.chat_template_kwargs_json.empty()) return true;
  const bool trains = options.needs_response || options.needs_pair;
  if (trains && (!example.response_messages.empty() || example.rejected_message.has_value())) {
    return true;
  }
  return std::any_of(example.messages.begin(), example.messages.end(),
                     [](const v1::ChatMessage& turn) { return !turn.other_fields_json().empty(); });
}

// Adds what a line became, or what becomes of it with an earlier one.
absl::Status AddExample(Example example, const DataSetOptions& options, Pairs* pairs,
                        DataSet* out) {
  if (example.cut_turns) ++out->cut_turns;
  if (example.nulls_in_tools) ++out->nulls_in_tools;
  if (example.weightless) {
    ++out->weightless;
  } else if (!example.label.has_value()) {
    out->examples.push_back(std::move(example));
  } else if (options.needs_pair) {
    BATON_ASSIGN_OR_RETURN(std::optional<Example> pair, pairs->Add(std::move(example)));
    if (pair.has_value()) out->examples.push_back(*std::move(pair));
  } else if (*example.label) {
    out->examples.push_back(std::move(example));
  } else {
    ++out->disliked;
  }
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& file, const DataSetOptions& options, Pairs* pairs,
                      LineCounts* counts, DataSet* out, ProblemList* problems) {
  BATON_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(file));
  FirstLines first;
  bool objects = false;
  size_t read = 0;
  for (; lines.Next(); ++read) {
    absl::StatusOr<Example> example = ParseExample(lines.line(), options);
    if (example.ok()) out->memory_bytes += example->MemoryBytes();
    if (out->memory_bytes > options.max_memory_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the examples up to line ", lines.number(), " take ", out->memory_bytes,
                       " bytes in memory, at most ", options.max_memory_bytes));
    }
    absl::Status status = example.status();
    if (status.ok()) {
      if (read < kLinesForKeys) counts->AddKeys(lines.line());
      status = counts->Add(*example, lines.line(), absl::StrCat(file, ":", lines.number()));
    }
    if (status.ok()) status = AddExample(*std::move(example), options, pairs, out);
    objects = objects || (!first.IsArray() && (status.ok() || IsJsonObject(lines.line())));
    if (objects) first.MoveTo(file, problems);
    if (status.ok()) continue;
    if (objects) {
      problems->AddLine(file, lines.number(), status.message());
    } else {
      first.Add(lines.number(), lines.line(), status.message());
    }
  }
  BATON_RETURN_IF_ERROR(lines.status());
  if (read == 0) return absl::InvalidArgumentError("holds no example; give one JSON object a line");
  if (first.IsOneBrokenLine()) first.MoveTo(file, problems);
  return first.Empty() ? absl::OkStatus() : first.OfFile();
}

}  // namespace

std::string Example::PromptText() const {
  if (messages.empty()) return prompt;
  if (messages.size() == 1 && messages.front().role() == "user") return messages.front().content();
  return TurnsText(messages);
}

uint64_t Example::MemoryBytes() const {
  uint64_t bytes = sizeof(Example);
  for (const std::string* text : {&prompt, &tools_json, &chat_template_kwargs_json, &answer,
                                  &response, &rejected, &source, &extra_json}) {
    // A short text lies in the string itself.
    if (text->capacity() >= sizeof(std::string)) bytes += text->capacity() + 1;
  }
  for (const v1::ChatMessage& message : messages) bytes += message.SpaceUsedLong();
  for (const v1::ChatMessage& message : response_messages) bytes += message.SpaceUsedLong();
  if (rejected_message.has_value()) bytes += rejected_message->SpaceUsedLong();
  return bytes;
}

void SetPrompt(const Example& example, v1::Generate* generate) {
  generate->set_prompt(example.prompt);
  generate->mutable_messages()->Assign(example.messages.begin(), example.messages.end());
  generate->set_tools_json(example.tools_json);
  generate->set_chat_template_kwargs_json(example.chat_template_kwargs_json);
}

void SetPrompt(const Example& example, v1::Trajectory* trajectory) {
  trajectory->set_prompt_text(example.PromptText());
  trajectory->mutable_messages()->Assign(example.messages.begin(), example.messages.end());
  trajectory->set_tools_json(example.tools_json);
  trajectory->set_chat_template_kwargs_json(example.chat_template_kwargs_json);
}

void SetResponse(const Example& example, v1::Trajectory* trajectory) {
  trajectory->set_response_text(example.response);
  trajectory->mutable_response_messages()->Assign(example.response_messages.begin(),
                                                  example.response_messages.end());
  if (!example.has_rejected()) return;
  v1::Column* rejected = trajectory->add_columns();
  rejected->set_name("rejected");
  rejected->set_dtype(v1::DATA_TYPE_BYTES);
  rejected->set_data(example.rejected);
  if (example.rejected_message.has_value()) {
    *trajectory->mutable_rejected_message() = *example.rejected_message;
  }
}

absl::StatusOr<Example> ParseExample(absl::string_view line, const DataSetOptions& options) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseLine(line));
  Example example;
  BATON_RETURN_IF_ERROR(TakeTexts(json, options, &example));
  BATON_ASSIGN_OR_RETURN(example.tools_json, ReadTools(json));
  BATON_ASSIGN_OR_RETURN(example.chat_template_kwargs_json, ReadTemplateKwargs(json));
  example.nulls_in_tools = HasNullInTools(json);
  BATON_RETURN_IF_ERROR(TakeRewardFields(line, json, options, &example));
  return example;
}

DataSetOptions OptionsOf(v1::JobKind kind) {
  DataSetOptions options;
  options.needs_response = kind == v1::JOB_KIND_SFT;
  options.needs_pair = kind == v1::JOB_KIND_REWARD_MODEL;
  return options;
}

DataSetOptions OptionsOf(v1::JobKind kind, const v1::DataSpec& data) {
  DataSetOptions options = OptionsOf(kind);
  options.prompt_key = data.prompt_key();
  options.answer_key = data.answer_key();
  options.response_key = data.response_key();
  options.all_turns = options.needs_response && data.loss_on() == "all_assistant";
  options.source_key = data.source_key();
  options.extra_key = data.extra_key();
  return options;
}

DataSet ReadDataSet(const std::vector<std::string>& files, const DataSetOptions& options) {
  DataSet out;
  ProblemList problems;
  Pairs pairs;
  LineCounts counts(options);
  for (const std::string& file : files) {
    const size_t before = out.examples.size();
    const absl::Status status = ReadFile(file, options, &pairs, &counts, &out, &problems);
    if (!status.ok()) problems.AddFile(file, status.message());
    out.file_sizes.push_back(out.examples.size() - before);
    if (absl::IsResourceExhausted(status)) break;
  }
  out.examples.shrink_to_fit();
  out.memory_bytes = 0;  // without those left out
  for (const Example& example : out.examples) {
    out.memory_bytes += example.MemoryBytes();
    out.chat_settings |= NeedsChatSettings(example, options);
  }
  out.unpaired = pairs.unpaired();
  if (out.examples.empty() && out.disliked + out.unpaired + out.weightless > 0) {
    problems.AddFile(
        files.front(),
        out.weightless > 0
            ? absl::StrCat("no line is left: of ", out.weightless,
                           " lines every turn of the assistant has `\"weight\": 0`, and such turns "
                           "are not trained on")
        : out.disliked > 0
            ? absl::StrCat("no line is left: ", out.disliked,
                           " lines have `label: false`, and kind sft imitates what people liked")
            : std::string("no pair can be made: no prompt has both a line with `label: true` and "
                          "one with `label: false`"));
  }
  out.problems = std::move(problems).Take();
  for (std::string& problem : counts.Problems()) out.problems.push_back(std::move(problem));
  out.unanswered = counts.unanswered();
  out.unused_keys = counts.unused_keys();
  return out;
}

}  // namespace baton
