// The rollout role with trees of what prompts produced before: what they may change is the time.
#include <algorithm>
#include <map>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/rollout_role.h"
#include "workers/rollout/rollout_role.h"

namespace baton::rollout {
namespace {

using ::testing::HasSubstr;

using SpeculatingRoleTest = RolloutRoleTest;

// The same prompt comes again and again, alone and among others: earlier responses become drafts,
// and the responses are those that are sampled without drafts.
TEST_F(SpeculatingRoleTest, SpeculationChangesNothingButTheTime) {
  Publish(0, 1);
  v1::JobSpec spec = policy::TinySpec();
  std::map<uint32_t, v1::TaskResult> plain;
  double accepted = 0, told = 0;
  for (const char* mode : {"off", "auto"}) {
    v1::SpeculationSpec* const speculation = spec.mutable_rollout()->mutable_speculation();
    speculation->set_mode(mode);
    speculation->set_max_draft_tokens(32);
    speculation->set_half_life_updates(64);
    speculation->set_cache_bytes(1 << 20);
    Assign(spec);
    Load(0);
    for (int epoch = 0; epoch < 4; ++epoch) {
      std::vector<v1::Task> together;
      for (uint32_t sample = 0; sample < 6; ++sample) together.push_back(MakeGenerate(0, sample));
      std::map<std::string, v1::TaskResult> results;
      const auto wait = [&](const v1::Task& task) {
        results[task.task_token()] =
            controller_.WaitForResult(task.task_token()).value_or(v1::TaskResult());
      };
      for (const v1::Task& task : together) {
        controller_.SendTask(task);
        if (epoch % 2 == 0) wait(task);
      }
      for (const v1::Task& task : together) {
        if (epoch % 2 == 1) wait(task);
        const v1::TaskResult& result = results[task.task_token()];
        ASSERT_EQ(result.columns_size(), 3);
        const auto [first, is_first] = plain.emplace(task.generate().sample_index(), result);
        if (is_first) continue;
        EXPECT_EQ(Tokens(result, 1), Tokens(first->second, 1));
        EXPECT_EQ(result.columns(2).data(), first->second.columns(2).data()) << "log-probs";
        EXPECT_EQ(result.finish_reason(), first->second.finish_reason());
        const auto tokens = result.metrics().find("spec/accepted_tokens");
        if (tokens == result.metrics().end()) continue;
        EXPECT_STREQ(mode, "auto");
        ++told;
        accepted += tokens->second;
      }
    }
  }
  EXPECT_GT(told, 0);
  EXPECT_GT(accepted, 5);
}

TEST_F(SpeculatingRoleTest, ACacheThatIsTooSmallIsRefused) {
  v1::JobSpec spec = policy::TinySpec();
  spec.mutable_rollout()->mutable_speculation()->set_mode("auto");
  v1::Task task = Make("assign_role");
  *task.mutable_assign_role()->mutable_spec() = spec;
  EXPECT_THAT(Run(task).status().message(), HasSubstr("spec.rollout.speculation"));
}

v1::JobSpec SpeculatingSpec() {
  v1::JobSpec spec = policy::TinySpec();
  v1::SpeculationSpec& speculation = *spec.mutable_rollout()->mutable_speculation();
  speculation.set_mode("auto");
  speculation.set_max_draft_tokens(16);
  speculation.set_half_life_updates(64);
  speculation.set_cache_bytes(int64_t{1} << 20);
  return spec;
}

// The first response of all: nothing could be verified.
TEST_F(SpeculatingRoleTest, ReportsDraftTimeWithoutVerifiedPasses) {
  Assign(SpeculatingSpec());
  Publish(0, 1);
  Load(0);
  v1::Task task = MakeGenerate(0);
  task.mutable_generate()->set_max_new_tokens(1);
  const v1::TaskResult result = Run(task);
  EXPECT_EQ(result.metrics().count("spec/passes"), 0u);
  ASSERT_EQ(result.metrics().count("spec/draft_seconds"), 1u);
  EXPECT_GT(result.metrics().at("spec/draft_seconds"), 0);
}

// Sixteen responses of two blocks each, and memory for six blocks at most.
TEST_F(SpeculatingRoleTest, ReportsPassesWithoutMemoryForDrafts) {
  v1::JobSpec spec = SpeculatingSpec();
  spec.mutable_rollout()->set_kv_cache_bytes(3 * 4096);
  Assign(spec);
  Publish(0, 1);
  Load(0);
  double passes = 0;
  // On a busy machine a response may be complete before the next one is asked for.
  for (uint32_t first = 0; first < 16 * 20 && passes == 0; first += 16) {
    std::vector<v1::Task> many;
    for (uint32_t sample = first; sample < first + 16; ++sample) {
      many.push_back(MakeGenerate(0, sample));
    }
    for (const v1::Task& task : many) controller_.SendTask(task);
    for (const v1::Task& task : many) {
      const auto result = controller_.WaitForResult(task.task_token());
      ASSERT_TRUE(result.has_value());
      ASSERT_EQ(result->status().code(), 0) << result->status().message();
      const auto told = result->metrics().find("spec/memory_short_passes");
      if (told != result->metrics().end()) passes += told->second;
    }
  }
  EXPECT_GT(passes, 0);
}

TEST_F(SpeculatingRoleTest, TheTreesOutliveAnAssignmentToTheSameJob) {
  Assign(SpeculatingSpec(), "first");
  Publish(0, 1);
  Load(0);
  const v1::TaskResult first = Run(MakeGenerate(0));
  EXPECT_EQ(first.status().code(), 0);
  const auto tokens = [&] { return role_.drafter()->cache().stats().tokens; };
  // The rest of the response enters its tree while nothing else is to do.
  const auto said = static_cast<int64_t>(Tokens(first, 1).size());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (tokens() < said && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(tokens(), said);
  Assign(SpeculatingSpec(), "first");
  EXPECT_EQ(tokens(), said);
  EXPECT_EQ(Run(Make("release_role")).status().code(), 0);
  Assign(SpeculatingSpec(), "first");
  EXPECT_EQ(tokens(), said);
  Load(0);
  EXPECT_EQ(Run(MakeGenerate(0)).status().code(), 0);
  Assign(SpeculatingSpec(), "second");
  EXPECT_EQ(tokens(), 0) << "another job";
  Assign(policy::TinySpec(), "second");
  EXPECT_EQ(role_.drafter(), nullptr);
}

// A replica that comes back would fetch from the log what is in its trees as well, later. Memory is
// short, so nothing is drafted, and all that is said waits.
TEST_F(SpeculatingRoleTest, AReleaseAddsAllPendingTokensToTheTrees) {
  v1::JobSpec spec = SpeculatingSpec();
  spec.mutable_rollout()->set_kv_cache_bytes(3 * 4096);
  Assign(spec, "job");
  Publish(0, 1);
  Load(0);
  std::vector<v1::Task> many;
  for (uint32_t sample = 0; sample < 64; ++sample) many.push_back(MakeGenerate(0, sample));
  for (const v1::Task& task : many) controller_.SendTask(task);
  EXPECT_TRUE(controller_.WaitForResult(many[0].task_token()).has_value());
  EXPECT_EQ(Run(Make("release_role")).status().code(), 0);
  for (const v1::Task& task : many) controller_.WaitForResult(task.task_token());
  Assign(spec, "job");
  // Nothing runs, so the drafter is this thread's.
  EXPECT_FALSE(const_cast<TreeDrafter*>(role_.drafter())->CatchUp(0)) << "something waits";
  EXPECT_GT(role_.drafter()->cache().stats().tokens, 0);
}

TEST_F(SpeculatingRoleTest, RunAheadReturnsNoResponse) {
  Assign(SpeculatingSpec());
  Publish(0, 1);
  Publish(1, 2);
  Load(0);
  const auto ahead = [&](uint64_t version, uint32_t sample) {
    v1::Task task = Make("run_ahead");
    *task.mutable_run_ahead()->mutable_response() = MakeGenerate(version, sample).generate();
    return task;
  };
  EXPECT_EQ(ErrorReason(FromProto(Run(ahead(1, 0)).status())), "WRONG_VERSION");
  const v1::TaskResult guess = Run(ahead(0, 1));
  ASSERT_EQ(guess.status().code(), 0) << guess.status().message();
  EXPECT_EQ(guess.columns_size(), 0);
  EXPECT_EQ(guess.response_text(), "");
  const v1::TaskResult whole = Run(MakeGenerate(0, 1));
  EXPECT_EQ(guess.finish_reason(), whole.finish_reason());
  EXPECT_EQ(guess.metrics().at("tokens"), static_cast<double>(Tokens(whole, 1).size()));
  // The guess's result tells no cost of drafts: they belong to no response of the job.
  EXPECT_EQ(guess.metrics().count("spec/draft_seconds"), 0u);

  // Real work, and then other weights, come while many are under way.
  for (const bool loads : {false, true}) {
    std::vector<v1::Task> many;
    for (uint32_t sample = 0; sample < 128; ++sample) {
      many.push_back(ahead(0, 100 + sample));
      many.back().mutable_run_ahead()->mutable_response()->set_max_new_tokens(48);
    }
    for (const v1::Task& task : many) controller_.SendTask(task);
    if (loads) {
      EXPECT_EQ(Load(1).status().code(), 0);
    } else {
      const v1::TaskResult again = Run(MakeGenerate(0, 1));
      EXPECT_EQ(Tokens(again, 1), Tokens(whole, 1));
      EXPECT_EQ(again.columns(2).data(), whole.columns(2).data());
      EXPECT_LE(again.metrics().at("step_rows"), 1 + 16) << "it shared its passes with guesses";
    }
    int cancelled = 0;
    for (const v1::Task& task : many) {
      const auto result = controller_.WaitForResult(task.task_token());
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->columns_size(), 0);
      cancelled += result->finish_reason() == "cancelled" ? 1 : 0;
    }
    EXPECT_GT(cancelled, 0) << "loads: " << loads;
  }
  // Real work that was stopped is none: what comes behind it runs.
  Load(0);
  for (int i = 0; i < 20; ++i) {
    v1::Task stopped = MakeGenerate(0, 7);
    stopped.mutable_generate()->set_max_new_tokens(48);
    const v1::Task behind = ahead(0, 3);
    controller_.SendTask(stopped);
    v1::ControllerMessage cancel;
    cancel.mutable_cancel()->set_task_token(stopped.task_token());
    controller_.Send(cancel);
    controller_.SendTask(behind);
    ASSERT_TRUE(controller_.WaitForResult(stopped.task_token()).has_value());
    const auto result = controller_.WaitForResult(behind.task_token());
    ASSERT_TRUE(result.has_value());
    EXPECT_NE(result->finish_reason(), "cancelled");
  }
  // A release ends it as well.
  const v1::Task last = ahead(0, 5);
  controller_.SendTask(last);
  EXPECT_EQ(Run(Make("release_role")).status().code(), 0);
  EXPECT_TRUE(controller_.WaitForResult(last.task_token()).has_value());
  Assign();
  EXPECT_EQ(Run(ahead(0, 1)).status().code(), static_cast<int>(absl::StatusCode::kUnimplemented))
      << "without trees nothing is to be run ahead";
}

// The share of drafted tokens that were drawn, if a replica with these trees made the response.
double AcceptanceOf(const TreeCache& cache, absl::Span<const int32_t> prompt,
                    absl::Span<const int32_t> response) {
  // The trees are those of an idle replica, which a test alone uses so.
  const auto cursor = const_cast<TreeCache&>(cache).Begin(prompt, 0);
  double proposed = 0, accepted = 0;
  rollout::Draft draft;
  for (size_t at = 0; at < response.size();) {
    cursor->ProposeDraft(/*budget=*/4, &draft);
    const engine::DraftTree& tree = draft.tree;
    int32_t node = -1;
    size_t drawn = 0;
    for (int32_t i = 0; i < tree.size() && at + drawn < response.size(); ++i) {
      const auto index = static_cast<size_t>(i);
      if (tree.parents[index] != node || tree.tokens[index] != response[at + drawn]) continue;
      node = i;
      ++drawn;
    }
    proposed += static_cast<double>(tree.size());
    accepted += static_cast<double>(drawn);
    const size_t next = std::min(response.size() - at, drawn + 1);
    EXPECT_TRUE(cursor->Append(response.subspan(at, next)).ok());
    at += next;
  }
  return proposed > 0 ? accepted / proposed : 0;
}

// A replica is replaced: the new one has no trees. It gets what was said when it is first asked for
// a response to the prompt, and drafts as well as the old one.
TEST_F(SpeculatingRoleTest, ANewReplicaDraftsLikeTheOneThatItReplaces) {
  constexpr uint32_t kSamples = 12;
  Publish(0, 1);
  Assign(SpeculatingSpec(), "of the old one");
  Load(0);
  std::vector<v1::EarlierResponse> log;
  int64_t said = 0;
  const auto sample_of_77 = [&](uint32_t sample) {
    v1::Task task = MakeGenerate(0, sample);
    task.mutable_generate()->set_prompt_id(77);
    task.mutable_generate()->set_purpose(v1::PURPOSE_TRAIN);
    return task;
  };
  for (uint32_t sample = 0; sample < kSamples; ++sample) {
    const v1::TaskResult result = Run(sample_of_77(sample));
    v1::EarlierResponse& response = log.emplace_back();
    for (const int32_t token : Tokens(result, 0)) response.add_prompt_tokens(token);
    for (const int32_t token : Tokens(result, 1)) response.add_tokens(token);
    said += response.tokens_size();
  }
  const std::vector<int32_t> prompt(log[0].prompt_tokens().begin(), log[0].prompt_tokens().end());
  const auto holds = [&](int64_t tokens) {
    const absl::Time deadline = absl::Now() + absl::Seconds(5);
    while (role_.drafter()->cache().StoredTokens(prompt) < tokens) {
      if (absl::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  ASSERT_TRUE(holds(said));
  const std::vector<int32_t> replayed(log[3].tokens().begin(), log[3].tokens().end());
  const double before = AcceptanceOf(role_.drafter()->cache(), prompt, replayed);
  EXPECT_GT(before, 0.2);

  std::reverse(log.begin(), log.end());  // the newest comes first
  controller_.SetHistory([log](const v1::FetchHistoryRequest&) { return log; });
  Assign(SpeculatingSpec(), "of the new one", "opens");
  Load(0);
  EXPECT_EQ(role_.drafter()->cache().StoredTokens(prompt), 0);
  v1::Task first = sample_of_77(kSamples);
  first.mutable_generate()->set_max_new_tokens(1);
  EXPECT_EQ(Run(first).status().code(), 0);
  ASSERT_TRUE(holds(said + 1)) << "within five seconds";
  EXPECT_NEAR(AcceptanceOf(role_.drafter()->cache(), prompt, replayed), before, 0.05 * before);

  const auto asked = controller_.history_fetches();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].job(), "projects/default/jobs/test");
  EXPECT_EQ(asked[0].capability(), "opens");
  ASSERT_EQ(asked[0].prompts_size(), 1);
  EXPECT_EQ(asked[0].prompts(0).prompt_id(), 77u);
  EXPECT_EQ(asked[0].prompts(0).purpose(), v1::PURPOSE_TRAIN);
  EXPECT_GT(asked[0].max_bytes(), 0);
  // The history's cost is told once, with whichever response comes next.
  double told = 0;
  for (uint32_t sample = 0; sample < 3; ++sample) {
    const v1::TaskResult result = Run(sample_of_77(sample));
    const auto metric = result.metrics().find("spec/history_tokens");
    if (metric != result.metrics().end()) told += metric->second;
    const auto& again = log[kSamples - 1 - sample].tokens();
    EXPECT_EQ(Tokens(result, 1), std::vector<int32_t>(again.begin(), again.end()));
  }
  const auto first_told = controller_.WaitForResult(first.task_token());
  if (const auto it = first_told->metrics().find("spec/history_tokens");
      it != first_told->metrics().end()) {
    told += it->second;
  }
  EXPECT_EQ(told, static_cast<double>(said));
  EXPECT_EQ(controller_.history_fetches().size(), 1u);
}

// Nothing waits for a controller that says nothing, and neither does the release.
TEST_F(SpeculatingRoleTest, AHistoryThatNeverComesHoldsNothingBack) {
  const auto asked = std::make_shared<absl::Notification>();
  const auto over = std::make_shared<absl::Notification>();
  controller_.SetHistory([asked, over](const v1::FetchHistoryRequest&) {
    asked->Notify();
    over->WaitForNotification();
    return std::vector<v1::EarlierResponse>();
  });
  Publish(0, 1);
  Assign(SpeculatingSpec(), "job", "opens");
  Load(0);
  EXPECT_EQ(Run(MakeGenerate(0)).status().code(), 0);
  asked->WaitForNotification();
  EXPECT_EQ(Run(MakeGenerate(0, 1)).status().code(), 0);
  const absl::Time began = absl::Now();
  EXPECT_EQ(Run(Make("release_role")).status().code(), 0);
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  over->Notify();
}

}  // namespace
}  // namespace baton::rollout
