#include "workers/hybrid/replica.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <random>
#include <thread>

#include "tests/support/engine/drafter.h"
#include "tests/support/engine/generator.h"
#include "tests/support/engine/thread_communicator.h"

namespace baton::hybrid {
namespace {

using engine::GenerateRequest;
using engine::Generator;
using engine::GeneratorOptions;
using engine::Responses;
using engine::testing::MeetingPoint;
using engine::testing::ThreadCommunicator;

/// One rank of a replica of two: its generator, its part of the model, and the control group.
struct Rank {
  Rank(int r, MeetingPoint* tensor, MeetingPoint* control, const GeneratorOptions& options)
      : tensor_group(r, 2, tensor), control_group(r, 2, control) {
    model = engine::CausalLM::Create(engine::MakeModel()->config(), torch::kFloat32, torch::kCPU,
                                     &tensor_group)
                .value();
    model->InitializeRandom(1);
    generator = engine::MakeGenerator(model.get(), options);
  }
  ThreadCommunicator tensor_group, control_group;
  std::unique_ptr<engine::CausalLM> model;
  std::unique_ptr<Generator> generator;
};

/// Runs `lead` on rank 0 while rank 1 follows; the follower must end well, idle, after the same.
void RunReplica(const GeneratorOptions& options, absl::Duration keep_alive,
                const std::function<void(Generator& generator)>& lead) {
  MeetingPoint tensor(2), control(2);
  engine::GeneratorStats led, followed;
  std::thread other([&] {
    Rank rank(1, &tensor, &control, options);
    ReplicaFollower follower(&rank.control_group, rank.generator.get());
    const absl::Status status = follower.WaitForEnd();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(rank.generator->idle());
    followed = rank.generator->stats();
  });
  {
    Rank rank(0, &tensor, &control, options);
    ReplicaLeader leader(&rank.control_group, rank.generator.get(), keep_alive);
    lead(*rank.generator);
    const absl::Status status = leader.End();
    EXPECT_TRUE(status.ok()) << status;
    led = rank.generator->stats();
  }
  other.join();
  EXPECT_EQ(followed.steps, led.steps);
  EXPECT_EQ(followed.generated_tokens, led.generated_tokens);
  EXPECT_EQ(followed.prefilled_tokens, led.prefilled_tokens);
  EXPECT_EQ(followed.preemptions, led.preemptions);
  EXPECT_EQ(followed.cached_blocks, led.cached_blocks);
  EXPECT_EQ(followed.drafts.rows, led.drafts.rows);
  EXPECT_EQ(followed.drafts.judged, led.drafts.judged);
  EXPECT_EQ(followed.drafts.accepted, led.drafts.accepted);
}

/// Every field matters to somebody.
std::vector<GenerateRequest> Requests(uint64_t first) {
  std::vector<GenerateRequest> requests;
  for (uint64_t id = first; id < first + 6; ++id) {
    requests.push_back(engine::Request(id, {static_cast<int32_t>(id % 3), 3, 9, 4, 11}, 40, 0.9));
  }
  requests[1].params.top_k = 5;
  requests[1].key.job_seed = std::numeric_limits<uint64_t>::max();
  requests[2].params.top_p = 0.7;
  requests[2].key.prompt_id = uint64_t{1} << 63;
  requests[3].params.stop_token_ids = {1, 8, 20};
  requests[3].params.min_new_tokens = 3;
  requests[4].params.stop_strings = {"zz", "a", "AF"};
  requests[4].params.temperature = 1.7;
  requests[5].resume = {30, 2, 2};
  requests[5].key.sample = 0xffffffffu;
  requests[5].draft = {7, 1, 19, 0, 5};
  return requests;
}

/// Comings and goings: requests beside others, one taken away, weights said to have changed.
Responses Play(Generator& generator) {
  Responses responses;
  const auto add = [&](const std::vector<GenerateRequest>& requests) {
    for (const GenerateRequest& request : requests) {
      const absl::Status added = generator.Add(request);
      ASSERT_TRUE(added.ok()) << added;
    }
  };
  const auto finish = [&] {
    while (!generator.idle()) engine::StepInto(generator, &responses);
  };
  add(Requests(1));
  for (int i = 0; i < 4; ++i) engine::StepInto(generator, &responses);
  EXPECT_TRUE(generator.Cancel(1));
  EXPECT_FALSE(generator.Cancel(99));
  EXPECT_FALSE(generator.Add(engine::Request(50, {}, 3)).ok());
  add(Requests(11));
  EXPECT_TRUE(generator.Cancel(12));
  finish();
  EXPECT_TRUE(generator.OnWeightsChanged().ok());
  add(Requests(21));
  finish();
  return responses;
}

TEST(ReplicaTest, GeneratesTheResponsesOfTheWholeModel) {
  GeneratorOptions options;
  options.max_num_seqs = 4;
  options.prefill_chunk_tokens = 4;
  options.kv_cache_bytes = 27648;  // Nine blocks: some give way to others.
  const auto model = engine::MakeModel();
  const auto whole = engine::MakeGenerator(model.get(), options);
  const Responses expected = Play(*whole);
  EXPECT_GT(whole->stats().preemptions, 0);
  EXPECT_EQ(expected.size(), 18u);
  options.kv_cache_bytes /= 2;
  RunReplica(options, absl::Seconds(10), [&](Generator& generator) {
    const Responses responses = Play(generator);
    ASSERT_EQ(responses.size(), expected.size());
    for (const auto& [id, response] : expected) {
      EXPECT_EQ(responses.at(id).tokens, response.tokens) << id;
      EXPECT_EQ(responses.at(id).finish_reason, response.finish_reason) << id;
    }
    EXPECT_EQ(generator.stats().preemptions, whole->stats().preemptions);
  });
}

// The leader alone has a drafter. A follower without its trees would compute other rows.
TEST(ReplicaTest, FollowersReceiveTheLeadersDrafts) {
  const auto model = engine::MakeModel();
  const auto whole = engine::MakeGenerator(model.get());
  const Responses expected = Play(*whole);
  std::mt19937 random(1);
  engine::testing::OracleDrafter drafter([&](absl::Span<const int32_t> future, int64_t) {
    return engine::testing::SomeTree(future, random);
  });
  for (const auto& [id, response] : expected) {
    // The response of a cancelled request is not known to its end.
    std::vector<int32_t> tokens = response.tokens;
    tokens.resize(40, 0);
    drafter.Know(id, tokens);
  }
  GeneratorOptions options;
  options.max_num_seqs = 4;
  RunReplica(options, absl::Seconds(10), [&](Generator& generator) {
    generator.SetDrafter(&drafter);
    const Responses responses = Play(generator);
    ASSERT_EQ(responses.size(), expected.size());
    for (const auto& [id, response] : expected) {
      if (response.finish_reason == "cancelled") continue;
      EXPECT_EQ(responses.at(id).tokens, response.tokens) << id;
    }
    EXPECT_GT(generator.stats().drafts.accepted, 50);
    generator.SetDrafter(nullptr);
  });
}

TEST(ReplicaTest, EndsWithoutAnyStep) {
  RunReplica({}, absl::Seconds(10), [](Generator&) {});
}

/// Counts what is sent.
class CountingCommunicator : public ThreadCommunicator {
 public:
  using ThreadCommunicator::ThreadCommunicator;
  void Broadcast(torch::Tensor tensor, int root) override {
    ThreadCommunicator::Broadcast(std::move(tensor), root);
    absl::MutexLock lock(&mu_);
    ++count_;
  }
  bool WaitForBroadcasts(int count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count] {
      mu_.AssertReaderHeld();
      return count_ >= count;
    };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
  }

 private:
  absl::Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

// A waiting follower hears that the leader is there, even if the leader has no work.
TEST(ReplicaTest, AnIdleLeaderSendsHeartbeats) {
  MeetingPoint tensor(2), control(2);
  std::thread other([&] {
    Rank rank(1, &tensor, &control, {});
    ReplicaFollower follower(&rank.control_group, rank.generator.get());
    EXPECT_TRUE(follower.WaitForEnd().ok());
    EXPECT_EQ(rank.generator->stats().generated_tokens, 8);
  });
  Rank rank(0, &tensor, &control, {});
  CountingCommunicator counting(0, 2, &control);
  ReplicaLeader leader(&counting, rank.generator.get(), absl::Milliseconds(1));
  EXPECT_TRUE(counting.WaitForBroadcasts(3));
  ASSERT_TRUE(rank.generator->Add(engine::Request(1, {4, 5}, 8)).ok());
  while (!rank.generator->idle()) ASSERT_TRUE(rank.generator->Step().ok());
  EXPECT_TRUE(counting.WaitForBroadcasts(30));
  EXPECT_TRUE(leader.End().ok());
  other.join();
}

// After a loss every step returns the error, with the code that the group gave it.
TEST(ReplicaTest, ALostFollowerIsTheStepsError) {
  class Broken : public ThreadCommunicator {
   public:
    using ThreadCommunicator::ThreadCommunicator;
    void Broadcast(torch::Tensor, int) override {
      throw engine::CollectiveError(absl::UnavailableError("rank 1 is gone"));
    }
  };
  const auto model = engine::MakeModel();
  const auto generator = engine::MakeGenerator(model.get());
  MeetingPoint point(2);
  Broken control(0, 2, &point);
  ReplicaLeader leader(&control, generator.get(), absl::Seconds(10));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(generator->Add(engine::Request(1, {4, 5}, 8)).ok());
    const absl::Status status = generator->Step().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(generator->idle());
  }
  EXPECT_TRUE(absl::IsUnavailable(leader.End()));
  ASSERT_TRUE(generator->Add(engine::Request(1, {4, 5}, 8)).ok());
  EXPECT_TRUE(generator->Step().ok()) << "it is led no more";
}

}  // namespace
}  // namespace baton::hybrid
