// Earlier responses of a job and of its seed: the answers, and who may get them. On one thread,
// with logs and a store in memory.
#include "controller/runtime/job/job_history.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/ports/single_thread.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

using Part = std::shared_ptr<HistoryPart>;

constexpr char kJob[] = "projects/p/jobs/new", kSeed[] = "projects/p/jobs/old";

std::shared_ptr<const v1::Job> SubmittedOver(const std::string& file,
                                             const std::string& seed_from = "") {
  auto job = std::make_shared<v1::Job>();
  v1::JobSpec& spec = *job->mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->add_train_files(file);
  if (!seed_from.empty()) {
    spec.mutable_rollout()->mutable_speculation()->set_seed_from(seed_from);
  }
  return job;
}

// The experience log of one job: payload k has the tokens k, 1, 1, ….
class FakeLog {
 public:
  explicit FakeLog(SingleThread* thread) : thread_(thread) {}

  TrajectoryInfo Say(uint64_t serial, uint64_t prompt, uint32_t tokens = 4) {
    TrajectoryInfo info;
    info.id = TrajectoryId(v1::PURPOSE_TRAIN, serial, 0, 1);
    info.purpose = v1::PURPOSE_TRAIN;
    info.serial = serial;
    info.prompt_id = prompt;
    info.policy_version = 100 + serial;
    info.tokens = tokens;
    info.location = {1, serial, 10};
    payloads_[serial] = tokens;
    return info;
  }
  void Damage(uint64_t serial) { payloads_.erase(serial); }
  void Spoil(uint64_t serial) { spoiled_.insert(serial); }
  size_t reads() const { return reads_; }
  size_t pieces() const { return pieces_; }

  BatchSource Source() {
    BatchSource source;
    source.read = [this](const LoggedPayload& logged) -> absl::StatusOr<v1::Trajectory> {
      ++reads_;
      const uint64_t serial = logged.records.at(0).offset;
      const auto found = payloads_.find(serial);
      if (found == payloads_.end()) return absl::DataLossError("it is damaged");
      v1::Trajectory payload;
      std::vector<int32_t> tokens(found->second, 1);
      tokens[0] = static_cast<int32_t>(serial);
      AddTokens(payload, "prompt_tokens", {7, 8});
      AddTokens(payload, "tokens", tokens);
      if (spoiled_.count(serial) > 0) payload.mutable_columns(1)->mutable_data()->push_back('x');
      return payload;
    };
    source.post = [this](std::function<void()> work) {
      ++pieces_;
      posted_ = std::move(work);
      thread_->PostRead([this] { std::exchange(posted_, nullptr)(); });
    };
    return source;
  }

 private:
  static void AddTokens(v1::Trajectory& payload, const std::string& name,
                        const std::vector<int32_t>& tokens) {
    v1::Column& column = *payload.add_columns();
    column.set_name(name);
    column.set_dtype(v1::DATA_TYPE_INT32);
    column.set_data(tokens.data(), tokens.size() * sizeof(int32_t));
  }

  SingleThread* const thread_;
  std::map<uint64_t, uint32_t> payloads_;  // tokens, by serial
  std::set<uint64_t> spoiled_;
  std::function<void()> posted_;
  size_t reads_ = 0, pieces_ = 0;
};

class JobHistoryTest : public ::testing::Test {
 protected:
  JobHistoryTest() {
    context_.executors = &thread_;
    context_.clock = &thread_;
    context_.store = &store_;
    context_.secret = "secret";
  }
  ~JobHistoryTest() override { thread_.Drop(); }

  std::unique_ptr<JobHistory> Make(const std::string& seed_from = "") {
    return std::make_unique<JobHistory>(&context_, kJob, "1", SubmittedOver("data", seed_from));
  }
  void PutRow(const std::string& job, const TrajectoryInfo& info) {
    store_.Commit(
        {{kTrajectoryTable, NumberKey(job, info.serial), ToRow(info, 1, 1).SerializeAsString()}},
        [](const absl::Status&) {});
  }
  static v1::FetchHistoryRequest Request(const JobHistory& history,
                                         const std::vector<uint64_t>& prompts) {
    v1::FetchHistoryRequest request;
    request.set_capability(history.Capability());
    for (const uint64_t prompt : prompts) request.add_prompts()->set_prompt_id(prompt);
    return request;
  }
  absl::StatusOr<Part> Ask(JobHistory& history, const v1::FetchHistoryRequest& request,
                           bool ended = false) {
    absl::StatusOr<Part> answer = absl::UnknownError("no answer");
    JobHistory::Job job;
    job.on_strand = [this](std::function<void()> work) { thread_.PostRead(std::move(work)); };
    job.log = log_.Source();
    history.Fetch(request, ended, known_, job, [&](absl::StatusOr<Part> part) { answer = part; });
    thread_.Settle();
    return answer;
  }
  // Reads the whole part, as the service does.
  std::vector<v1::EarlierResponse> Read(const Part& part) {
    std::vector<v1::EarlierResponse> all;
    std::function<void()> next = [&] {
      v1::FetchHistoryResponse piece;
      part->Next(&piece);
      all.insert(all.end(), piece.responses().begin(), piece.responses().end());
      if (!part->done()) part->Post(next);
    };
    if (!part->done()) part->Post(next);
    thread_.Settle();
    return all;
  }
  std::vector<v1::EarlierResponse> Fetch(JobHistory& history,
                                         const v1::FetchHistoryRequest& request) {
    const auto part = Ask(history, request);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? Read(*part) : std::vector<v1::EarlierResponse>();
  }
  // First token (the serial) and version of each.
  static std::vector<std::pair<int32_t, uint64_t>> Told(
      const std::vector<v1::EarlierResponse>& all) {
    std::vector<std::pair<int32_t, uint64_t>> out;
    for (const v1::EarlierResponse& one : all) {
      EXPECT_THAT(one.prompt_tokens(), ElementsAre(7, 8));
      out.emplace_back(one.tokens(0), one.policy_version());
    }
    return out;
  }
  void HaveSeed(const std::string& data = "data", const std::string& uid = "old") {
    context_.find_job = [this, data, uid](const std::string& name, RuntimeContext::FoundIt found) {
      asked_jobs_.push_back(name);
      if (name != kSeed) return found(std::nullopt);
      found(FoundJob{uid, SubmittedOver(data), seed_log_.Source()});
    };
  }

  SingleThread thread_;
  store::MemoryStore store_;
  RuntimeContext context_;
  FakeLog log_{&thread_}, seed_log_{&thread_};
  PromptHistory known_;
  std::vector<std::string> asked_jobs_;
};

TEST_F(JobHistoryTest, PromptsComeInTheOrderAskedForAndTheNewestResponseFirst) {
  for (uint64_t serial = 1; serial <= 6; ++serial) known_.Note(log_.Say(serial, serial % 3));
  const auto history = Make();
  EXPECT_THAT(Told(Fetch(*history, Request(*history, {2, 9, 0, 2}))),
              ElementsAre(Pair(5, 105), Pair(2, 102), Pair(6, 106), Pair(3, 103)));
}

TEST_F(JobHistoryTest, TheCapabilityIsOfOneJob) {
  known_.Note(log_.Say(1, 0));
  const auto history = Make();
  const JobHistory another(&context_, kJob, "2", SubmittedOver("data"));
  const JobHistory foreign(&context_, "projects/q/jobs/new", "1", SubmittedOver("data"));
  for (const std::string& wrong :
       {std::string(), std::string("x"), another.Capability(), foreign.Capability()}) {
    v1::FetchHistoryRequest request = Request(*history, {0});
    request.set_capability(wrong);
    const absl::Status refused = Ask(*history, request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(ErrorReason(refused), "CAPABILITY");
  }
  const absl::Status ended = Ask(*history, Request(*history, {0}), /*ended=*/true).status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(ended), "JOB_ENDED");
  EXPECT_EQ(log_.reads(), 0u);
}

TEST_F(JobHistoryTest, BoundsThePromptsOfARequest) {
  const auto history = Make();
  EXPECT_EQ(ErrorReason(Ask(*history, Request(*history, {})).status()), "HISTORY_PROMPTS");
  EXPECT_TRUE(Ask(*history, Request(*history, std::vector<uint64_t>(256))).ok());
  EXPECT_EQ(ErrorReason(Ask(*history, Request(*history, std::vector<uint64_t>(257))).status()),
            "HISTORY_PROMPTS");
}

TEST_F(JobHistoryTest, BoundsConcurrentCalls) {
  known_.Note(log_.Say(1, 0));
  const auto history = Make();
  std::vector<Part> served;
  for (int i = 0; i < JobHistory::kMostCalls; ++i) {
    const auto part = Ask(*history, Request(*history, {0}));
    ASSERT_TRUE(part.ok()) << part.status();
    served.push_back(*part);
  }
  const absl::Status busy = Ask(*history, Request(*history, {0})).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(busy), "HISTORY_BUSY");
  served.pop_back();
  EXPECT_THAT(Fetch(*history, Request(*history, {0})), SizeIs(1));
}

// 600 responses of 4,000 tokens to each of three prompts: 64 of each are considered. The answer has
// about as many bytes as were asked for, equally many for each prompt.
TEST_F(JobHistoryTest, AnAnswerHasAboutAsManyBytesAsWereAskedFor) {
  for (uint64_t serial = 1; serial <= 1800; ++serial) {
    known_.Note(log_.Say(serial, serial % 3, 4000));
  }
  const auto history = Make();
  v1::FetchHistoryRequest request = Request(*history, {0, 1, 2});
  for (const int64_t most : {int64_t{1}, int64_t{100'000}, int64_t{400'000}}) {
    request.set_max_bytes(most);
    int64_t bytes = 0;
    std::map<int32_t, int64_t> of_prompt;
    for (const v1::EarlierResponse& one : Fetch(*history, request)) {
      const auto size = static_cast<int64_t>(one.ByteSizeLong());
      bytes += size;
      of_prompt[one.tokens(0) % 3] += size;
    }
    EXPECT_GE(bytes, most);
    EXPECT_LT(bytes, most + 5000) << "one response too many at most";
    if (most == 1) continue;
    EXPECT_THAT(of_prompt, SizeIs(3));
    for (const auto& [prompt, size] : of_prompt) EXPECT_NEAR(size, most / 3, 5000) << prompt;
  }
  request.set_max_bytes(int64_t{1} << 40);
  const size_t reads = log_.reads();
  EXPECT_THAT(Fetch(*history, request), SizeIs(3 * 64));
  EXPECT_EQ(log_.reads() - reads, 3u * 64);
  EXPECT_GT(log_.pieces(), 3u) << "the log is free in between";
}

TEST_F(JobHistoryTest, SkipsResponsesThatTheLogCannotRead) {
  for (uint64_t serial = 1; serial <= 100; ++serial) known_.Note(log_.Say(serial, serial % 2));
  for (uint64_t serial = 1; serial <= 100; ++serial) {
    if (serial % 2 == 1 || serial > 60) log_.Damage(serial);
  }
  log_.Spoil(60);  // no whole number of tokens
  const auto history = Make();
  const auto told = Told(Fetch(*history, Request(*history, {1, 0})));
  EXPECT_THAT(told, SizeIs(29));
  EXPECT_EQ(told[0], std::make_pair(58, uint64_t{158}));
}

// The core of a restarted controller knows only the rows of its step.
TEST_F(JobHistoryTest, ARestartedControllerFindsOlderRowsInTheStore) {
  for (uint64_t serial = 1; serial <= 2500; ++serial) {
    PutRow(kJob, log_.Say(serial, serial % 1000));
  }
  PutRow("projects/p/jobs/new-2", log_.Say(9000, 5));  // its name begins alike
  store_.Commit({{kTrajectoryTable, NumberKey(kJob, 1500), "no row"}}, [](const absl::Status&) {});
  known_.Note(log_.Say(2005, 5));  // it is in the store, too
  known_.Note(log_.Say(2501, 5));
  const auto restored = Make();
  EXPECT_THAT(Told(Fetch(*restored, Request(*restored, {5}))),
              ElementsAre(Pair(2501, 2601), Pair(2005, 2105), Pair(1005, 1105), Pair(5, 105)));
  EXPECT_THAT(Told(Fetch(*restored, Request(*restored, {500}))), ElementsAre(Pair(500, 600)));
  // The job ended, and was resumed: its core knows nothing any more.
  known_ = PromptHistory();
  restored->Forget();
  EXPECT_THAT(Told(Fetch(*restored, Request(*restored, {5}))),
              ElementsAre(Pair(2005, 2105), Pair(1005, 1105), Pair(5, 105)));
}

TEST_F(JobHistoryTest, AStoredHistoryIsOfTheNewestRows) {
  for (uint64_t serial = 1; serial <= 2500; ++serial) PutRow(kJob, log_.Say(serial, 5));
  StoredHistory rows(kJob, /*end=*/2200, /*most=*/1200);
  int pages = 1;
  while (*rows.ReadMore(store_)) ++pages;
  EXPECT_EQ(pages, 3);
  const PromptHistory history = rows.Take();
  EXPECT_EQ(history.rows(), 1200u);
  EXPECT_EQ(history.first_serial(), 1000u);
  EXPECT_EQ(history.Of(PromptKey(v1::PURPOSE_TRAIN, 5), 1).at(0).serial, 2199u);
}

TEST_F(JobHistoryTest, TheSeedsResponsesFollowWhereTheJobHasFew) {
  HaveSeed();
  for (uint64_t serial = 1; serial <= 10; ++serial) known_.Note(log_.Say(serial, 1));
  known_.Note(log_.Say(11, 2));
  for (uint64_t serial = 501; serial <= 504; ++serial) {
    PutRow(kSeed, seed_log_.Say(serial, serial % 2 + 1));
  }
  const auto history = Make("job:old");
  const auto told = Told(Fetch(*history, Request(*history, {2, 1})));
  ASSERT_THAT(told, SizeIs(13));
  EXPECT_THAT((std::vector<std::pair<int32_t, uint64_t>>(told.begin(), told.begin() + 4)),
              ElementsAre(Pair(11, 111), Pair(503, 0), Pair(501, 0), Pair(10, 110)));
  EXPECT_THAT(asked_jobs_, ElementsAre(kSeed));
  EXPECT_THAT(Told(Fetch(*Make(), Request(*history, {3}))), IsEmpty());
  EXPECT_THAT(asked_jobs_, SizeIs(1)) << "a job without a seed looks at no other job";
}

// A name always means a job of the same project, even if it names another one.
TEST_F(JobHistoryTest, NoOtherProjectsJobIsASeed) {
  HaveSeed();
  PutRow(kSeed, seed_log_.Say(1, 0));
  JobHistory foreign(&context_, "projects/q/jobs/new", "1", SubmittedOver("data", "job:old"));
  EXPECT_THAT(Fetch(foreign, Request(foreign, {0})), IsEmpty());
  EXPECT_THAT(asked_jobs_, ElementsAre("projects/q/jobs/old"));
}

TEST_F(JobHistoryTest, ASeedThatIsGoneOrHasOtherDataGivesNothing) {
  PutRow(kSeed, seed_log_.Say(1, 0));
  const auto history = Make("job:old");
  EXPECT_THAT(Fetch(*history, Request(*history, {0})), IsEmpty()) << "jobs do not see each other";
  HaveSeed("other data");
  EXPECT_THAT(Fetch(*history, Request(*history, {0})), IsEmpty());
  HaveSeed();
  EXPECT_THAT(Told(Fetch(*history, Request(*history, {0}))), ElementsAre(Pair(1, 0)));
  // A part that was found before the deletion: its log can no longer be read.
  const auto part = Ask(*history, Request(*history, {0}));
  seed_log_.Damage(1);
  EXPECT_THAT(Read(*part), IsEmpty());
  context_.find_job = [](const std::string&, const RuntimeContext::FoundIt& found) {
    found(std::nullopt);
  };
  EXPECT_THAT(Fetch(*history, Request(*history, {0})), IsEmpty());
  // Another job of the name: its rows are looked up anew.
  store_.Commit({{kTrajectoryTable, NumberKey(kSeed, 1), std::nullopt}},
                [](const absl::Status&) {});
  PutRow(kSeed, seed_log_.Say(2, 0));
  HaveSeed("data", "another");
  EXPECT_THAT(Told(Fetch(*history, Request(*history, {0}))), ElementsAre(Pair(2, 0)));
}

// The rows of the seed are read once, for all calls that wait for them.
TEST_F(JobHistoryTest, CallsThatWaitForTheStoreAreAllAnswered) {
  HaveSeed();
  for (uint64_t serial = 1; serial <= 3000; ++serial) PutRow(kSeed, seed_log_.Say(serial, serial));
  const auto history = Make("job:old");
  std::vector<Part> parts;
  JobHistory::Job job;
  job.on_strand = [this](std::function<void()> work) { thread_.PostRead(std::move(work)); };
  job.log = log_.Source();
  for (uint64_t prompt : {1, 2000, 3000}) {
    history->Fetch(Request(*history, {prompt}), false, known_, job,
                   [&](absl::StatusOr<Part> part) { parts.push_back(*part); });
  }
  EXPECT_THAT(parts, IsEmpty());
  thread_.Settle();
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_THAT(Told(Read(parts[1])), ElementsAre(Pair(2000, 0)));
  EXPECT_THAT(Told(Read(parts[2])), ElementsAre(Pair(3000, 0)));
}

}  // namespace
}  // namespace baton::controller
