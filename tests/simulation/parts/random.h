// The only source of chance in a simulated world: SplitMix64.
#ifndef BATON_TESTS_SIMULATION_PARTS_RANDOM_H_
#define BATON_TESTS_SIMULATION_PARTS_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace baton::simulation {

/// Mixes two numbers into one (the finaliser of SplitMix64).
inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0xd1342543de82ef95ull + b + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() { return Mix(state_++, 0x6261746f6eull); }
  /// A number in [0, bound).
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : (*this)() % bound; }
  int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<uint64_t>(high - low + 1)));
  }
  bool Percent(int chance) { return static_cast<int>(Below(100)) < chance; }
  absl::Duration Milliseconds(int low, int high) {
    return absl::Microseconds(
        1000 * low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) * 1000 + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_RANDOM_H_
