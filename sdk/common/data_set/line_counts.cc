#include "sdk/common/data_set/line_counts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/data_set/line_fields.h"
#include "sdk/common/data_set/unused_keys.h"

namespace baton {
namespace {

constexpr size_t kMostUnusedKeys = 32;
constexpr size_t kUnusedKeyShown = 64;  // bytes

DataJson ParseGood(const std::string& line) {
  return DataJson::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::string Advice(const DataJson& line) {
  const std::string likely = LikelyAnswerKey(line);
  if (!likely.empty()) {
    return absl::StrCat("if `", likely, "` is the answer, set spec.data.answer_key: ", likely);
  }
  return "say which is the answer with spec.data.answer_key, or write \"answer\": \"\" where it is "
         "empty";
}

std::string AnswerKey(const DataSetOptions& options) {
  return options.answer_key.empty()
             ? std::string("`answer`")
             : absl::StrCat("`", options.answer_key, "` (spec.data.answer_key)");
}

std::string Lines(uint64_t count) { return absl::StrCat(count, count == 1 ? " line" : " lines"); }

}  // namespace

LineCounts::LineCounts(const DataSetOptions& options)
    : options_(options), answers_(options.answer_uses.size()) {}

absl::Status LineCounts::Add(const Example& example, const std::string& line,
                             const std::string& place) {
  if (lines_++ == 0) first_ = line;
  with_answer_ += example.has_answer ? 1 : 0;
  with_source_ += example.source.empty() ? 0 : 1;
  with_extra_ += example.extra_json.empty() ? 0 : 1;
  bool missed = false;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const AnswerUse& use = options_.answer_uses[i];
    if (!use.AppliesTo(example.source)) continue;
    ++answers_[i].lines;
    if (example.has_answer) continue;
    if (use.kind == AnswerUse::Kind::kQuotes) {
      const DataJson json = ParseGood(line);
      return absl::InvalidArgumentError(absl::StrCat(AnswerKey(options_), " is missing, and ",
                                                     use.place, " quotes it; the line has ",
                                                     KeysOf(json), ": ", Advice(json)));
    }
    if (answers_[i].unanswered++ == 0) answers_[i].first = line;
    if (missed) continue;
    missed = true;
    if (unanswered_.lines++ > 0) continue;
    unanswered_.keys = KeysOf(ParseGood(line));
    unanswered_.place = place;
    unanswered_.use = use.place;
  }
  return absl::OkStatus();
}

void LineCounts::AddKeys(const std::string& line) {
  for (std::string& key : UnusedKeys(ParseGood(line), options_)) {
    if (unused_keys_.size() >= kMostUnusedKeys) return;
    size_t end = std::min(key.size(), kUnusedKeyShown);
    while (end < key.size() && (static_cast<unsigned char>(key[end]) & 0xc0) == 0x80) --end;
    key.resize(end);
    if (std::find(unused_keys_.begin(), unused_keys_.end(), key) == unused_keys_.end()) {
      unused_keys_.push_back(std::move(key));
    }
  }
}

std::vector<std::string> LineCounts::Problems() const {
  std::vector<std::string> out;
  if (options_.needs_response || options_.needs_pair) return out;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const AnswerUse& use = options_.answer_uses[i];
    const bool none = answers_[i].lines > 0 && answers_[i].unanswered == answers_[i].lines;
    if (none && use.kind == AnswerUse::Kind::kCompares) {
      out.push_back(NoneAnswered(use, answers_[i]));
    }
  }
  if (out.empty()) AddNamedKey("answer_key", options_.answer_key, with_answer_, &out);
  AddNamedKey("source_key", options_.source_key, with_source_, &out);
  AddNamedKey("extra_key", options_.extra_key, with_extra_, &out);
  return out;
}

std::string LineCounts::NoneAnswered(const AnswerUse& use, const Answers& answers) const {
  const DataJson first = ParseGood(answers.first);
  const std::string of_sources =
      use.sources.empty() ? ""
                          : absl::StrCat(" of source '", absl::StrJoin(use.sources, "', '"), "'");
  return absl::StrCat("none of ", Lines(answers.lines), of_sources, " has ", AnswerKey(options_),
                      ", and ", use.place, " compares responses with it; the first has ",
                      KeysOf(first), ": ", Advice(first));
}

void LineCounts::AddNamedKey(const char* field, const std::string& key, uint64_t having,
                             std::vector<std::string>* out) const {
  if (key.empty() || lines_ == 0 || having > 0) return;
  out->push_back(absl::StrCat("none of ", Lines(lines_), " has `", key, "` (spec.data.", field,
                              "); the first has ", KeysOf(ParseGood(first_))));
}

}  // namespace baton
