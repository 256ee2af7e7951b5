// Map from indices to the prompts of one list. prompt_mix.h does this for all files of a job.
//
// Indices are counted from the first prompt that is drawn from the list. Epoch e = index / size has
// every prompt once, in a permutation that depends only on the seed and e; so a cursor restored
// from a checkpoint goes on exactly as it would have without a restart.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_SOURCE_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_SOURCE_H_

#include <cstdint>
#include <vector>

namespace baton::controller {

class PromptSource {
 public:
  PromptSource() = default;
  /// `size` > 0 prompts.
  PromptSource(uint64_t size, uint64_t seed, bool shuffle);

  /// The prompt of that index: a number in [0, size).
  uint64_t At(uint64_t index);

  uint64_t size() const { return size_; }

 private:
  void Permute(uint64_t epoch);

  uint64_t size_ = 0;
  uint64_t seed_ = 0;
  bool shuffle_ = false;
  uint64_t epoch_ = ~uint64_t{0};  // of order_
  std::vector<uint64_t> order_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_SOURCE_H_
