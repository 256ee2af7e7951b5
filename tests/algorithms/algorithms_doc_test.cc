// docs/algorithms.md names every estimator, loss and option that there is, and every metric that
// the estimators give.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/algorithms/compute_advantages.h"
#include "controller/algorithms/loss_spec.h"

namespace baton::algorithms {
namespace {

std::string Page() {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  std::ifstream in(absl::StrCat(root != nullptr ? root : ".", "/docs/algorithms.md"));
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "docs/algorithms.md cannot be read";
  return text.str();
}

/// Lines that begin a row of a table about `name`: "| `name`".
bool HasRow(const std::string& page, const std::string& name) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const size_t place = line.find(absl::StrCat("`", name, "`"));
    if (line.rfind("| `", 0) == 0 && place < line.find('|', 2)) return true;
  }
  return false;
}

TEST(AlgorithmsDocTest, EveryNameAndOptionHasARow) {
  const std::string page = Page();
  for (const std::string& name : EstimatorNames()) {
    EXPECT_TRUE(HasRow(page, name)) << name;
    for (const std::string& option : EstimatorOptionNames(name)) {
      EXPECT_TRUE(HasRow(page, option)) << option;
    }
  }
  for (const std::string& name : LossNames()) {
    EXPECT_TRUE(HasRow(page, name)) << name;
    for (const std::string& option : LossOptionNames(name)) {
      EXPECT_TRUE(HasRow(page, option)) << option;
    }
  }
  EXPECT_FALSE(HasRow(page, "sigma"));
}

TEST(AlgorithmsDocTest, EveryMetricIsNamed) {
  const std::string page = Page();
  const std::vector<float> one = {1, 1};
  std::vector<Sample> samples(2);
  for (Sample& s : samples) {
    s.length = 2, s.cost = 1;
    s.log_probs = s.ref_log_probs = s.values = s.cost_values = one;
  }
  const auto spec = MakeEstimatorSpec("gae", {{"use_cost", true},
                                              {"use_kl_in_reward", true},
                                              {"overlong_buffer_len", 1.0},
                                              {"max_response_length", 2.0},
                                              {"flawed_positive_penalty", 1.0}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto out = ComputeAdvantages(samples, *spec, InitialState(*spec));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GT(out->metrics.size(), 20u);
  for (const auto& metric : out->metrics) {
    std::string name = metric.first;
    for (const char* end : {"/mean", "/min", "/max"}) {
      const size_t place = name.rfind(end);
      if (name != "reward/overlong_penalty/mean" && place != std::string::npos) name.resize(place);
    }
    EXPECT_NE(page.find(absl::StrCat("`", name)), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace baton::algorithms
