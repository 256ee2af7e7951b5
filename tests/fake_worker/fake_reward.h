// Rewards without a rule.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_REWARD_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_REWARD_H_

#include "absl/strings/string_view.h"

namespace baton::fake {

/// In [0, 1], spread evenly over texts; a pure function of the response.
double RewardOf(absl::string_view response_text);

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_REWARD_H_
