#include "workers/engine/kernels/philox.h"

namespace baton::engine {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
constexpr int kRounds = 10;

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

UniformStream::UniformStream(const SamplingKey& key) {
  const std::array<uint32_t, 4> hash = Philox4x32(
      {Low(key.prompt_id), High(key.prompt_id), Low(key.prompt_index), High(key.prompt_index)},
      {Low(key.job_seed), High(key.job_seed)});
  key_ = {hash[0], hash[1]};
  counter_ = {key.sample, key.purpose, hash[2]};
}

double UniformStream::At(uint32_t position) const {
  const std::array<uint32_t, 4> bits =
      Philox4x32({position, counter_[0], counter_[1], counter_[2]}, key_);
  const uint64_t high = bits[0] >> 5;  // 27 bits
  const uint64_t low = bits[1] >> 6;   // 26 bits
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

}  // namespace baton::engine
