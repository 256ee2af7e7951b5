// baton.db is lost while jobs run. Every job comes back from its folder, as
// docs/formats/checkpoint.md says ("When the store is lost"), and ends with the weights of a job
// that nothing disturbed.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end/programs/process_cluster_testing.h"

namespace baton::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using v1::Job;

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class LostStoreTest : public ProcessTest {
 protected:
  absl::Status Create(const std::string& project, const std::string& id) {
    v1::CreateJobRequest request;
    request.set_project(project);
    request.set_job_id(id);
    *request.mutable_spec() = client_.RlSpec(kSteps);
    grpc::ClientContext context;
    Job job;
    return FromGrpc(client_.stub().CreateJob(&context, request, &job));
  }
  /// The controller is killed and its store deleted; the next one knows no job.
  void LoseStore() {
    controller_->Signal(SIGKILL);
    controller_->Wait();
    ASSERT_TRUE(fs::remove(data_root_ + "/baton.db"));
    fs::remove(data_root_ + "/baton.db-wal");
    fs::remove(data_root_ + "/baton.db-shm");
    StartController();
  }
  /// The loop of the documentation, for a project.
  std::string ResumeAll(const std::string& project) {
    const std::string loop =
        R"(for job in DATA_ROOT/jobs/PROJECT/*; do baton --project PROJECT resume --from "$job"; done)";
    const char* source = std::getenv("BATON_SOURCE_DIR");
    EXPECT_THAT(
        ReadText(absl::StrCat(source == nullptr ? "." : source, "/docs/formats/checkpoint.md")),
        HasSubstr("\n    " + loop + "\n"));
    const char* build = std::getenv("BATON_BUILD_DIR");
    const std::string log = Folder(absl::StrCat("loop-", ++calls_, ".log"));
    const std::string command =
        absl::StrCat("PATH=", build == nullptr ? "build" : build,
                     "/bin:$PATH BATON_CONTROLLER=", listen_, "; export PATH BATON_CONTROLLER; { ",
                     absl::StrReplaceAll(loop, {{"DATA_ROOT", data_root_}, {"PROJECT", project}}),
                     "; } > ", log, " 2>&1");
    EXPECT_EQ(std::system(command.c_str()), 0) << ReadText(log);
    return ReadText(log);
  }
};

TEST_F(LostStoreTest, EveryJobGoesOnFromItsFolder) {
  StartCluster(/*token_ms=*/"2");
  ASSERT_TRUE(Create("default", "ended").ok());
  ExpectTheSameEnd("ended");
  ASSERT_TRUE(Create("default", "paused").ok());
  ASSERT_TRUE(client_.WaitForStep("paused", 1)) << client_.Why("paused");
  ASSERT_TRUE(client_.Call("paused", &v1::JobService::Stub::PauseJob).ok());
  ASSERT_TRUE(client_.WaitForState("paused", Job::STATE_PAUSED)) << client_.Why("paused");
  const std::string running = "projects/team/jobs/running";
  ASSERT_TRUE(Create("team", "running").ok());
  ASSERT_TRUE(Create("team", "waiting").ok());
  ASSERT_TRUE(client_.WaitForStep(running, 3)) << client_.Why(running);
  const std::string uid = client_.Get(running).uid();

  LoseStore();  // the workers live on
  EXPECT_FALSE(fs::exists(data_root_ + "/jobs/team/running/checkpoints/step-6"));
  EXPECT_EQ(nlohmann::json::parse(Cli({"jobs", "-o", "json"}).text)["jobs"].size(), 0u);
  const absl::Status taken = Create("team", "running");
  EXPECT_EQ(ErrorReason(taken), "JOB_FOLDER") << taken;
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr("`baton resume --from " + data_root_ + "/jobs/team/running`"));
  const std::string resumed = ResumeAll("default");
  EXPECT_THAT(resumed, HasSubstr("ended is submitted"));
  EXPECT_THAT(resumed, HasSubstr("paused is submitted"));
  EXPECT_THAT(ResumeAll("team"), HasSubstr(running + " is submitted"));
  for (const std::string& job : {std::string("ended"), std::string("paused"), running}) {
    ExpectTheSameEnd(job);
  }
  EXPECT_NE(client_.Get(running).uid(), uid);
  // Job `waiting` had no checkpoint, and has no folder that is in the way.
  ASSERT_TRUE(Create("team", "waiting").ok());
  ExpectTheSameEnd("projects/team/jobs/waiting");
}

}  // namespace
}  // namespace baton::testing
