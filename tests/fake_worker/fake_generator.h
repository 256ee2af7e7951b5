// A generator of responses without a model.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_GENERATOR_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_GENERATOR_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/task_context.h"

namespace baton::fake {

/// A whole response; a pure function of (weights, seed, purpose, prompt, prompt index, sample).
struct FakeResponse {
  std::vector<int32_t> tokens;  ///< One per character: its code.
  std::vector<float> log_probs;
  std::string finish_reason;  ///< "stop", or "length" where max_new_tokens cut it.
};
FakeResponse MakeResponse(uint64_t weights, const v1::Generate& request);

/// Responses to prompts that contain this are ten times as long as they would be without.
inline constexpr char kLongPrompt[] = "(long)";

/// The prompt as the fake model sees it: the text, or the messages' contents one after the other.
std::string PromptText(const v1::Generate& request);

/// The first `length` tokens as a finished task's result.
v1::TaskResult MakeGenerateResult(const v1::Generate& request, const FakeResponse& response,
                                  size_t length, const std::string& finish_reason);

/// The number of tokens of Generate.draft_tokens, from the first one on, that are those of
/// `response` after its first `resumed` tokens.
size_t AcceptedDraft(const v1::Generate& request, const FakeResponse& response, size_t resumed);

/// Streams responses, one token each per `token_delay`, on a thread of its own. Thread-safe.
class FakeGenerator {
 public:
  explicit FakeGenerator(absl::Duration token_delay);
  /// Cancels what runs.
  ~FakeGenerator();

  /// Continues after Generate.resume_tokens, at once with those of draft_tokens that are the
  /// response's own. Without a delay the task is finished on return.
  void Add(std::shared_ptr<TaskContext> context, uint64_t weights);
  /// Ends every task as cancelled.
  void CancelAll();

 private:
  struct Active {
    std::shared_ptr<TaskContext> context;
    FakeResponse response;
    size_t length = 0;          ///< Tokens so far.
    size_t draft_accepted = 0;  ///< Tokens that the draft had right.
  };
  void Work();
  static bool Advance(Active& active);
  static void Finish(Active& active, const std::string& finish_reason);

  const absl::Duration token_delay_;
  absl::Mutex mu_;
  std::list<Active> active_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_GENERATOR_H_
