#include "controller/runtime/payloads/history_part.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "sdk/common/messages/columns.h"

namespace baton::controller {
namespace {

// Bytes of answers in one piece of work on a disk; a payload has about ten times the bytes of its
// answer.
constexpr int64_t kPieceBytes = int64_t{256} << 10;
constexpr int kPieceReads = 32;

using Tokens = google::protobuf::RepeatedField<int32_t>;

bool TakeTokens(const v1::Trajectory& payload, absl::string_view name, Tokens* tokens) {
  const v1::Column* column = FindColumn(payload, name);
  if (column == nullptr || column->dtype() != v1::DATA_TYPE_INT32) return false;
  const std::string& data = column->data();
  if (data.size() % sizeof(int32_t) != 0) return false;
  tokens->Resize(static_cast<int>(data.size() / sizeof(int32_t)), 0);
  std::copy(data.begin(), data.end(), reinterpret_cast<char*>(tokens->mutable_data()));
  return true;
}

}  // namespace

std::optional<v1::EarlierResponse> ResponseIn(const v1::Trajectory& payload) {
  v1::EarlierResponse response;
  if (!TakeTokens(payload, "prompt_tokens", response.mutable_prompt_tokens()) ||
      !TakeTokens(payload, "tokens", response.mutable_tokens()) || response.tokens().empty()) {
    return std::nullopt;
  }
  response.set_policy_version(payload.policy_version());
  return response;
}

HistoryPart::HistoryPart(std::vector<Prompt> prompts, int64_t max_bytes, BatchSource own,
                         BatchSource seed, std::shared_ptr<void> place)
    : prompts_(std::move(prompts)),
      own_(std::move(own)),
      seed_(std::move(seed)),
      place_(std::move(place)),
      left_(max_bytes <= 0 ? kMostBytes : std::min(max_bytes, kMostBytes)) {
  ToPrompt(0);
}

void HistoryPart::ToPrompt(size_t prompt) {
  while (prompt < prompts_.size() && prompts_[prompt].size() == 0) ++prompt;
  if (left_ <= 0) prompt = prompts_.size();
  prompt_ = prompt;
  response_ = 0;
  if (!done()) share_ = left_ / static_cast<int64_t>(prompts_.size() - prompt_);
}

HistoryPart::Place HistoryPart::Here() const {
  const Prompt& prompt = prompts_[prompt_];
  const size_t own = prompt.own.size();
  if (response_ < own) return {&prompt.own[response_], false};
  return {&prompt.of_seed[response_ - own], true};
}

void HistoryPart::Advance(int64_t bytes) {
  left_ -= bytes;
  share_ -= bytes;
  ++response_;
  const bool full = share_ <= 0 && bytes > 0;
  if (full || response_ == prompts_[prompt_].size()) ToPrompt(prompt_ + 1);
}

void HistoryPart::Next(v1::FetchHistoryResponse* chunk) {
  if (done()) return;
  const bool of_seed = Here().of_seed;
  const BatchSource& source = of_seed ? seed_ : own_;
  int64_t bytes = 0;
  for (int reads = 0; reads < kPieceReads && bytes < kPieceBytes && !done(); ++reads) {
    const Place here = Here();
    if (here.of_seed != of_seed) return;  // another log, so another piece of work
    LoggedPayload logged;
    logged.id = here.past->id;
    logged.serial = here.past->serial;
    logged.records = {here.past->location};
    const auto read = source.read(logged);
    std::optional<v1::EarlierResponse> response;
    if (read.ok()) response = ResponseIn(*read);
    if (!response.has_value()) {
      Advance(0);
      continue;
    }
    response->set_policy_version(of_seed ? 0 : here.past->policy_version);
    const auto size = static_cast<int64_t>(response->ByteSizeLong());
    *chunk->add_responses() = *std::move(response);
    bytes += size;
    Advance(size);
  }
}

void HistoryPart::Post(std::function<void()> work) const {
  const BatchSource& source = !done() && Here().of_seed ? seed_ : own_;
  source.post(std::move(work));
}

}  // namespace baton::controller
