// Counter-based random numbers for sampling: the draw at a token position is a pure function of
// (job seed, purpose, prompt id, prompt index, sample index, position), wherever it is computed, in
// whatever batch, and however often.
#ifndef BATON_WORKERS_ENGINE_KERNELS_PHILOX_H_
#define BATON_WORKERS_ENGINE_KERNELS_PHILOX_H_

#include <array>
#include <cstdint>

namespace baton::engine {

/// Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011): a
/// bijection of the 128-bit counter for each 64-bit key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Names one trajectory's stream of random numbers.
struct SamplingKey {
  uint64_t job_seed = 0;
  uint32_t purpose = 0;       // why it is generated: training, evaluation, ...
  uint64_t prompt_id = 0;     // the prompt's place in the data set
  uint64_t prompt_index = 0;  // the prompt's running number over all epochs
  uint32_t sample = 0;        // index among the samples of this prompt
};

/// The uniforms of one trajectory. Immutable, cheap to copy.
///
/// Two Philox calls fold the 288-bit key: the first, keyed by the seed, hashes (prompt id, prompt
/// index) to 96 bits; they key the second, whose counter holds position, sample and purpose in
/// full.
class UniformStream {
 public:
  explicit UniformStream(const SamplingKey& key);

  /// Uniform in [0, 1), a multiple of 2^-53, for the response token at `position` (0 = first).
  double At(uint32_t position) const;

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 3> counter_;  // all but the position
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_PHILOX_H_
