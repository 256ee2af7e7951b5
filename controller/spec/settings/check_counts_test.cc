#include "controller/spec/settings/check_counts.h"

#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/score_graph.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

constexpr int kVeryMany = 10'000;

size_t BytesOf(const CheckedSpec& checked) {
  size_t bytes = 0;
  for (const auto& violation : checked.violations) {
    bytes += violation.field().size() + violation.description().size();
  }
  return bytes;
}

v1::ScoreNode* AddNode(v1::JobSpec* spec, int number) {
  v1::ScoreNode* node = spec->mutable_dataflow()->add_score();
  node->set_node(absl::StrCat("node-", number));
  node->set_role(absl::StrCat("role-", number));
  node->set_method("measure");
  node->set_out(absl::StrCat("out-", number));
  return node;
}

// Each is a spec of less than a megabyte. If its parts were compared with one another, the size of
// the answer, or the time for it, would grow with the square of their number.
TEST(CheckCountsTest, ReportsAnOversizedListOnceAndSkipsOtherChecks) {
  const std::map<std::string, std::function<void(v1::JobSpec*)>> specs = {
      {"spec.dataflow.score",
       [](v1::JobSpec* spec) {  // a chain, the last node first
         for (int i = 0; i < kVeryMany; ++i) {
           AddNode(spec, i)->add_inputs(absl::StrCat("out-", i + 1));
         }
       }},
      {"spec.dataflow.score.inputs",
       [](v1::JobSpec* spec) {
         v1::ScoreNode* node = AddNode(spec, 0);
         for (int i = 0; i < kVeryMany; ++i) node->add_inputs(absl::StrCat("unknown-", i));
       }},
      {"spec.dataflow.update",
       [](v1::JobSpec* spec) {
         for (int i = 0; i < kVeryMany; ++i) spec->mutable_dataflow()->add_update();
       }},
      {"spec.dataflow.generate",
       [](v1::JobSpec* spec) {
         for (int i = 0; i < kVeryMany; ++i) spec->mutable_dataflow()->add_generate();
       }},
      {"spec.dataflow.advantage.rewards",
       [](v1::JobSpec* spec) {
         auto& rewards = *spec->mutable_dataflow()->mutable_advantage()->mutable_rewards();
         for (int i = 0; i < kVeryMany; ++i) rewards[absl::StrCat("reward-", i)] = 1;
       }},
      {"spec.resources.pools",
       [](v1::JobSpec* spec) {
         for (int i = 0; i < kVeryMany; ++i) spec->mutable_resources()->add_pools();
       }},
      {"spec.resources.pools.roles",
       [](v1::JobSpec* spec) {
         v1::PoolSpec* pool = spec->mutable_resources()->add_pools();
         for (int i = 0; i < kVeryMany; ++i) pool->add_roles(absl::StrCat("role-", i));
       }},
      {"spec.resources.pools.layouts",
       [](v1::JobSpec* spec) {
         auto& layouts = *spec->mutable_resources()->add_pools()->mutable_layouts();
         for (int i = 0; i < kVeryMany; ++i) layouts[absl::StrCat("role-", i)].set_tp(1 << 30);
       }},
      {"spec.resources.role_workers",
       [](v1::JobSpec* spec) {
         auto& workers = *spec->mutable_resources()->mutable_role_workers();
         for (int i = 0; i < kVeryMany; ++i) workers[absl::StrCat("role-", i)] = 1 << 30;
       }},
  };
  for (const auto& [field, fill] : specs) {
    v1::JobSpec spec = ExampleSpec("ppo");
    fill(&spec);
    const CheckedSpec checked = CheckSpec(spec);
    ASSERT_FALSE(checked.violations.empty()) << field;
    ASSERT_LE(checked.violations.size(), 2u) << field;  // nodes, and their inputs together
    EXPECT_EQ(checked.violations[0].field(), field);
    for (const auto& violation : checked.violations) {
      EXPECT_THAT(violation.description(), HasSubstr(" entries, at most ")) << field;
    }
  }
}

TEST(CheckCountsTest, LongNamesAreSaidOnceForAList) {
  const std::string name(100'000, 'r');
  v1::JobSpec spec = ExampleSpec("ppo");
  AddNode(&spec, 0)->set_role(name + "0");
  AddNode(&spec, 1)->set_role(name + "1");
  spec.mutable_resources()->add_pools()->add_roles(name);
  (*spec.mutable_resources()->mutable_role_workers())[name] = 1;
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_EQ(checked.violations.size(), 3u);
  EXPECT_EQ(checked.violations[0].field(), "spec.dataflow.score");
  EXPECT_EQ(checked.violations[0].description(), "a name has 100001 bytes, at most 200");
  EXPECT_EQ(checked.violations[1].field(), "spec.resources.pools");
  EXPECT_EQ(checked.violations[2].field(), "spec.resources.role_workers");
}

TEST(CheckCountsTest, LabelsAreFewAndShort) {
  v1::JobSpec spec = ExampleSpec("ppo");
  for (int i = 0; i < 64; ++i) {
    (*spec.mutable_labels())[std::string(254, 'n') + absl::StrCat(10 + i)] = std::string(8192, 'v');
  }
  EXPECT_TRUE(CheckSpec(spec).violations.empty());
  (*spec.mutable_labels())["note"] = "";
  ASSERT_EQ(CheckSpec(spec).violations.size(), 1u);
  EXPECT_EQ(CheckSpec(spec).violations[0].field(), "spec.labels");
  EXPECT_EQ(CheckSpec(spec).violations[0].description(), "has 65 entries, at most 64");
  spec.clear_labels();
  (*spec.mutable_labels())["note"] = std::string(8193, 'v');
  ASSERT_EQ(CheckSpec(spec).violations.size(), 1u);
  EXPECT_EQ(CheckSpec(spec).violations[0].description(), "a value has 8193 bytes, at most 8192");
  spec.clear_labels();
  (*spec.mutable_labels())[std::string(257, 'n')] = "value";
  ASSERT_EQ(CheckSpec(spec).violations.size(), 1u);
  EXPECT_EQ(CheckSpec(spec).violations[0].description(), "a name has 257 bytes, at most 256");
}

// As much as may be there, all of it wrong.
TEST(CheckCountsTest, TheAnswerToTheLargestSpecIsBounded) {
  v1::JobSpec spec = ExampleSpec("ppo");
  spec.clear_dataflow();
  const std::string long_name(kMostNameBytes - 10, 'n');
  for (int i = 0; i < kMaxScoreNodes; ++i) {
    v1::ScoreNode* node = AddNode(&spec, i);
    for (std::string* text : {node->mutable_node(), node->mutable_role(), node->mutable_out()}) {
      text->append(long_name);
      text->resize(kMostNameBytes);
    }
    for (int k = 0; k < kMostInputs / kMaxScoreNodes; ++k) {
      node->add_inputs(absl::StrCat(i, "-", k, long_name).substr(0, kMostNameBytes));
    }
  }
  v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
  for (int i = 0; i < kMostRoles; ++i) {
    const std::string role = absl::StrCat("other-", i, long_name).substr(0, kMostNameBytes);
    pool->add_roles(role);
    (*pool->mutable_layouts())[role].set_tp(1 << 30);
    (*spec.mutable_resources()->mutable_role_workers())[role] = 1 << 30;
  }
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_GT(checked.violations.size(), static_cast<size_t>(kMostInputs));
  EXPECT_LT(BytesOf(checked), size_t{24} << 20);
}

// Any number in a field of devices or ranks.
TEST(CheckCountsTest, HugeNumbersOfDevicesAndRanksAreRefused) {
  constexpr int kHuge = 2'147'483'647;
  v1::JobSpec spec = ExampleSpec("ppo");
  spec.mutable_resources()->set_placement("auto");
  spec.mutable_resources()->set_device("h100");
  spec.mutable_resources()->set_devices(kHuge);
  v1::JobSpec pools = ExampleSpec("ppo");
  v1::PoolSpec* pool = pools.mutable_resources()->add_pools();
  pool->add_roles("actor");
  pool->set_devices(kHuge);
  v1::LayoutSpec& layout = (*pool->mutable_layouts())["actor"];
  layout.set_tp(kHuge);
  layout.set_dp(kHuge);
  v1::JobSpec ranks = ExampleSpec("ppo");
  ranks.mutable_actor()->mutable_parallel()->set_tp(kHuge);
  ranks.mutable_actor()->mutable_parallel()->set_dp(kHuge);
  ranks.mutable_resources()->set_rollout_workers(kHuge);
  (*ranks.mutable_resources()->mutable_role_workers())["critic"] = kHuge;
  const auto said = [](const v1::JobSpec& of) {
    std::string out;
    for (const auto& violation : CheckSpec(of).violations) {
      absl::StrAppend(&out, violation.field(), ": ", violation.description(), "\n");
    }
    return out;
  };
  EXPECT_THAT(said(spec), HasSubstr("spec.resources.devices: 2147483647 is not in [1, 65536]"));
  EXPECT_THAT(said(pools),
              HasSubstr("spec.resources.pools[0].devices: 2147483647 is not in [1, 65536]"));
  EXPECT_THAT(said(pools), HasSubstr("2147483647 is more than 65536"));
  EXPECT_THAT(said(ranks), HasSubstr("spec.actor.parallel.tp: 2147483647 is not in [1, 64]"));
  EXPECT_THAT(said(ranks), HasSubstr("spec.actor.parallel.dp: 2147483647 is not in [1, 1024]"));
  EXPECT_THAT(said(ranks), HasSubstr("spec.resources.rollout_workers: 2147483647 is not in"));
}

}  // namespace
}  // namespace baton::controller
