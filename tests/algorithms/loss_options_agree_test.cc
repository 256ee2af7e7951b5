// The controller's table of losses against the engine's: the same names, options, defaults, and the
// same opinion of values.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/algorithms/loss_spec.h"
#include "workers/engine/loss_options.h"

namespace baton {
namespace {

std::vector<std::string> ActorLosses() {
  std::vector<std::string> names = algorithms::LossNames();
  names.erase(std::remove(names.begin(), names.end(), "value"), names.end());
  return names;
}

TEST(LossOptionsAgreeTest, NamesAndOptions) {
  EXPECT_EQ(ActorLosses(), engine::LossNames());
  for (const std::string& name : ActorLosses()) {
    EXPECT_EQ(algorithms::LossOptionNames(name), engine::LossOptionNames(name)) << name;
  }
}

TEST(LossOptionsAgreeTest, Defaults) {
  const algorithms::LossOptions a;
  const engine::LossSpec b;
  EXPECT_EQ(a.clip_ratio_low, b.clip_ratio_low);
  EXPECT_EQ(a.clip_ratio_high, b.clip_ratio_high);
  EXPECT_EQ(a.clip_ratio_c, b.clip_ratio_c);
  EXPECT_EQ(a.loss_agg_mode, b.loss_agg_mode);
  EXPECT_EQ(a.loss_scale_factor, b.loss_scale_factor);
  EXPECT_EQ(a.entropy_coeff, b.entropy_coeff);
  EXPECT_EQ(a.use_kl_loss, b.use_kl_loss);
  EXPECT_EQ(a.kl_loss_coef, b.kl_loss_coef);
  EXPECT_EQ(a.kl_loss_type, b.kl_loss_type);
  EXPECT_EQ(a.temperature, b.temperature);
  EXPECT_EQ(a.rollout_is, b.rollout_is);
  EXPECT_EQ(a.rollout_is_threshold, b.rollout_is_threshold);
  EXPECT_EQ(a.positive_nll_coef, b.positive_nll_coef);
  EXPECT_EQ(a.ptx_coef, b.ptx_coef);
}

TEST(LossOptionsAgreeTest, ValuesOfEveryOption) {
  std::vector<OptionValue> values = {true, std::string("k2"), std::string("token"),
                                     std::string("seq-mean-token-sum"), std::string()};
  for (const double number : {-1.0, 0.0, 0.5, 1.0, 2.5, 1e300}) values.emplace_back(number);
  for (const std::string& name : ActorLosses()) {
    for (const std::string& option : engine::LossOptionNames(name)) {
      for (const OptionValue& value : values) {
        const Options options = {{option, value}};
        EXPECT_EQ(algorithms::CheckLoss(name, options).problems.empty(),
                  engine::MakeLossSpec(name, options).ok())
            << name << " " << option << " value " << value.index();
      }
    }
  }
}

}  // namespace
}  // namespace baton
