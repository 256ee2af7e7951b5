// `baton plan`, as its user calls it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/fake_job_service.h"
#include "tests/support/sdk/command_line.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanCommandTest : public CommandTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) const override {
    arguments.insert(arguments.begin(), "plan");
    return RunBaton(arguments);
  }
};

const std::vector<std::string> kLarge = {"--models", "llama-70b", "--devices",
                                         "128",      "--device",  "a100-80g"};

TEST_F(PlanCommandTest, PrintsTheChosenPlacementAndWhyOthersLost) {
  const Outcome outcome = Run(kLarge);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("128 x a100-80g, 80 GB each (72 GB usable), 8 a node"),
                    HasSubstr("actor llama-70b (69.0B)"), HasSubstr("critic llama-70b (68.7B)"),
                    HasSubstr("1024 sequences of 1024 + 1024 tokens"), HasSubstr("8 updates"),
                    HasSubstr("generation"), HasSubstr("preparation"), HasSubstr("training"),
                    HasSubstr("runners-up"), HasSubstr("WHY NOT"), HasSubstr("searched in")));
}

TEST_F(PlanCommandTest, JsonHasStagesThatAddUp) {
  const nlohmann::json plan = Json(kLarge);
  const nlohmann::json& chosen = plan["chosen"];
  double sum = 0;
  for (const auto& [name, seconds] : chosen["stages"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(chosen["seconds"].get<double>(), sum, 1e-9);
  EXPECT_EQ(plan["runners_up"].size(), 5);
  double before = chosen["seconds"];
  for (const nlohmann::json& other : plan["runners_up"]) {
    EXPECT_GE(other["seconds"].get<double>(), before);
    EXPECT_NE(other["why_not"], "");
    before = other["seconds"];
  }
  for (const nlohmann::json& pool : chosen["pools"]) {
    EXPECT_LE(pool["peak_bytes"].get<double>(), 72e9);
    for (const nlohmann::json& role : pool["roles"]) {
      EXPECT_EQ(role["pp"].get<int>() * role["tp"].get<int>() * role["dp"].get<int>(),
                pool["devices"]);
      EXPECT_LE(role["pp"], 4);
    }
  }
}

TEST_F(PlanCommandTest, YamlGoesIntoASpecAndPlansTheSame) {
  const double seconds = Json(kLarge)["chosen"]["seconds"];
  std::vector<std::string> yaml = kLarge;
  yaml.insert(yaml.end(), {"-o", "yaml"});
  const Outcome outcome = Run(yaml);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("resources:"), HasSubstr("placement: pools"),
                                 Not(HasSubstr("kind"))));
  const std::string spec = Write("job.yaml",
                                 "kind: rl\n"
                                 "model: {path: Llama-70B, dtype: bfloat16}\n"
                                 "data: {train_batch_size: 1024}\n"
                                 "rollout: {n: 1}\n"
                                 "algorithm: {preset: ppo}\n"
                                 "actor: {ppo_mini_batch_size: 128}\n"
                                 "reward_model: {model: {path: Llama-70B-hf}}\n" +
                                     outcome.out);
  // The spec's own space has no pipeline stages, which this plan has.
  EXPECT_THAT(Run({spec}).err, HasSubstr("is above 1"));
  const nlohmann::json again = Json({spec, "--space", "full"});
  EXPECT_NEAR(again["chosen"]["seconds"].get<double>(), seconds, 1e-9);
  EXPECT_EQ(again["runners_up"].size(), 0);
  // The spec may stand after an option, which takes one value.
  EXPECT_EQ(Run({"--models", "llama-70b", "--space", "full", "--set", "rollout.n=1", spec}).code,
            0);
  const Outcome few = Run({spec, "--devices", "64", "--space", "full"});
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("the pools have 128 devices or more; there are 64"));
  // A flag wins over the spec.
  EXPECT_EQ(Json({spec, "--placement", "auto", "--space", "full"})["runners_up"].size(), 5);
}

TEST_F(PlanCommandTest, ReadsModelsOfTheSpec) {
  Write("tiny/config.json",
        R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
            "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
            "vocab_size": 151936, "tie_word_embeddings": true})");
  const std::string spec = Write("job.yaml",
                                 "kind: rl\nmodel: {path: tiny}\nalgorithm: {preset: grpo}\n"
                                 "resources: {device: l40s, devices: 4, placement: colocate}\n");
  const Outcome outcome = Run({spec});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("4 x l40s"), HasSubstr("actor tiny (494.0M), float32"),
                                 HasSubstr("256 sequences"), HasSubstr("1 placement searched")));
  const std::string random = Write("random.yaml", "kind: sft\nmodel: {init: {characters: 0123}}\n");
  EXPECT_THAT(Run({random, "--devices", "1", "--device", "cpu"}).out,
              AllOf(HasSubstr("actor random weights"), Not(HasSubstr("generation"))));
}

// For a spec the plan is what Baton runs.
TEST_F(PlanCommandTest, ASpecsPlanIsRunnable) {
  const std::string job =
      "kind: rl\nmodel: {path: llama-7b, dtype: bfloat16}\nalgorithm: {preset: ppo}\n"
      "actor: {ppo_mini_batch_size: 4}\n";
  const std::string spec = Write("job.yaml", job + "resources: {device: h200, devices: 64}\n");
  const nlohmann::json chosen = Json({spec})["chosen"];
  for (const nlohmann::json& pool : chosen["pools"]) {
    for (const nlohmann::json& role : pool["roles"]) {
      EXPECT_EQ(role["pp"], 1);
      if (role["role"] != "reference") EXPECT_LE(role["dp"], 4) << role;
    }
  }
  EXPECT_GT(chosen["seconds"], Json({spec, "--space", "full"})["chosen"]["seconds"]);
  EXPECT_THAT(Run({spec, "--max-pp", "2"}).err,
              HasSubstr("has no pipeline stages; add --space full"));
  EXPECT_EQ(Run({spec, "--max-pp", "2", "--space", "full"}).code, 0);
  EXPECT_THAT(Run({spec}).out, HasSubstr("note: the spec has no placement, so each role gets "
                                         "workers of its own"));
  EXPECT_THAT(Run({spec, "--set", "resources.placement=colocate"}).out,
              HasSubstr("note: placement colocate takes layouts from each role's `parallel`"));
  EXPECT_THAT(Run({spec, "--set", "resources.placement=auto"}).out, Not(HasSubstr("note:")));
}

// Pools may have roles that are not planned; planned roles in none are on their own.
TEST_F(PlanCommandTest, TakesPoolsOfOtherRolesToo) {
  const std::string spec =
      Write("job.yaml",
            "kind: rl\nmodel: {path: llama-7b, dtype: bfloat16}\nalgorithm: {preset: grpo}\n"
            "reference: {}\n"
            "resources:\n  device: h200\n  devices: 8\n  role_workers: {reference: 2}\n"
            "  pools: [{roles: [actor], devices: 4}, {roles: [rollout, reward], devices: 2}]\n");
  const nlohmann::json plan = Json({spec});
  ASSERT_EQ(plan["chosen"]["pools"].size(), 2);
  EXPECT_EQ(plan["chosen"]["pools"][0]["roles"][0]["role"], "actor");
  EXPECT_EQ(plan["chosen"]["pools"][1]["roles"][0]["role"], "reference");
  EXPECT_EQ(plan["chosen"]["pools"][1]["roles"][0]["dp"], 2);
  const nlohmann::json shaped = Json({spec, "--set", "reference.parallel.tp=2"});
  EXPECT_EQ(shaped["chosen"]["pools"][1]["roles"][0]["tp"], 2);
  EXPECT_EQ(shaped["chosen"]["pools"][1]["roles"][0]["dp"], 1);
  EXPECT_THAT(plan["notes"].dump(), HasSubstr("though the spec keeps them apart"));
}

TEST_F(PlanCommandTest, MistakesNameTheirPlaceAndTheRemedy) {
  const auto fails = [this](const std::vector<std::string>& arguments, int code) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  const std::vector<std::string> on = {"--devices", "8", "--device", "a100-80g"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), on.begin(), on.end());
    return more;
  };
  EXPECT_THAT(fails({"--models", "llama-7b", "--devices", "8", "--device", "A100"}, 2),
              HasSubstr("did you mean 'a100-80g'?"));
  EXPECT_THAT(fails({"--models", "llama-7b", "--devices", "8"}, 2), HasSubstr("Give --device"));
  EXPECT_THAT(fails({"--models", "llama-7b", "--device", "h100"}, 2), HasSubstr("Give --devices"));
  EXPECT_THAT(fails({"--models", "llama-7b", "--devices", "0", "--device", "h100"}, 2),
              HasSubstr("--devices"));
  EXPECT_THAT(fails(with({"--models", "llama-8b"}), 3), HasSubstr("did you mean 'llama-7b'?"));
  EXPECT_THAT(fails(with({"--models", "actr=llama-7b"}), 2), HasSubstr("did you mean 'actor'?"));
  EXPECT_THAT(fails(with({"--models", "llama-7b", "--placement", "colocated"}), 2),
              HasSubstr("did you mean 'colocate'?"));
  EXPECT_THAT(fails(with({"--models", "llama-7b", "--placement", "pools"}), 2),
              HasSubstr("the spec has no `resources.pools`"));
  EXPECT_THAT(fails(with({}), 2), HasSubstr("role actor has no model; give --models actor=NAME"));
  EXPECT_THAT(fails(with({"no.yaml"}), 3), HasSubstr("no.yaml cannot be opened"));
  EXPECT_THAT(fails(with({"--models", "llama-7b", "--device_", "x"}), 2),
              HasSubstr("has no option --device_"));
  EXPECT_THAT(fails(with({"--models", "llama-70b"}), 1),
              AllOf(HasSubstr("nothing fits on 8 x a100-80g"), HasSubstr("GB a device")));
  const std::string spec = Write("job.yaml", "kind: rl\nrollouts: {n: 2}\n");
  EXPECT_THAT(fails(with({spec}), 2),
              AllOf(HasSubstr("job.yaml:2:1: rollouts"), HasSubstr("rollout")));
  const std::string far = Write("far.yaml", "kind: rl\nmodel: {path: /no/where}\n");
  EXPECT_THAT(fails(with({far}), 3), HasSubstr("model.path /no/where has no config.json"));
  const std::string of_job = Write("of_job.yaml", "kind: rl\nmodel: {path: 'job:first'}\n");
  EXPECT_THAT(fails(with({of_job}), 3),
              HasSubstr("model.path job:first is a job's model, and `plan` asks no controller"));
  const std::string pools = Write("pools.yaml",
                                  "kind: rl\nmodel: {path: llama-7b}\n"
                                  "resources: {pools: [{roles: [actr]}]}\n");
  EXPECT_THAT(fails(with({pools}), 2), HasSubstr("resources.pools[0].roles: 'actr' is not a role "
                                                 "of the job; it has: actor, reward, rollout"));
  const std::string bad = Write("bad/config.json", R"({"hidden_size": 8})");
  EXPECT_THAT(fails(with({"--models", bad}), 2), HasSubstr("layers: 0 is below 1"));
}

TEST_F(PlanCommandTest, ATimingsFileScalesTheRooflines) {
  const std::string spec = Write("job.yaml",
                                 "kind: rl\nmodel: {path: qwen2.5-0.5b}\n"
                                 "data: {max_prompt_length: 64, max_response_length: 64}\n"
                                 "resources: {device: h100, devices: 1}\n");
  const nlohmann::json plain = Json({spec});
  // A job of one training rank and one rollout, as the plan is: what it took is what is planned.
  const double training = plain["chosen"]["stages"]["training"];
  const double generation = plain["chosen"]["stages"]["generation"];
  nlohmann::json steps;
  for (int step = 1; step <= 3; ++step) {
    steps["steps"].push_back({{"step", step},
                              {"metrics",
                               {{"timing_s/update_actor", (step == 1 ? 90 : 3) * training},
                                {"timing_s/gen", 5 * generation}}}});
  }
  const std::string timings = Write("timings.json", steps.dump());
  const nlohmann::json plan =
      Json({spec, "--timings", timings, "--set", "rollout.kv_cache_bytes=50000000000"});
  EXPECT_NEAR(plan["chosen"]["stages"]["training"].get<double>(), 3 * training, 1e-9 * training);
  EXPECT_NEAR(plan["chosen"]["stages"]["generation"].get<double>(), 5 * generation,
              1e-9 * generation);
  EXPECT_THAT(plan["notes"].dump(), HasSubstr("3 times the roofline, generation 5 times"));

  const std::string empty = Write("empty.json", "{}");
  const Outcome outcome = Run({spec, "--timings", empty});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("write it with `baton metrics JOB -o json`"));
}

TEST_F(PlanCommandTest, AJobOfTheControllerCalibrates) {
  FakeJobService service;
  service.job.mutable_effective_spec()->set_kind(v1::JOB_KIND_RL);
  service.job.mutable_effective_spec()->mutable_model()->set_path("/far/Qwen2.5-0.5B-Instruct");
  const std::vector<std::string> arguments = {
      "--models", "llama-7b",     "--devices",      "8", "--device", "h100", "--calibrate",
      "add",      "--controller", service.address()};
  EXPECT_THAT(Run(arguments).err, HasSubstr("no step has timing_s/update_actor"));
  service.step_metrics = {{"timing_s/update_actor", 100}};
  const Outcome outcome = Run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("calibrated by 3 steps of add"), HasSubstr("generation 1 times")));
}

}  // namespace
}  // namespace baton::cli
