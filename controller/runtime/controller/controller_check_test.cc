// The checking program: submit reports what it finds, and the job reads the data that it filtered.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/runtime/submit/contents_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/checker.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ControllerCheckTest : public WholeControllerTest {
 protected:
  // From here on the program answers `answer`, or runs `script`
  // (tests/support/controller/checker.h).
  void CheckerSays(const v1::ValidateJobResponse& answer, const std::string& script = "") {
    checker_ = WriteChecker(folder_.path(), script, answer);
    Start();
  }
  v1::JobSpec Asked() const {
    v1::JobSpec spec;
    std::ifstream in(folder_.path("asked"), std::ios::binary);
    EXPECT_TRUE(spec.ParseFromIstream(&in));
    return spec;
  }
  v1::ValidateJobResponse Validate(const v1::JobSpec& spec) {
    v1::ValidateJobRequest request;
    *request.mutable_spec() = spec;
    return Wait<v1::ValidateJobResponse>(
               [&](auto done) { controller_->ValidateJob(request, done); })
        .value();
  }
  static v1::ValidateJobResponse Violating() {
    v1::ValidateJobResponse answer;
    v1::FieldViolation* violation = answer.add_violations();
    violation->set_field("spec.data.train_files");
    violation->set_description("train.jsonl:2: the prompt has 9 tokens, more than 4");
    return answer;
  }
};

// A rule without an answer to compare with accepts an empty response, and the model would learn to
// say nothing.
TEST_F(ControllerCheckTest, ARuleThatReadsAnswersNeedsOneInALineAtLeast) {
  checker_ = "";
  Start();
  const std::string answered = "{\"prompt\": \"1+1=\", \"answer\": \"\"}\n";
  const std::string solved = "{\"prompt\": \"1+2=\", \"solution\": \"3\"}\n";
  folder_.Write("solved.jsonl", solved + solved);
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, folder_.path("solved.jsonl"));
  spec.mutable_data()->add_val_files(folder_.path("solved.jsonl"));
  const v1::ValidateJobResponse checked = Validate(spec);
  ASSERT_THAT(checked.violations(), SizeIs(2)) << "one list of training, one of evaluation";
  for (const v1::FieldViolation& violation : checked.violations()) {
    EXPECT_THAT(
        violation.description(),
        AllOf(HasSubstr("none of 2 lines has `answer`, and spec.reward.rules[0] "
                        "(exact_match) compares responses with it"),
              HasSubstr("`prompt`, `solution`"), HasSubstr("set spec.data.answer_key: solution")));
  }
  EXPECT_EQ(checked.violations(0).field(), "spec.data.train_files");
  EXPECT_EQ(checked.violations(1).field(), "spec.data.val_files");
  EXPECT_FALSE(Create(spec, "job").ok());
  spec.mutable_data()->set_answer_key("solution");
  EXPECT_THAT(Validate(spec).violations(), IsEmpty());
  // Some lines have one: the others are counted, and have no reward by the rule.
  spec.mutable_data()->clear_answer_key();
  folder_.Write("solved.jsonl", answered + solved);
  EXPECT_EQ(Validate(spec).data_files(0).unanswered(), 1u);
  // It is not known what a command reads, so lines without an answer are only counted.
  spec.mutable_reward()->clear_rules();
  spec.mutable_reward()->set_command("python3 reward.py");
  const v1::ValidateJobResponse taken = Validate(spec);
  ASSERT_THAT(taken.violations(), IsEmpty());
  ASSERT_THAT(taken.data_files(), SizeIs(2));
  EXPECT_EQ(taken.data_files(0).unanswered(), 1u);
  EXPECT_EQ(taken.data_files(0).unanswered_keys(), "`prompt`, `solution`");
  EXPECT_THAT(taken.data_files(0).unanswered_place(), HasSubstr("solved.jsonl:2"));
  EXPECT_EQ(taken.data_files(0).answer_reader(), "spec.reward.command");
  EXPECT_THAT(taken.data_files(0).unused_keys(), ElementsAre("solution"));
}

TEST_F(ControllerCheckTest, RulesAreLimitedToSourcesThatLinesHave) {
  checker_ = "";
  Start();
  folder_.Write("mixed.jsonl",
                "{\"prompt\": \"1+1=\", \"answer\": 2, \"from\": \"math\"}\n"
                "{\"prompt\": \"1=\", \"from\": \"text\"}\n");
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, folder_.path("mixed.jsonl"));
  spec.mutable_data()->set_source_key("from");
  v1::RewardRule* rule = spec.mutable_reward()->mutable_rules(0);
  rule->mutable_when()->add_source("maths");
  const v1::ValidateJobResponse unknown = Validate(spec);
  ASSERT_THAT(unknown.violations(), SizeIs(2));
  EXPECT_EQ(unknown.violations(0).field(), "spec.reward.rules[0].when.source");
  EXPECT_EQ(unknown.violations(1).field(), "spec.reward.rules");
  rule->mutable_when()->set_source(0, "math");
  v1::RewardRule* other = spec.mutable_reward()->add_rules();
  other->set_type("regex");
  other->set_pattern("^1$");
  other->mutable_when()->add_source("text");
  const v1::ValidateJobResponse good = Validate(spec);
  EXPECT_THAT(good.violations(), IsEmpty());
  EXPECT_EQ(good.data_files(0).unanswered(), 0u) << "text needs no answer";
}

// What the checking program leaves out is not counted.
TEST_F(ControllerCheckTest, EpochsBecomeStepsOfTheLinesThatAreUsed) {
  std::string lines;
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&lines, "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  }
  folder_.Write("nine.jsonl", lines);
  checker_ = "";
  Start();
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, folder_.path("nine.jsonl"));
  spec.mutable_data()->set_train_batch_size(4);
  spec.mutable_trainer()->clear_total_training_steps();
  spec.mutable_trainer()->set_total_epochs(2);
  const v1::ValidateJobResponse checked = Validate(spec);
  ASSERT_THAT(checked.violations(), IsEmpty());
  EXPECT_EQ(checked.effective_spec().trainer().total_training_steps(), 5) << "18 of 4 a step";
  EXPECT_FALSE(checked.effective_spec().trainer().has_total_epochs());
  const auto job = Create(spec, "job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->total_steps(), 5);
  EXPECT_EQ(job->spec().trainer().total_epochs(), 2) << "as it was given";
}

TEST_F(ControllerCheckTest, AnEvaluationAloneNeedsNoTrainingData) {
  checker_ = "";
  Start();
  v1::JobSpec spec = Spec();
  *spec.mutable_data()->mutable_val_files() = spec.data().train_files();
  spec.mutable_data()->clear_train_files();
  spec.mutable_trainer()->set_val_only(true);
  EXPECT_THAT(Validate(spec).violations(), IsEmpty());
  const auto job = Create(spec, "job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->total_steps(), 0);
}

// Each would fail once it runs, or teach nothing.
TEST_F(ControllerCheckTest, RefusesWhatAJobWouldFindOutLate) {
  checker_ = "";
  Start();
  v1::JobSpec spec = Spec();
  spec.mutable_rollout()->add_stop("");
  spec.mutable_reward()->mutable_rules(0)->set_extract("$x");
  const v1::ValidateJobResponse checked = Validate(spec);
  ASSERT_THAT(checked.violations(), SizeIs(2));
  EXPECT_EQ(checked.violations(0).field(), "spec.rollout.stop[0]");
  EXPECT_EQ(checked.violations(1).field(), "spec.reward.rules[0].extract");
  EXPECT_FALSE(Create(spec, "job").ok());
}

TEST_F(ControllerCheckTest, RefusesAJobWithTheCheckersViolations) {
  CheckerSays(Violating());
  const auto refused = Create(Spec(), "job");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("train.jsonl:2: the prompt has 9"));
  EXPECT_FALSE(Get("job").ok());
  const v1::ValidateJobResponse checked = Validate(Spec());
  ASSERT_THAT(checked.violations(), SizeIs(1));
  EXPECT_EQ(checked.violations(0).field(), "spec.data.train_files");
}

TEST_F(ControllerCheckTest, TheProgramIsAskedWithTheEffectiveSpecAndWholePaths) {
  CheckerSays({});
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, "train.jsonl");
  EXPECT_THAT(Validate(spec).violations(), IsEmpty());
  EXPECT_THAT(Asked().data().train_files(), ElementsAre(folder_.path("train.jsonl")));
  EXPECT_EQ(Asked().data().max_prompt_length(), 1024);
}

// So that a replay, and a job that goes on, renders the same prompts on another day.
TEST_F(ControllerCheckTest, TheDayThatTheProgramWritesDownIsTheJobs) {
  v1::ValidateJobResponse answer;
  answer.mutable_effective_spec()->mutable_model()->set_chat_template_date("2026-02-03");
  CheckerSays(answer);
  const v1::JobSpec checked = Validate(Spec()).effective_spec();
  EXPECT_EQ(checked.model().chat_template_date(), "2026-02-03");
  const auto job = Create(Spec(), "job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->effective_spec().model().chat_template_date(), "2026-02-03");
  EXPECT_FALSE(job->spec().model().has_chat_template_date()) << "as it was given";
}

TEST_F(ControllerCheckTest, ReportsOtherMistakesBesideTheCheckers) {
  CheckerSays(Violating());
  v1::JobSpec spec = Spec();
  spec.mutable_rollout()->set_n(0);
  EXPECT_THAT(Validate(spec).violations(), SizeIs(2));
  // Data that cannot be read are not sent to the program.
  fs::remove(folder_.path("asked"));
  spec.mutable_data()->add_train_files("nowhere.jsonl");
  EXPECT_THAT(Validate(spec).violations(), SizeIs(2));
  EXPECT_FALSE(fs::exists(folder_.path("asked")));
}

TEST_F(ControllerCheckTest, AProgramThatBreaksRefusesTheJobAndSaysHow) {
  CheckerSays({}, "echo libtorch is ill >&2; exit 9");
  const v1::ValidateJobResponse checked = Validate(Spec());
  ASSERT_THAT(checked.violations(), SizeIs(1));
  EXPECT_THAT(checked.violations(0).description(),
              AllOf(HasSubstr("exit code 9"), HasSubstr("libtorch is ill")));
}

TEST_F(ControllerCheckTest, WithoutTheProgramJobsAreTaken) {
  checker_ = folder_.path("no-such-program");
  Start();
  EXPECT_THAT(Validate(Spec()).violations(), IsEmpty());
  EXPECT_TRUE(Create(Spec(), "job").ok());
}

TEST_F(ControllerCheckTest, WithoutTheProgramNothingCanBeLeftOut) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_filter_overlong_prompts(true);
  for (const std::string& checker : {std::string(), folder_.path("no-such-program")}) {
    checker_ = checker;
    Start();
    const v1::ValidateJobResponse checked = Validate(spec);
    ASSERT_THAT(checked.violations(), SizeIs(1));
    EXPECT_EQ(checked.violations(0).field(), "spec.data.filter_overlong_prompts");
  }
}

TEST_F(ControllerCheckTest, ACheckThatIsNotDoneInTimeRefusesTheJob) {
  check_limit_ = absl::Milliseconds(50);
  CheckerSays({}, "exec sleep 60");
  v1::JobSpec spec = Spec();
  EXPECT_THAT(std::string(Create(spec, "job").status().message()),
              AllOf(HasSubstr("spec.model"), HasSubstr("was not done within 50ms")));
  EXPECT_FALSE(Get("job").ok());
  for (const bool filters : {false, true}) {
    spec.mutable_data()->set_filter_overlong_prompts(filters);
    const v1::ValidateJobResponse checked = Validate(spec);
    ASSERT_THAT(checked.violations(), SizeIs(1));
    EXPECT_EQ(checked.violations(0).field(), "spec.model");
    EXPECT_THAT(checked.violations(0).description(), HasSubstr("was not done within 50ms"));
    EXPECT_EQ(
        checked.violations(0).description().find("filter_overlong_prompts") != std::string::npos,
        filters);
  }
}

TEST_F(ControllerCheckTest, ReportsHowManyLinesTheCheckHadNoTimeFor) {
  v1::ValidateJobResponse answer;
  answer.add_data_files()->set_list("train_files");
  answer.mutable_data_files(0)->set_unchecked_lines(3);
  CheckerSays(answer);
  const auto job = Create(Spec(), "job");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_THAT(job->data_files(), SizeIs(1));
  EXPECT_EQ(job->data_files(0).unchecked_lines(), 3u);
  EXPECT_GT(job->data_files(0).examples(), 0u);
  EXPECT_EQ(job->effective_spec().data().train_files(0), Spec().data().train_files(0));
}

TEST_F(ControllerCheckTest, ACallerThatLeftGetsItsJobByItsRequestIdAlone) {
  for (const std::string& checker : {std::string(), WriteChecker(folder_.path(), "")}) {
    checker_ = checker;
    Start();
    const auto leave = [&](const std::string& id, const std::string& request_id) {
      v1::CreateJobRequest request;
      *request.mutable_spec() = Spec();
      request.set_job_id(id);
      request.set_request_id(request_id);
      return Wait<v1::Job>(
          [&](auto done) { controller_->CreateJob(request, done, [] { return true; }); });
    };
    const std::string suffix = checker.empty() ? "without" : "with";
    EXPECT_TRUE(absl::IsCancelled(leave("a-" + suffix, "").status())) << suffix;
    EXPECT_FALSE(Get("a-" + suffix).ok());
    const auto job = leave("b-" + suffix, "r-" + suffix);
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(Create(Spec(), "b-" + suffix, "r-" + suffix).ok());
  }
}

TEST_F(ControllerCheckTest, RemovesCheckFoldersOfAKilledController) {
  fs::create_directories(folder_.path(".checking-Ab12/train_files-0"));
  Start();
  EXPECT_FALSE(fs::exists(folder_.path(".checking-Ab12")));
}

TEST_F(ControllerCheckTest, NamesThatAreTooLongAreRefusedAtOnce) {
  const auto named = Create(Spec(), std::string(64, 'a'));
  EXPECT_EQ(ErrorReason(named.status()), "NAME_INVALID");
  v1::CreateJobRequest request;
  request.set_checkpoint(std::string(4097, 'a'));
  const auto resumed = Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  EXPECT_EQ(ErrorReason(resumed.status()), "CHECKPOINT_NAME");
}

// The program may write as many bytes as the files have, or as many as the project may still
// upload. While a check may write them, no other check of the project may.
TEST_F(ControllerCheckTest, RoomForWhatIsFilteredIsHeldUntilTheCheckEnds) {
  CheckerSays({},
              "echo \"$room\" >> rooms; while [ -e hold ]; do sleep 0.01; done\n"
              "if [ -e die ]; then kill -9 $$; fi");
  constexpr uint64_t kFileBytes = 68, kAsked = kFileBytes + 1;  // a line's end may be missing
  ASSERT_EQ(fs::file_size(folder_.path("train.jsonl")), kFileBytes);
  v1::JobSpec spec = Spec();
  const auto rooms = [this] {
    std::ifstream in(folder_.path("rooms"));
    return std::vector<uint64_t>(std::istream_iterator<uint64_t>(in), {});
  };
  const auto limit = [this](int64_t bytes) {
    v1::Project project;
    project.set_project("default");
    project.set_max_upload_bytes(bytes);
    ASSERT_TRUE(Wait<v1::Project>([&](auto done) { controller_->SetProject(project, done); }).ok());
  };
  limit(100);
  Validate(spec);
  EXPECT_THAT(rooms(), ElementsAre(0));  // it filters nothing
  spec.mutable_data()->set_filter_overlong_prompts(true);
  folder_.Write("hold", "");
  std::vector<std::thread> calls;
  for (size_t i = 1; i <= 2; ++i) {
    calls.emplace_back([&] { Validate(spec); });
    for (const absl::Time end = absl::Now() + absl::Seconds(60);
         rooms().size() <= i && absl::Now() < end;) {
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  EXPECT_THAT(rooms(), ElementsAre(0, kAsked, 100 - kAsked));
  EXPECT_EQ(ErrorReason(controller_->uploads()->Receive("default", "a")->Append("x")),
            "QUOTA_UPLOADS");
  folder_.Write("die", "");  // both do
  fs::remove(folder_.path("hold"));
  for (std::thread& call : calls) call.join();
  fs::remove(folder_.path("die"));
  Validate(spec);
  EXPECT_EQ(rooms().back(), kAsked);
  EXPECT_TRUE(controller_->uploads()->Receive("default", "a")->Append(std::string(100, 'x')).ok());
}

// As on a disk without room for a folder, which is no mistake of the spec.
TEST_F(ControllerCheckTest, ACheckThatGetsNoFolderSaysSo) {
  CheckerSays({});
  const std::string away = folder_.path() + "-away";
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train_files(0, away + "/train.jsonl");
  v1::ValidateJobRequest request;
  *request.mutable_spec() = spec;
  const auto validate = [&] {
    return Wait<v1::ValidateJobResponse>(
               [&](auto done) { controller_->ValidateJob(request, done); })
        .status();
  };
  fs::rename(folder_.path(), away);
  const absl::Status refused = validate();
  fs::rename(away, folder_.path());
  fs::create_directory_symlink(folder_.path(), away);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("cannot make a folder in " + folder_.path()), HasSubstr("disk full")));
  EXPECT_TRUE(validate().ok()) << validate();
  fs::remove(away);
}

// Filtered files are copied, and only the lists that changed are read again.
TEST(ContentsCheckTest, BytesToTakeOverAreThoseOfFilteredLists) {
  const std::string folder = ::testing::TempDir() + "filtered_bytes";
  fs::remove_all(folder);
  fs::create_directories(folder + "/check/train_files-0");
  const auto write = [&](const std::string& path, size_t bytes) {
    std::ofstream(folder + path) << std::string(bytes, 'x');
    return folder + path;
  };
  v1::ValidateJobResponse answer;
  v1::DataSpec* data = answer.mutable_effective_spec()->mutable_data();
  data->add_train_files(write("/check/train_files-0/a", 1000));
  data->add_train_files(write("/whole", 200));
  data->add_val_files(write("/val", 50));
  EXPECT_EQ(BytesToTakeOver(answer, folder + "/check"), 1000u);  // no list is said to have changed
  answer.add_data_files()->set_list("train_files");
  EXPECT_EQ(BytesToTakeOver(answer, folder + "/check"), 1000u);  // nothing of it is left out
  answer.mutable_data_files(0)->set_overlong_prompts(1);
  EXPECT_EQ(BytesToTakeOver(answer, folder + "/check"), 2200u);
  EXPECT_EQ(BytesToTakeOver({}, ""), 0u);
  fs::remove_all(folder);
}

TEST_F(ControllerCheckTest, GivesTheJobTheDataThatTheCheckerFiltered) {
  v1::ValidateJobResponse answer;
  answer.add_data_files()->set_list("train_files");
  answer.mutable_data_files(0)->set_overlong_prompts(1);
  // The folder is known to the program alone, so its script puts the path in.
  const std::string script =
      "[ -e base ] || mv answer base\n"
      "head -n 1 train.jsonl > \"$filtered/train.jsonl\"\n"
      "{ cat base\n"
      // field 1 (effective_spec), in it field 3 (data), in it field 1 (train_files): the path
      "n=$((${#filtered} + 12)); printf \"\\\\012\\\\$(printf %03o $((n + 4)))\"\n"
      "printf \"\\\\032\\\\$(printf %03o $((n + 2)))\"; printf \"\\\\012\\\\$(printf %03o $n)\"\n"
      "printf %s \"$filtered/train.jsonl\"; } > answer";
  CheckerSays(answer, script);
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_filter_overlong_prompts(true);

  const v1::ValidateJobResponse checked = Validate(spec);
  ASSERT_THAT(checked.violations(), IsEmpty());
  ASSERT_THAT(checked.data_files(), SizeIs(1));
  EXPECT_EQ(checked.data_files(0).overlong_prompts(), 1u);
  EXPECT_EQ(checked.data_files(0).examples(), 1u);
  EXPECT_EQ(checked.effective_spec().data().train_files(0), folder_.path("train.jsonl"));

  const auto job = Create(spec, "job");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_THAT(job->data_files(), SizeIs(1));
  EXPECT_EQ(job->data_files(0).overlong_prompts(), 1u);
  EXPECT_EQ(job->spec().data().train_files(0), folder_.path("train.jsonl"));
  const std::string kept = job->effective_spec().data().train_files(0);
  EXPECT_THAT(kept, StartsWith("files/default/"));
  std::ifstream in(folder_.path(kept));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(StartsWith(".checking")));
  }
}

}  // namespace
}  // namespace baton::controller
