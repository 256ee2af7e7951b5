#include "tests/fake_worker/fake_generator.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "sdk/common/messages/columns.h"
#include "xxhash.h"

namespace baton::fake {
namespace {

constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz 0123456789";
constexpr uint64_t kAlphabetSize = sizeof(kAlphabet) - 1;
constexpr uint64_t kShortest = 4;
constexpr uint64_t kLengths = 21;  ///< Lengths are kShortest … kShortest + kLengths - 1.
constexpr uint64_t kLongFactor = 10;

uint64_t Mix(uint64_t a, uint64_t b) { return XXH3_64bits_withSeed(&a, sizeof(a), b); }

uint64_t StreamKey(uint64_t weights, const v1::Generate& request) {
  uint64_t key = Mix(weights, request.seed());
  key = Mix(key, static_cast<uint64_t>(request.purpose()));
  key = Mix(key, request.prompt_id());
  key = Mix(key, request.prompt_index());
  return Mix(key, request.sample_index());
}

}  // namespace

std::string PromptText(const v1::Generate& request) {
  if (request.messages().empty()) return request.prompt();
  std::string text;
  for (const v1::ChatMessage& message : request.messages()) text += message.content();
  return text;
}

FakeResponse MakeResponse(uint64_t weights, const v1::Generate& request) {
  const uint64_t key = StreamKey(weights, request);
  uint64_t length = kShortest + key % kLengths;
  if (absl::StrContains(PromptText(request), kLongPrompt)) length *= kLongFactor;
  FakeResponse response;
  response.finish_reason = "stop";
  if (request.max_new_tokens() > 0 && length > static_cast<uint64_t>(request.max_new_tokens())) {
    length = static_cast<uint64_t>(request.max_new_tokens());
    response.finish_reason = "length";
  }
  for (uint64_t i = 0; i < length; ++i) {
    const uint64_t draw = Mix(i, key);
    response.tokens.push_back(kAlphabet[draw % kAlphabetSize]);
    response.log_probs.push_back(-static_cast<float>((draw >> 40) % 1000) / 250.f);
  }
  return response;
}

v1::TaskResult MakeGenerateResult(const v1::Generate& request, const FakeResponse& response,
                                  size_t length, const std::string& finish_reason) {
  v1::TaskResult result;
  const std::string prompt = PromptText(request);
  const std::vector<int32_t> prompt_tokens(prompt.begin(), prompt.end());
  *result.add_columns() = MakeColumn("prompt_tokens", /*per_token=*/false, prompt_tokens);
  *result.add_columns() = MakeColumn("tokens", /*per_token=*/true,
                                     absl::MakeConstSpan(response.tokens).subspan(0, length));
  *result.add_columns() = MakeColumn("rollout_log_prob", /*per_token=*/true,
                                     absl::MakeConstSpan(response.log_probs).subspan(0, length));
  result.set_response_text(
      std::string(response.tokens.begin(), response.tokens.begin() + static_cast<long>(length)));
  result.set_prompt_text(prompt);
  result.set_finish_reason(finish_reason);
  return result;
}

size_t AcceptedDraft(const v1::Generate& request, const FakeResponse& response, size_t resumed) {
  const auto draft = absl::MakeConstSpan(request.draft_tokens());
  const auto rest = absl::MakeConstSpan(response.tokens).subspan(resumed);
  const auto [differs, unused] =
      std::mismatch(draft.begin(), draft.end(), rest.begin(), rest.end());
  return static_cast<size_t>(differs - draft.begin());
}

FakeGenerator::FakeGenerator(absl::Duration token_delay) : token_delay_(token_delay) {
  if (token_delay_ > absl::ZeroDuration()) thread_ = std::thread([this] { Work(); });
}

FakeGenerator::~FakeGenerator() {
  CancelAll();
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void FakeGenerator::Add(std::shared_ptr<TaskContext> context, uint64_t weights) {
  const v1::Generate& request = context->task().generate();
  Active active{context, MakeResponse(weights, request), 0};
  const size_t resumed = std::min<size_t>(static_cast<size_t>(request.resume_tokens_size()),
                                          active.response.tokens.size());
  if (!std::equal(request.resume_tokens().begin(), request.resume_tokens().begin() + resumed,
                  active.response.tokens.begin())) {
    context->Finish(absl::InvalidArgumentError(
        "resume_tokens are not the beginning of this response: other weights, seed or key"));
    return;
  }
  active.draft_accepted = AcceptedDraft(request, active.response, resumed);
  active.length = resumed + active.draft_accepted;
  if (active.draft_accepted > 0) {
    context->SendProgress({&active.response.tokens[resumed], active.draft_accepted},
                          {&active.response.log_probs[resumed], active.draft_accepted});
  }
  if (token_delay_ <= absl::ZeroDuration()) {
    while (!Advance(active)) {
    }
    return;
  }
  absl::MutexLock lock(&mu_);
  active_.push_back(std::move(active));
}

bool FakeGenerator::Advance(Active& active) {
  const FakeResponse& response = active.response;
  if (active.context->cancelled()) {
    Finish(active, "cancelled");
    return true;
  }
  if (active.length < response.tokens.size()) {
    active.context->SendProgress({&response.tokens[active.length], 1},
                                 {&response.log_probs[active.length], 1});
    ++active.length;
  }
  if (active.length < response.tokens.size()) return false;
  Finish(active, response.finish_reason);
  return true;
}

void FakeGenerator::Finish(Active& active, const std::string& finish_reason) {
  const v1::Generate& request = active.context->task().generate();
  v1::TaskResult result =
      MakeGenerateResult(request, active.response, active.length, finish_reason);
  if (!request.draft_tokens().empty()) {
    (*result.mutable_metrics())["draft_accepted"] = static_cast<double>(active.draft_accepted);
  }
  active.context->Finish(std::move(result));
}

void FakeGenerator::CancelAll() {
  std::list<Active> cancelled;
  {
    absl::MutexLock lock(&mu_);
    cancelled.swap(active_);
  }
  for (Active& active : cancelled) Finish(active, "cancelled");
}

void FakeGenerator::Work() {
  absl::MutexLock lock(&mu_);
  while (true) {
    const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return stopping_ || !active_.empty();
    };
    mu_.Await(absl::Condition(&ready));
    if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), token_delay_)) return;
    std::list<Active> now;
    now.swap(active_);
    mu_.Unlock();
    for (auto it = now.begin(); it != now.end();) it = Advance(*it) ? now.erase(it) : std::next(it);
    mu_.Lock();
    active_.splice(active_.begin(), now);
  }
}

}  // namespace baton::fake
