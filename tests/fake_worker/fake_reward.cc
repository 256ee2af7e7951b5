#include "tests/fake_worker/fake_reward.h"

#include "xxhash.h"

namespace baton::fake {

double RewardOf(absl::string_view response_text) {
  return static_cast<double>(XXH3_64bits(response_text.data(), response_text.size()) % 1001) / 1000;
}

}  // namespace baton::fake
