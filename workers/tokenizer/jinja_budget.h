// What one rendering may take of time and memory. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_ENGINE_JINJA_BUDGET_H_
#define BATON_WORKERS_ENGINE_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

namespace baton::tokenizer::jinja {

/// Of the innermost rendering that the calling thread does: a million steps. While there is none
/// (values made outside of it), nothing is counted. Functions throw Error of kind kLimit.
class Budget {
 public:
  /// Of one text, in bytes.
  static constexpr size_t kMaxBytes = size_t{16} << 20;
  /// Of one list.
  static constexpr size_t kMaxItems = kMaxBytes / 64;

  Budget();
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static void Spend(uint64_t steps);
  /// A text that grows: before it has more than `bytes`.
  static void CheckText(size_t bytes);
  /// A text that was made: a step for each 64 bytes, so that all of them have 64 MiB at most.
  static void SpendText(size_t bytes);

 private:
  Budget* const outer_;
  uint64_t steps_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_ENGINE_JINJA_BUDGET_H_
