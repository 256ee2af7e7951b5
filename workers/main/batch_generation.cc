#include "workers/main/batch_generation.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/data_set/number_text.h"
#include "workers/policy/chat_messages.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<std::vector<int32_t>> EncodeLine(const policy::PolicySource& source,
                                                const BatchOptions& options,
                                                const std::string& line) {
  BATON_ASSIGN_OR_RETURN(const Example example, ParseExample(line, options.keys));
  BATON_ASSIGN_OR_RETURN(
      const policy::Prompt prompt,
      policy::RenderPromptOf(source, example.messages, example.prompt, example.tools_json,
                             example.chat_template_kwargs_json));
  BATON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, source.EncodePrompt(prompt, 0));
  const int64_t positions = source.config().positions();
  if (static_cast<int64_t>(tokens.size()) >= positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", tokens.size(), " tokens; the model has ", positions,
                     " positions, for prompt and response together: shorten it"));
  }
  return tokens;
}

/// A prompt whose responses are not written yet.
struct Row {
  std::string line;
  uint64_t number = 0;                        // of the line, from 1
  std::vector<std::vector<int32_t>> tokens;   // of each sample
  std::vector<std::vector<float>> log_probs;  // of these tokens
  std::vector<std::string> finish_reasons;
  int64_t unfinished = 0;
};

std::string LineOf(const Row& row, const tokenizer::Tokenizer& tokenizer, bool with_tokens) {
  std::vector<std::string> responses;
  for (const std::vector<int32_t>& tokens : row.tokens) {
    responses.push_back(tokenizer.Decode(tokens));
  }
  Json json = ParseKeepingNumbers(row.line);  // which ParseExample could read
  json["responses"] = std::move(responses);
  json["finish_reasons"] = row.finish_reasons;
  if (with_tokens) {
    json["response_tokens"] = row.tokens;
    json["response_log_probs"] = row.log_probs;
  }
  return JsonText(json, KeyOrder::kAsGiven) + "\n";
}

class Batch {
 public:
  Batch(const policy::PolicySource& source, engine::Generator* generator,
        const BatchOptions& options, LineReader lines)
      : source_(source), generator_(*generator), options_(options), lines_(std::move(lines)) {}

  /// Adds prompts while there is room for them. False once there are no more.
  absl::StatusOr<bool> Take() {
    while (HasRoom()) {
      if (!lines_.Next()) {
        const absl::Status read = lines_.status();
        if (!read.ok()) return Annotate(read, options_.prompts);
        return false;
      }
      const absl::Status added = Add();
      if (!added.ok()) {
        return Annotate(added, absl::StrCat(options_.prompts, ":", lines_.number()));
      }
    }
    return true;
  }

  absl::Status Step() {
    BATON_ASSIGN_OR_RETURN(const auto updates, generator_.Step());
    for (const engine::GenerateUpdate& update : updates) {
      const uint64_t index = update.id / samples();
      Row& row = rows_[index - first_];
      std::vector<int32_t>& tokens = row.tokens[update.id % samples()];
      tokens.insert(tokens.end(), update.new_tokens.begin(), update.new_tokens.end());
      if (options_.tokens) {
        std::vector<float>& log_probs = row.log_probs[update.id % samples()];
        log_probs.insert(log_probs.end(), update.new_log_probs.begin(), update.new_log_probs.end());
      }
      progress_.tokens += static_cast<int64_t>(update.new_tokens.size());
      if (!update.finished) continue;
      row.finish_reasons[update.id % samples()] = update.finish_reason;
      if (!update.error.ok() && progress_.failed++ == 0) {
        progress_.first_failure =
            absl::StrCat(options_.prompts, ":", row.number, ": ", update.error.message());
      }
      --row.unfinished;
      --in_flight_;
    }
    return absl::OkStatus();
  }

  absl::Status Write(const std::function<absl::Status(absl::string_view)>& write) {
    for (; !rows_.empty() && rows_.front().unfinished == 0; rows_.pop_front(), ++first_) {
      BATON_RETURN_IF_ERROR(write(LineOf(rows_.front(), source_.tokenizer(), options_.tokens)));
      ++progress_.prompts;
      progress_.held -= options_.samples;
    }
    return absl::OkStatus();
  }

  bool empty() const { return rows_.empty(); }
  const BatchProgress& progress() const { return progress_; }

 private:
  uint64_t samples() const { return static_cast<uint64_t>(options_.samples); }
  bool HasRoom() const {
    return rows_.empty() || (in_flight_ + options_.samples <= options_.in_flight &&
                             progress_.held + options_.samples <= options_.held);
  }

  absl::Status Add() {
    engine::GenerateRequest request;
    BATON_ASSIGN_OR_RETURN(request.prompt, EncodeLine(source_, options_, lines_.line()));
    request.params = options_.params;
    request.params.max_new_tokens =
        std::min(request.params.max_new_tokens,
                 source_.config().positions() - static_cast<int64_t>(request.prompt.size()));
    request.key.job_seed = options_.seed;
    request.key.prompt_id = lines_.number() - 1;
    request.id = (first_ + rows_.size()) * samples();
    Row row;
    row.line = lines_.line();
    row.number = lines_.number();
    row.tokens.resize(samples());
    row.log_probs.resize(samples());
    row.finish_reasons.resize(samples());
    row.unfinished = options_.samples;
    for (; request.key.sample < samples(); ++request.key.sample, ++request.id) {
      BATON_RETURN_IF_ERROR(generator_.Add(request));
    }
    in_flight_ += options_.samples;
    progress_.held += options_.samples;
    rows_.push_back(std::move(row));
    return absl::OkStatus();
  }

  const policy::PolicySource& source_;
  engine::Generator& generator_;
  const BatchOptions& options_;
  LineReader lines_;
  std::deque<Row> rows_;
  uint64_t first_ = 0;  // index of rows_.front(); a request's id is index * samples + sample
  int64_t in_flight_ = 0;
  BatchProgress progress_;
};

absl::StatusOr<LineReader> Open(const std::string& file) {
  absl::StatusOr<LineReader> lines = LineReader::Open(file);
  if (!lines.ok()) return Annotate(lines.status(), file);
  return lines;
}

}  // namespace

absl::StatusOr<int64_t> CheckPrompts(const policy::PolicySource& source,
                                     const BatchOptions& options) {
  const std::string& file = options.prompts;
  BATON_ASSIGN_OR_RETURN(LineReader lines, Open(file));
  int64_t prompts = 0;
  ProblemList problems;
  while (lines.Next()) {
    const absl::Status status = EncodeLine(source, options, lines.line()).status();
    if (!status.ok()) problems.AddLine(file, lines.number(), status.message());
    ++prompts;
  }
  if (!lines.status().ok()) return Annotate(lines.status(), file);
  if (prompts == 0) {
    problems.AddFile(file, "holds no prompt; give one JSON object a line, {\"prompt\": ...}");
  }
  const std::vector<std::string> found = std::move(problems).Take();
  if (!found.empty()) return absl::InvalidArgumentError(absl::StrJoin(found, "\n"));
  return prompts;
}

absl::Status GenerateBatch(const policy::PolicySource& source, engine::Generator* generator,
                           const BatchOptions& options,
                           const std::function<absl::Status(absl::string_view line)>& write,
                           const std::function<void(const BatchProgress&)>& progress) {
  BATON_ASSIGN_OR_RETURN(LineReader lines, Open(options.prompts));
  Batch batch(source, generator, options, std::move(lines));
  while (true) {
    BATON_ASSIGN_OR_RETURN(const bool more, batch.Take());
    if (!more && batch.empty()) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(batch.Step());
    BATON_RETURN_IF_ERROR(batch.Write(write));
    progress(batch.progress());
  }
}

}  // namespace baton
