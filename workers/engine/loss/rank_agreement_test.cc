#include "workers/engine/loss/rank_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/support/engine/thread_communicator.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankAgreementTest, ASingleRankDecidesAlone) {
  RankAgreement ranks(nullptr, nullptr, torch::kCPU);
  EXPECT_TRUE(ranks.alone());
  EXPECT_TRUE(ranks.CheckSame(3, "batches").ok());
  EXPECT_TRUE(ranks.Any(true));
  EXPECT_FALSE(ranks.Any(false));
  const BatchShare share = ranks.ShareOf({4, 0, 2}, {1, 0});
  EXPECT_THAT(share.lengths, ElementsAre(4, 0, 2));
  EXPECT_EQ(share.imbalance, 1);
  double sums[] = {2, 3};
  EXPECT_TRUE(ranks.SumUnlessFailed(absl::OkStatus(), absl::MakeSpan(sums)).ok());
  EXPECT_EQ(sums[1], 3);
}

TEST(RankAgreementTest, SharesByCost) {
  testing::RunRanks(2, [](Communicator& group) {
    RankAgreement ranks(nullptr, &group, torch::kCPU);
    // Costs n + n^2: 6 costs 42, the three 3s 12 each: 42 against 36.
    const BatchShare share = ranks.ShareOf({3, 6, 3, 0, 3}, {1, 1});
    if (group.rank() == 0) {
      EXPECT_THAT(share.lengths, ElementsAre(0, 6, 0, 0, 0));
    } else {
      EXPECT_THAT(share.lengths, ElementsAre(3, 0, 3, 0, 3));
    }
    EXPECT_DOUBLE_EQ(share.imbalance, 42.0 / 39);
  });
}

TEST(RankAgreementTest, FindsRanksThatWereGivenSomethingElse) {
  testing::RunGrid(2, 2, [](Communicator& tensor, Communicator& data) {
    RankAgreement ranks(&tensor, &data, torch::kCPU);
    EXPECT_TRUE(ranks.CheckSame(std::numeric_limits<uint64_t>::max(), "batches").ok());
    // One rank of four differs: all are told, also those whose groups agree.
    const bool odd = tensor.rank() == 1 && data.rank() == 1;
    const absl::Status status = ranks.CheckSame(odd ? 7 : 8, "batches");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("different batches"));
    EXPECT_TRUE(ranks.Any(odd));
    EXPECT_FALSE(ranks.Any(false));
  });
}

TEST(RankAgreementTest, SumsUnlessARankRefuses) {
  testing::RunRanks(3, [](Communicator& group) {
    RankAgreement ranks(nullptr, &group, torch::kCPU);
    double sums[] = {1.0 + group.rank(), 10};
    EXPECT_TRUE(ranks.SumUnlessFailed(absl::OkStatus(), absl::MakeSpan(sums)).ok());
    EXPECT_EQ(sums[0], 6);
    EXPECT_EQ(sums[1], 30);
    const absl::Status mine =
        group.rank() == 2 ? absl::FailedPreconditionError("token 3") : absl::OkStatus();
    const absl::Status status = ranks.SumUnlessFailed(mine, absl::MakeSpan(sums));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(group.rank() == 2 ? "token 3" : "rank 2 refused"));
    EXPECT_EQ(sums[0], 6);
  });
}

TEST(RankAgreementTest, AllRanksGiveTheFirstError) {
  testing::RunGrid(2, 3, [](Communicator& tensor, Communicator& data) {
    RankAgreement ranks(&tensor, &data, torch::kCPU);
    EXPECT_TRUE(ranks.FirstError(absl::OkStatus()).ok());
    const std::string text = "sequence 7: \xc3\xa9" + std::string(2000, '!');
    const absl::Status mine = data.rank() == 0   ? absl::OkStatus()
                              : data.rank() == 1 ? absl::InvalidArgumentError(text)
                                                 : absl::InternalError("of a later rank");
    const absl::Status first = ranks.FirstError(mine);
    EXPECT_EQ(first.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(first.message(), text.substr(0, RankAgreement::kMostErrorBytes));
  });
  EXPECT_EQ(RankAgreement(nullptr, nullptr, torch::kCPU).FirstError(absl::InternalError("x")),
            absl::InternalError("x"));
}

// Two tensor ranks of one data rank fail differently: the first one's error is everyone's, whole.
TEST(RankAgreementTest, AllRanksReportTheFirstTensorRanksError) {
  testing::RunGrid(2, 2, [](Communicator& tensor, Communicator& data) {
    RankAgreement ranks(&tensor, &data, torch::kCPU);
    const absl::Status mine = tensor.rank() == 0 ? absl::CancelledError("the lease has ended")
                                                 : absl::InvalidArgumentError("zzz");
    EXPECT_EQ(ranks.FirstError(data.rank() == 1 ? mine : absl::OkStatus()),
              absl::CancelledError("the lease has ended"));
  });
}

// A rank that could not fetch its share has another digest of it. It tells this reason, and not
// that shares differ: a cancelled fetch is tried again, a batch that differs is not.
TEST(RankAgreementTest, ARankWithoutItsShareSaysWhy) {
  testing::RunGrid(2, 2, [](Communicator& tensor, Communicator& data) {
    RankAgreement ranks(&tensor, &data, torch::kCPU);
    const bool lost = tensor.rank() == 1 && data.rank() == 0;
    UpdateDigests digests;
    digests.share = lost ? 7 : static_cast<uint64_t>(10 + data.rank());
    EXPECT_EQ(ranks.AgreeOnUpdate(digests, lost ? absl::CancelledError("gone") : absl::OkStatus()),
              absl::CancelledError("gone"));
  });
}

TEST(RankAgreementTest, HeaderDigestsCoverWhatEveryRankKnows) {
  TrainSequence s;
  s.tokens = {1, 2, 3};
  s.prompt_length = 1;
  s.advantages = {0.5f, 1};
  const auto digest = [](TrainSequence sequence) {
    return HeaderDigestOf(absl::MakeConstSpan(&sequence, 1));
  };
  const uint64_t base = digest(s);
  TrainSequence other = s;
  other.tokens = {};
  other.advantages = {};
  other.remote_length = 3;
  EXPECT_EQ(digest(other), base) << "it is the same on the rank that has the tokens";
  const auto expect_different = [&](const std::function<void(TrainSequence&)>& change) {
    TrainSequence changed = other;
    change(changed);
    EXPECT_NE(digest(changed), base);
  };
  expect_different([](TrainSequence& t) { t.remote_length = 4; });
  expect_different([](TrainSequence& t) { t.prompt_length = 2; });
  expect_different([](TrainSequence& t) { t.loss_mask = {1, 0}; });
  expect_different([](TrainSequence& t) { t.positive = true; });
  TrainSequence text = s, other_text = s;
  text.pretraining = other_text.pretraining = true;
  other_text.tokens[2] = 4;
  EXPECT_NE(digest(text), digest(other_text)) << "every rank has the texts";
}

TEST(RankAgreementTest, DigestsDifferWithAnything) {
  TrainSequence s;
  s.tokens = {1, 2, 3};
  s.prompt_length = 1;
  s.advantages = {0.5f, 1};
  const auto digest = [](TrainSequence sequence) {
    return DigestOf(absl::MakeConstSpan(&sequence, 1));
  };
  const uint64_t base = digest(s);
  TrainSequence other = s;
  EXPECT_EQ(digest(other), base);
  other.tokens[2] = 4;
  EXPECT_NE(digest(other), base);
  other = s;
  other.advantages[1] = 1.0000001f;
  EXPECT_NE(digest(other), base);
  other = s;
  other.loss_mask = {1, 1};
  EXPECT_NE(digest(other), base);
  other = s;
  other.returns = {1};
  const uint64_t with_returns = digest(other);
  EXPECT_NE(with_returns, base);
  other.returns.clear();
  other.values = {1};
  EXPECT_NE(digest(other), base);
  EXPECT_NE(digest(other), with_returns);
}

}  // namespace
}  // namespace baton::engine
