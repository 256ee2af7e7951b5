#include "controller/core/prompts/prompt_mix.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "controller/spec/settings/train_mix.h"

namespace baton::controller {
namespace {

// Keys of random orders that are independent of each other; number 0 is the order of a step's
// places.
uint64_t OrderKey(uint64_t seed, uint64_t number) {
  return seed * 0x9e3779b97f4a7c15ull + (number + 1) * 0xbf58476d1ce4e5b9ull;
}

}  // namespace

PromptMix::PromptMix(const v1::DataSpec& data, const std::vector<uint64_t>& sizes)
    : size_(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0})) {
  const auto seed = static_cast<uint64_t>(data.seed());
  if (data.train_mix().empty()) {
    one_list_ = PromptSource(size_, seed, data.shuffle());
    return;
  }
  per_step_ = static_cast<uint64_t>(std::max(1, data.train_batch_size()));
  places_ = PromptSource(per_step_, OrderKey(seed, 0), data.shuffle());
  uint64_t first = 0;
  for (const uint64_t size : sizes) {
    const uint64_t key = OrderKey(seed, files_.size() + 1);
    files_.push_back({first, PromptSource(size, key, data.shuffle())});
    first += size;
  }
  MakePhases(data);
}

void PromptMix::MakePhases(const v1::DataSpec& data) {
  std::vector<uint64_t> used(files_.size());
  for (const MixPhase& of : PhasesOf(data)) {
    // Steps that no entry names go on with the files before them, because dynamic sampling may draw
    // more than the named steps need. Other such steps are refused at submit.
    if (of.files.empty()) continue;
    const uint64_t first_prompt_index =
        phases_.empty() ? 0 : static_cast<uint64_t>(of.from_step - 1) * per_step_;
    if (!phases_.empty()) {
      const Phase& before = phases_.back();
      const std::vector<uint64_t> turns =
          before.turns.Among(first_prompt_index - before.first_prompt_index);
      for (size_t i = 0; i < turns.size(); ++i) used[before.files[i]] += turns[i];
    }
    std::vector<double> weights;
    for (const int file : of.files) weights.push_back(data.train_mix(file).weight());
    Phase phase{first_prompt_index, FileTurns(weights), {of.files.begin(), of.files.end()}, {}};
    for (const size_t file : phase.files) {
      phase.used.push_back(used[file]);
    }
    phases_.push_back(std::move(phase));
  }
}

void PromptMix::Fill(uint64_t step) {
  const uint64_t first = step * per_step_;
  const auto next = std::upper_bound(phases_.begin(), phases_.end(), first,
                                     [](uint64_t prompt_index, const Phase& phase) {
                                       return prompt_index < phase.first_prompt_index;
                                     });
  const Phase& phase = *std::prev(next);  // the first one begins with index 0
  prompts_.resize(per_step_);
  for (uint64_t i = 0; i < per_step_; ++i) {
    const FileTurns::Turn turn = phase.turns.At(first + i - phase.first_prompt_index);
    File& file = files_[phase.files[turn.file]];
    prompts_[i] = file.first_prompt + file.order.At(phase.used[turn.file] + turn.nth);
  }
  step_ = step;
}

uint64_t PromptMix::At(uint64_t prompt_index) {
  if (files_.empty()) return one_list_.At(prompt_index);
  const uint64_t step = prompt_index / per_step_;
  if (step != step_) Fill(step);
  return prompts_[places_.At(prompt_index)];
}

size_t PromptMix::FileOf(uint64_t prompt) const {
  const auto next =
      std::upper_bound(files_.begin(), files_.end(), prompt,
                       [](uint64_t p, const File& file) { return p < file.first_prompt; });
  return static_cast<size_t>(next - files_.begin()) - 1;
}

}  // namespace baton::controller
