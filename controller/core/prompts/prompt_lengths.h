// Mean lengths of the responses to each prompt.
//
// Owns a mean for each prompt, over its last responses. A restarted controller begins without them.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LENGTHS_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace baton::controller {

class PromptLengths {
 public:
  /// `most`: the number of prompts that it remembers; with one more it begins anew.
  explicit PromptLengths(size_t most = size_t{1} << 20) : most_(most) {}

  /// A response to the prompt had `tokens` tokens, or more.
  void Note(uint64_t prompt, uint32_t tokens) {
    if (prompts_.size() >= most_ && prompts_.count(prompt) == 0) prompts_.clear();
    prompts_[prompt].Add(tokens);
    all_.Add(tokens);
  }
  /// Expected tokens of the next response to the prompt. For a prompt without responses: the mean
  /// of the others.
  double Expected(uint64_t prompt) const {
    const auto found = prompts_.find(prompt);
    return (found == prompts_.end() ? all_ : found->second).mean();
  }

 private:
  /// Older responses count less: the policy changes.
  class Mean {
   public:
    void Add(uint32_t tokens) {
      if (count_ >= kMostCount) {
        count_ /= 2;
        sum_ /= 2;
      }
      ++count_;
      sum_ += tokens;
    }
    double mean() const { return count_ == 0 ? 0 : sum_ / count_; }

   private:
    static constexpr float kMostCount = 32;
    float count_ = 0, sum_ = 0;
  };

  size_t most_;
  std::unordered_map<uint64_t, Mean> prompts_;
  Mean all_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_LENGTHS_H_
