// Ranks, each on a thread, that publish through a real baton-relay.
#include "workers/policy/weights_publisher.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/model_image.h"
#include "tests/support/engine/tensor_parallel.h"
#include "tests/support/engine/thread_communicator.h"
#include "tests/support/relay/relay_process.h"
#include "tests/support/workers/policy.h"

namespace baton::policy {
namespace {

using engine::Communicator;

constexpr char kTrainedJob[] = "projects/default/jobs/j";

/// A worker's end of the relay, with something done before a call of this rank goes through.
class RelayWith : public WeightsRelay {
 public:
  using Hook = std::function<absl::Status()>;
  RelayWith(const std::string& address, Hook join, Hook commit, Hook begin = nullptr)
      : WeightsRelay({address}, "test"),
        join_(std::move(join)),
        commit_(std::move(commit)),
        begin_(std::move(begin)) {}

  absl::StatusOr<Writer> Begin(const Publication& what, const relay::SafetensorsLayout& layout,
                               int writers, const absl::Notification& cancelled) override {
    begun_with_.push_back(writers);
    if (begin_) BATON_RETURN_IF_ERROR(begin_());
    return WeightsRelay::Begin(what, layout, writers, cancelled);
  }
  absl::StatusOr<Writer> Join(const Publication& what, const relay::SegmentPlace& place,
                              const relay::SafetensorsLayout& layout) override {
    if (join_) BATON_RETURN_IF_ERROR(join_());
    return WeightsRelay::Join(what, place, layout);
  }
  absl::Status Commit(relay::SegmentWriter& writer, int rank,
                      absl::Span<const relay::TensorDigest> digests) override {
    if (commit_) BATON_RETURN_IF_ERROR(commit_());
    return WeightsRelay::Commit(writer, rank, digests);
  }

  /// The writers that each Begin was for.
  const std::vector<int>& begun_with() const { return begun_with_; }

 private:
  const Hook join_, commit_, begin_;
  std::vector<int> begun_with_;
};

class WeightsPublisherTest : public ::testing::Test {
 protected:
  WeightsPublisherTest() {
    StartRelay("127.0.0.1:0");
    relay_ = WeightsRelay::Create({process_->address()}, "test").value();
  }

  void StartRelay(const std::string& listen) {
    process_ = std::make_unique<relay::RelayProcess>(std::vector<std::string>{
        "--listen", listen, "--shm-dir", folder_.path(), "--log-file", folder_.path("log")});
  }

  std::unique_ptr<engine::CausalLM> Model(Communicator* group) const {
    return engine::testing::MakeSharedModel(config_, group, torch::kFloat32);
  }
  /// The bytes of a version: gathered, and written in one piece.
  std::vector<uint8_t> Want() const {
    const auto image = engine::testing::ModelImage(*Model(nullptr), torch::kBFloat16).value();
    std::vector<uint8_t> bytes(static_cast<size_t>(image.size_bytes()));
    EXPECT_TRUE(image.CopyTo(absl::MakeSpan(bytes)).ok());
    return bytes;
  }
  static absl::StatusOr<std::vector<uint8_t>> Load(WeightsRelay& relay, uint64_t version) {
    std::vector<uint8_t> loaded;
    BATON_RETURN_IF_ERROR(
        relay.Load({kTrainedJob, version}, Never(), [&](absl::Span<const uint8_t> bytes) {
          loaded.assign(bytes.begin(), bytes.end());
          return absl::OkStatus();
        }));
    return loaded;
  }

  /// The answers of two ranks; `relays` are theirs.
  std::vector<absl::Status> Publish(const std::vector<WeightsRelay*>& relays,
                                    const std::vector<uint64_t>& versions = {1}) {
    std::vector<absl::Status> answers(relays.size());
    engine::testing::RunRanks(static_cast<int>(relays.size()), [&](Communicator& group) {
      const auto model = Model(&group);
      WeightsPublisher publisher(relays[group.rank()], model.get(), torch::kBFloat16);
      for (uint64_t version : versions) {
        answers[group.rank()] = publisher.Publish({kTrainedJob, version, false, ""}, Never());
      }
    });
    return answers;
  }

  TestFolder folder_;
  const ModelConfig config_ = engine::testing::SharedConfig(true);
  std::unique_ptr<relay::RelayProcess> process_;
  std::unique_ptr<WeightsRelay> relay_;
};

TEST_F(WeightsPublisherTest, RanksTogetherPublishTheBytesOfTheWholeModel) {
  const std::vector<uint8_t> want = Want();
  uint64_t version = 0;
  for (int ranks : {2, 4}) {
    ++version;
    const auto answers = Publish(std::vector<WeightsRelay*>(ranks, relay_.get()), {version});
    for (const absl::Status& answer : answers) EXPECT_TRUE(answer.ok()) << answer;
    EXPECT_EQ(Load(*relay_, version).value(), want) << ranks << " ranks";
  }
  const auto alone = Model(nullptr);
  WeightsPublisher publisher(relay_.get(), alone.get(), torch::kBFloat16);
  ASSERT_TRUE(publisher.Publish({kTrainedJob, ++version, false, ""}, Never()).ok());
  EXPECT_EQ(publisher.size_bytes(), static_cast<int64_t>(want.size()));
  EXPECT_EQ(Load(*relay_, version).value(), want);
}

TEST_F(WeightsPublisherTest, AVersionThatARankCouldNotWriteIsNotThere) {
  RelayWith full(process_->address(), nullptr,
                 [] { return absl::ResourceExhaustedError("no room here"); });
  const auto answers = Publish({relay_.get(), &full});
  EXPECT_EQ(answers[0].code(), absl::StatusCode::kResourceExhausted) << answers[0];
  EXPECT_THAT(std::string(answers[0].message()), ::testing::HasSubstr("rank 1"));
  EXPECT_EQ(answers[1].message(), "no room here");
  EXPECT_TRUE(absl::IsNotFound(Load(*relay_, 1).status()));
  EXPECT_TRUE(Publish({relay_.get(), relay_.get()})[0].ok()) << "it may be published again";
  EXPECT_EQ(Load(*relay_, 1).value(), Want());
}

TEST_F(WeightsPublisherTest, ARankOfAnotherMachineSendsItsTensors) {
  RelayWith near(process_->address(), nullptr, nullptr);
  RelayWith far(
      process_->address(), [] { return absl::NotFoundError("another machine"); }, nullptr);
  for (const absl::Status& answer : Publish({&near, &far}, {1, 2})) {
    EXPECT_TRUE(answer.ok()) << answer;
  }
  EXPECT_EQ(Load(*relay_, 1).value(), Want());
  EXPECT_EQ(Load(*relay_, 2).value(), Want());
  EXPECT_THAT(near.begun_with(), ::testing::ElementsAre(2, 1, 1)) << "once tried, then known";
}

// Worked out by hand: versions 1, 3 and 6 are tried by both, and then written by one.
TEST_F(WeightsPublisherTest, ARankOfAnotherMachineIsTriedLessAndLessOften) {
  RelayWith near(process_->address(), nullptr, nullptr);
  RelayWith far(
      process_->address(), [] { return absl::NotFoundError("another machine"); }, nullptr);
  for (const absl::Status& answer : Publish({&near, &far}, {1, 2, 3, 4, 5, 6, 7})) {
    EXPECT_TRUE(answer.ok()) << answer;
  }
  EXPECT_THAT(near.begun_with(), ::testing::ElementsAre(2, 1, 1, 2, 1, 1, 1, 2, 1, 1));
}

// A relay that was starting again when the rank asked it.
TEST_F(WeightsPublisherTest, ARankThatOnceDidNotReachAVersionWritesItsBoxesAgain) {
  RelayWith near(process_->address(), nullptr, nullptr);
  int joins = 0;
  RelayWith unlucky(
      process_->address(),
      [&] { return ++joins == 1 ? absl::NotFoundError("no such version") : absl::OkStatus(); },
      nullptr);
  for (const absl::Status& answer : Publish({&near, &unlucky}, {1, 2, 3, 4})) {
    EXPECT_TRUE(answer.ok()) << answer;
  }
  EXPECT_THAT(near.begun_with(), ::testing::ElementsAre(2, 1, 1, 2, 2));
  EXPECT_EQ(Load(*relay_, 4).value(), Want());
}

TEST_F(WeightsPublisherTest, ARelayThatIsStartedAgainBetweenBeginAndSealGetsTheVersion) {
  int commits = 0;
  RelayWith unlucky(process_->address(), nullptr, [&] {
    if (++commits > 1) return absl::OkStatus();
    const std::string address = process_->address();
    process_.reset();
    StartRelay(address);
    return absl::OkStatus();
  });
  for (const absl::Status& answer : Publish({&unlucky, relay_.get()})) {
    EXPECT_TRUE(answer.ok()) << answer;
  }
  EXPECT_EQ(commits, 2);
  EXPECT_EQ(Load(*relay_, 1).value(), Want());
}

// A rank maps the memory and speaks to another relay: containers may share their memory alone.
TEST_F(WeightsPublisherTest, ARankWithAnotherRelaySendsItsTensors) {
  RelayWith near(process_->address(), nullptr, nullptr);
  RelayWith other(process_->address(), nullptr,
                  [] { return absl::NotFoundError("no such segment"); });
  for (const absl::Status& answer : Publish({&near, &other}, {1, 2})) {
    EXPECT_TRUE(answer.ok()) << answer;
  }
  EXPECT_EQ(Load(*relay_, 2).value(), Want());
  EXPECT_THAT(near.begun_with(), ::testing::ElementsAre(2, 1, 1));
}

// The relay is full when the version is begun again. The first rank says so; that the others were
// told to begin again is no answer.
TEST_F(WeightsPublisherTest, OnlyTheFirstRankAnswersForAVersionBegunAgain) {
  int begun = 0;
  RelayWith first(
      process_->address(), nullptr, [] { return absl::NotFoundError("the relay is new"); },
      [&] { return ++begun == 1 ? absl::OkStatus() : absl::ResourceExhaustedError("full"); });
  const auto answers = Publish({&first, relay_.get()});
  EXPECT_EQ(answers[0], absl::ResourceExhaustedError("full"));
  EXPECT_TRUE(answers[1].ok()) << answers[1];
}

/// A group's end whose other rank is lost at one of its collectives.
class LosingCommunicator : public Communicator {
 public:
  LosingCommunicator(Communicator* group, int gathers) : group_(group), gathers_(gathers) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::unique_ptr<engine::PendingCollective> StartAllReduce(torch::Tensor tensor,
                                                            engine::Reduction reduction) override {
    return group_->StartAllReduce(std::move(tensor), reduction);
  }
  void AllGather(torch::Tensor mine, torch::Tensor all) override {
    if (gathers_-- == 0) throw engine::CollectiveError(absl::UnavailableError("rank 1 is gone"));
    group_->AllGather(std::move(mine), std::move(all));
  }
  void Broadcast(torch::Tensor tensor, int root) override {
    group_->Broadcast(std::move(tensor), root);
  }
  engine::CollectiveBytes bytes() const override { return {}; }

 private:
  Communicator* const group_;
  int gathers_;
};

TEST_F(WeightsPublisherTest, ARankThatDiesWhileItWritesLeavesNoVersion) {
  absl::Status answer;
  engine::testing::RunRanks(2, [&](Communicator& group) {
    if (group.rank() == 0) {
      LosingCommunicator losing(&group, /*gathers=*/1);
      const auto model = Model(&losing);
      WeightsPublisher publisher(relay_.get(), model.get(), torch::kBFloat16);
      answer = publisher.Publish({kTrainedJob, 1, false, ""}, Never());
      return;
    }
    // Opens the version, writes some bytes, and is heard of no more.
    const std::atomic<bool> stays{false};
    const auto words = engine::ReceiveFromLeader(group, stays).value().value();
    ASSERT_FALSE(engine::ReceiveFromLeader(group, stays).value().has_value());
    const auto layout = engine::ModelLayout(*Model(nullptr), torch::kBFloat16).value();
    const auto space = std::find(words.begin() + 1, words.end(), ' ');
    const auto writer = relay_->Join(
        {kTrainedJob, 1, false, ""},
        {std::string(words.begin() + 1, space), std::string(space + 1, words.end())}, layout);
    ASSERT_TRUE(writer.ok()) << writer.status();
    group.AllGather(torch::zeros({1}, torch::kInt64), torch::zeros({2}, torch::kInt64));
    (*writer)->bytes().back() = 1;
  });
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
  EXPECT_TRUE(absl::IsNotFound(Load(*relay_, 1).status()));
  EXPECT_TRUE(Publish({relay_.get(), relay_.get()})[0].ok()) << "the next epoch's ranks";
  EXPECT_EQ(Load(*relay_, 1).value(), Want());
}

}  // namespace
}  // namespace baton::policy
