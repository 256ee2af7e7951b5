#include "controller/core/prompts/prompt_source.h"

#include <numeric>
#include <utility>

namespace baton::controller {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a counter-based stream, the same on every platform.
uint64_t SplitMix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

PromptSource::PromptSource(uint64_t size, uint64_t seed, bool shuffle)
    : size_(size), seed_(seed), shuffle_(shuffle) {}

void PromptSource::Permute(uint64_t epoch) {
  order_.resize(size_);
  std::iota(order_.begin(), order_.end(), uint64_t{0});
  uint64_t state = seed_ * 0xd1342543de82ef95ull + epoch;
  for (uint64_t i = size_; i > 1; --i) {  // Fisher–Yates; the bias of % is below size/2^64
    std::swap(order_[i - 1], order_[SplitMix(state) % i]);
  }
  epoch_ = epoch;
}

uint64_t PromptSource::At(uint64_t index) {
  if (!shuffle_) return index % size_;
  const uint64_t epoch = index / size_;
  if (epoch != epoch_) Permute(epoch);
  return order_[index % size_];
}

}  // namespace baton::controller
