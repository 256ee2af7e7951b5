// The weights of a job when nothing goes wrong, with which every disturbed run must end.
#ifndef BATON_TESTS_END_TO_END_IN_PROCESS_UNDISTURBED_H_
#define BATON_TESTS_END_TO_END_IN_PROCESS_UNDISTURBED_H_

#include <string>

#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/cluster_testing.h"

namespace baton::testing {

/// Steps of TestCluster::RlSpec(kSteps).
inline constexpr int kSteps = 6;

/// The hash, which must be equal in two checkpoints. Versions differ after a recovery.
inline std::string WeightsHash(const std::string& weights_json) {
  const size_t at = weights_json.find("weights");
  return at == std::string::npos
             ? weights_json
             : weights_json.substr(at, weights_json.find_first_of(",}", at) - at);
}

inline const std::string& UndisturbedHash() {
  static const std::string* const hash = [] {
    TestCluster cluster;
    cluster.AddStandardWorkers();
    EXPECT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
    EXPECT_TRUE(cluster.WaitForState("rl", v1::Job::STATE_SUCCEEDED)) << cluster.Why("rl");
    const std::string weights = cluster.FinalWeights("rl");
    EXPECT_EQ(weights.rfind("{", 0), 0u) << weights;
    return new std::string(WeightsHash(weights));
  }();
  return *hash;
}

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_IN_PROCESS_UNDISTURBED_H_
