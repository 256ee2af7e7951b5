// Tests that the plan that `baton plan` prints for a spec is the one that the controller makes of
// placement auto, and of the plan's own yaml.
#include <filesystem>
#include <fstream>

#include "controller/runtime/submit/plan_placement.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "sdk/cli/command_line.h"
#include "sdk/client/spec_writer.h"
#include "sdk/client/spec_yaml.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class EnactedPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/config.json")
        << R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
               "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
               "model_type": "llama"})";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  // A whole spec but for resources.
  std::string Job(const std::string& preset) const {
    v1::JobSpec spec = controller::ExampleSpec(preset);
    spec.clear_dataflow();
    spec.clear_resources();
    spec.mutable_model()->Clear();
    spec.mutable_model()->set_path(folder_);
    spec.mutable_model()->set_dtype("bfloat16");
    if (spec.has_reward_model()) spec.mutable_reward_model()->mutable_model()->set_path(folder_);
    if (spec.has_cost_model()) spec.mutable_cost_model()->mutable_model()->set_path(folder_);
    return SpecToYaml(spec);
  }
  static std::string PlanYaml(const std::string& file) {
    const char* argv[] = {"baton", "plan", file.c_str(), "-o", "yaml"};
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(cli::RunCommandLine(5, argv), 0);
    return ::testing::internal::GetCapturedStdout();
  }
  static controller::CheckedSpec Submit(const std::string& yaml) {
    const ParsedSpec parsed = ParseSpecYaml(yaml, {});
    EXPECT_TRUE(parsed.problems.empty()) << yaml;
    controller::CheckedSpec checked = controller::CheckSpec(parsed.spec);
    for (const auto& violation : checked.violations) ADD_FAILURE() << violation.DebugString();
    for (const auto& violation :
         controller::PlanPlacement(parsed.spec, checked.dataflow, &checked.effective)) {
      ADD_FAILURE() << violation.DebugString();
    }
    return checked;
  }

  const std::string folder_ = ::testing::TempDir() + "/enacted_plan_test";
};

std::string PoolsText(const controller::CheckedSpec& checked) {
  std::string out;
  for (const auto& pool : controller::PoolsOf(checked.effective, checked.dataflow)) {
    for (const std::string& role : pool.roles) out += role + " ";
    out += std::to_string(pool.workers) + "\n";
  }
  return out;
}

TEST_F(EnactedPlanTest, AutoPlacementEqualsThePlansYaml) {
  for (const char* preset : {"ppo", "grpo", "safe_rlhf", "remax", "sft"}) {
    for (const int devices : {8, 16, 24}) {
      SCOPED_TRACE(preset);
      const std::string job = Job(preset);
      const std::string device = "device: h200, devices: " + std::to_string(devices);
      const std::string automatic = job + "\nresources: {placement: auto, " + device + "}\n";
      const controller::CheckedSpec chosen = Submit(automatic);
      const std::string yaml = PlanYaml(Write("job.yaml", automatic));
      EXPECT_THAT(yaml, HasSubstr("placement: pools"));
      const controller::CheckedSpec written = Submit(job + "\n" + yaml);
      EXPECT_EQ(PoolsText(chosen), PoolsText(written));
      EXPECT_GE(chosen.effective.resources().pools_size(), 1);
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(chosen.effective,
                                                                         written.effective))
          << chosen.effective.resources().DebugString()
          << written.effective.resources().DebugString();
      // A plan of the plan is itself.
      EXPECT_EQ(PlanYaml(Write("again.yaml", job + "\n" + yaml)), yaml);
    }
  }
}

}  // namespace
}  // namespace baton
