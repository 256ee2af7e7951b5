// The answer of one FetchHistory: earlier responses, read from experience logs piece by piece.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_HISTORY_PART_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_HISTORY_PART_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "controller/core/prompts/prompt_history.h"
#include "controller/runtime/payloads/batch_part.h"

namespace baton::controller {

/// The response in a payload; nullopt: it has none whose tokens are known.
std::optional<v1::EarlierResponse> ResponseIn(const v1::Trajectory& payload);

/// Knows the places of responses, and has at most one chunk of them in memory. A response that
/// cannot be read is left out. May be used by any thread, one at a time.
class HistoryPart {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;

  /// The places of the responses to one prompt, the newest first; those of the seed job come last.
  struct Prompt {
    std::vector<PastResponse> own, of_seed;
    size_t size() const { return own.size() + of_seed.size(); }
  };

  /// Gives about `max_bytes`, and at least one response if any can be read; each prompt gets an
  /// equal share of the bytes that the earlier ones left. 0 and more than kMostBytes: kMostBytes.
  /// `own` and `seed` read the logs of the job and of its seed job; `place` is kept as long as this
  /// lives.
  HistoryPart(std::vector<Prompt> prompts, int64_t max_bytes, BatchSource own, BatchSource seed,
              std::shared_ptr<void> place = nullptr);

  /// True: nothing is left.
  bool done() const { return prompt_ == prompts_.size(); }
  /// Fills in the next responses: few, so that other work on the log does not wait long, and
  /// perhaps none. Call it within the work of Post, until done().
  void Next(v1::FetchHistoryResponse* chunk);
  /// Runs work that may block, on the strand of the log that is read next.
  void Post(std::function<void()> work) const;

 private:
  struct Place {
    const PastResponse* past;
    bool of_seed;
  };
  Place Here() const;
  /// Advances to the next response that there is room for.
  void Advance(int64_t bytes);
  void ToPrompt(size_t prompt);

  const std::vector<Prompt> prompts_;
  const BatchSource own_, seed_;
  const std::shared_ptr<void> place_;
  int64_t left_;         // bytes, of all
  int64_t share_ = 0;    // … and of the prompt
  size_t prompt_ = 0;    // the next response's …
  size_t response_ = 0;  // … and its number there
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_HISTORY_PART_H_
