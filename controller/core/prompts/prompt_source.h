// Which prompt of one list a draw is. prompt_mix.h says it of all files of a job.
//
// Draws are counted from the first one of the list. Epoch e = draw / size draws every prompt once,
// in the order of a permutation that the seed and e alone decide; so a cursor restored from a
// checkpoint draws exactly what it would have drawn.
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

  /// The prompt of draw `ordinal`: a number in [0, size).
  uint64_t At(uint64_t ordinal);

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
