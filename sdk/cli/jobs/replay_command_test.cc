// `baton replay` against a service made up for it.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/fake_job_service.h"
#include "tests/support/sdk/command_line.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReplayCommandTest : public ::testing::Test {
 protected:
  ReplayCommandTest() {
    v1::Replay& replay = service_.replay;
    replay.set_job(service_.job.name());
    replay.set_source("projects/default/jobs/add");
    replay.set_from_step(2);
    replay.set_to_step(6);
    replay.add_notes("Steps 1-2 are not replayed.");
    replay.add_expected()->set_path("actor/model.safetensors");
    v1::ComparedFile* same = replay.add_compared();
    same->set_path("actor/model.safetensors");
    same->set_size_bytes(12345);
    same->set_xxh3("00000000deadbeef");
    replay.set_verdict(v1::Replay::VERDICT_EQUAL);
    v1::JobEvent end;
    end.set_revision(1);
    end.set_type("state");
    end.set_state(v1::Job::STATE_SUCCEEDED);
    service_.watches = {{end}};
  }

  Outcome Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "replay");
    arguments.insert(arguments.end(), {"--controller", service_.address()});
    return RunBaton(arguments);
  }

  FakeJobService service_;
};

TEST_F(ReplayCommandTest, SaysWhatIsKeptThenReplaysThatAndPrintsTheVerdict) {
  const Outcome outcome = Run({"add", "--to-step", "6", "--name", "again"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("steps 3-6 of add are trained again, from its weights after "
                                     "step 2\nSteps 1-2 are not replayed.\n"));
  EXPECT_THAT(outcome.out, HasSubstr("EQUAL: all 1 files of the checkpoint of step 6"));
  EXPECT_THAT(outcome.out, HasSubstr("All 12345 bytes of both sides were read:\n  same: "
                                     "actor/model.safetensors, 12345 bytes, XXH3 "
                                     "00000000deadbeef\n"));
  ASSERT_EQ(service_.replays.size(), 2u);
  EXPECT_TRUE(service_.replays[0].validate_only());
  EXPECT_FALSE(service_.replays[0].has_from_step());
  EXPECT_FALSE(service_.replays[1].validate_only());
  EXPECT_EQ(service_.replays[1].from_step(), 2) << "what was said is what is done";
  EXPECT_EQ(service_.replays[1].to_step(), 6);
  EXPECT_EQ(service_.replays[1].job_id(), "again");
}

TEST_F(ReplayCommandTest, AnotherVerdictIsAnError) {
  service_.replay.set_verdict(v1::Replay::VERDICT_DIFFERENT);
  service_.replay.set_difference("actor/model.safetensors: other bytes");
  const Outcome outcome = Run({"--verdict", "add"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("DIFFERENT: the checkpoints of step 6 differ; the first file: "
                                     "actor/model.safetensors: other bytes"));
  EXPECT_TRUE(service_.replays.empty()) << "it makes nothing";
}

TEST_F(ReplayCommandTest, JsonIsOneDocumentAndNoCheckpointIsNoError) {
  service_.replay.set_verdict(v1::Replay::VERDICT_NOT_COMPARED);
  const Outcome outcome = Run({"add", "-o", "json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["verdict"], "VERDICT_NOT_COMPARED");
}

TEST_F(ReplayCommandTest, ACheckpointThatCannotBeComparedIsAnError) {
  service_.replay.set_verdict(v1::Replay::VERDICT_NOT_COMPARED);
  service_.replay.set_difference("its files.json names no file");
  const Outcome outcome = Run({"--verdict", "add"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("with the recorded batches; its files.json names no file"));
}

TEST_F(ReplayCommandTest, MakesNothingOnADryRunAndDoesNotWaitWhenToldSo) {
  Outcome outcome = Run({"add", "--dry-run"});
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(service_.replays.size(), 1u);
  EXPECT_TRUE(service_.replays[0].validate_only());
  outcome = Run({"add", "--no-wait"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("`baton replay --verdict add` waits for its verdict"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("EQUAL")));
  outcome = Run({"none"});
  EXPECT_EQ(outcome.code, 3);
  outcome = Run({"add", "--verdict", "--from-step", "1"});
  EXPECT_EQ(outcome.code, 2);
}

}  // namespace
}  // namespace baton::cli
