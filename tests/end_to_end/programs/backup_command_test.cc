// `baton backup` of a running controller and `baton restore`, as users type and mistype them.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end/programs/process_cluster_testing.h"

namespace baton::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using v1::Job;

class BackupCommandTest : public ProcessTest {
 protected:
  /// A job that has begun, and its backup.
  void BackUpAJob() {
    StartCluster(/*token_ms=*/"2");
    ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
    ASSERT_TRUE(client_.WaitForStep("rl", 3)) << client_.Why("rl");
    const Printed made = Cli({"backup", archive_});
    ASSERT_EQ(made.code, 0) << made.text;
    EXPECT_THAT(made.text, HasSubstr("`baton restore " + archive_ + " DIR` makes a data root"));
  }
  /// Names in the folder that begin with `prefix`.
  int CountOf(const std::string& prefix) const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(client_.folder())) {
      if (entry.path().filename().string().rfind(prefix, 0) == 0) ++count;
    }
    return count;
  }
  /// As a program reads an error; standard error comes before it.
  nlohmann::json ErrorOf(const Printed& printed) {
    const size_t begin = printed.text.find("\n{\n");
    if (begin == std::string::npos) return printed.text;
    return nlohmann::json::parse(printed.text.substr(begin), nullptr, false)["error"];
  }

  const std::string archive_ = Folder("backup.tar.zst");
};

TEST_F(BackupCommandTest, ARestoredControllerGoesOnWithTheJob) {
  BackUpAJob();
  const Printed again = Cli({"backup", Folder("second.tar.zst"), "-o", "json"});
  ASSERT_EQ(again.code, 0) << again.text;
  auto said = nlohmann::json::parse(again.text);
  EXPECT_EQ(said["file"], Folder("second.tar.zst"));
  EXPECT_GT(said["files"], 3);
  EXPECT_GT(said["size_bytes"], 4096);
  EXPECT_EQ(said["skipped"], nlohmann::json::array());
  const std::string uid = client_.Get("rl").uid();

  // The machine is lost; the prompts, which the spec names by their absolute path, are not.
  workers_.clear();
  controller_->Signal(SIGKILL);
  controller_->Wait();
  fs::remove_all(data_root_);
  data_root_ = Folder("restored");
  const Printed restored = Cli({"restore", archive_, data_root_});  // no controller answers
  ASSERT_EQ(restored.code, 0) << restored.text;
  EXPECT_THAT(restored.text,
              HasSubstr("start it with `baton-controller --data-root " + data_root_ + "`"));
  const Printed second = Cli({"restore", Folder("second.tar.zst"), Folder("other"), "-o", "json"});
  ASSERT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(nlohmann::json::parse(second.text)["files"], said["files"]);
  EXPECT_EQ(nlohmann::json::parse(second.text)["size_bytes"], said["size_bytes"]);
  EXPECT_EQ(nlohmann::json::parse(second.text)["folder"], Folder("other"));
  StartCluster();
  EXPECT_EQ(client_.Get("rl").uid(), uid);
  ExpectTheSameEnd();
}

TEST_F(BackupCommandTest, NamesMistypedPathsAndOverwritesNothing) {
  BackUpAJob();
  const auto size = fs::file_size(archive_);
  Printed printed = Cli({"backup", archive_, "-o", "json"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_EQ(ErrorOf(printed)["code"], "ALREADY_EXISTS");
  EXPECT_THAT(printed.text, HasSubstr(archive_ + " exists; give another file"));
  EXPECT_EQ(fs::file_size(archive_), size);

  printed = Cli({"backup", Folder("no/such/folder.tar.zst"), "-o", "json"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_EQ(ErrorOf(printed)["code"], "FAILED_PRECONDITION");
  EXPECT_THAT(printed.text, AllOf(HasSubstr(Folder("no/such/folder.tar.zst")),
                                  HasSubstr("No such file or directory"),
                                  Not(HasSubstr("cannot reach the controller"))));
  // Not even root can make files there.
  printed = Cli({"backup", "/proc/backup.tar.zst"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, AllOf(HasSubstr("cannot write /proc/backup.tar.zst"),
                                  Not(HasSubstr("cannot reach the controller"))));
  printed = Cli({"backup", client_.folder()});
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, HasSubstr(client_.folder() + " exists"));
  EXPECT_EQ(Cli({"backup"}).code, 2);
  EXPECT_EQ(CountOf("backup.tar.zst"), 1);

  // With no controller there, the command says so and leaves nothing.
  Process unreached({"baton", "--controller", "127.0.0.1:1", "backup", Folder("late.tar.zst")},
                    Folder("unreached.log"));
  EXPECT_EQ(unreached.Wait(), 4);
  EXPECT_THAT(unreached.Log(), HasSubstr("nothing listens at 127.0.0.1:1"));
  EXPECT_EQ(CountOf("late"), 0);
}

// A disk that gives back another byte than was written.
TEST_F(BackupCommandTest, ADamagedCheckpointIsNamed) {
  BackUpAJob();
  ExpectTheSameEnd();  // its checkpoints stay as they are now
  std::string damaged;
  for (const auto& entry : fs::recursive_directory_iterator(data_root_ + "/jobs")) {
    const std::string path = entry.path().string();
    if (entry.path().filename() != "trainer.json") continue;
    damaged = path.substr(data_root_.size() + 1);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const int byte = file.peek();
    file.seekp(0);
    file.put(static_cast<char>(byte ^ 1));
    break;
  }
  ASSERT_NE(damaged, "");
  const Printed told = Cli({"backup", Folder("damaged.tar.zst")});
  EXPECT_EQ(told.code, 1);
  EXPECT_THAT(told.text, AllOf(HasSubstr("damaged on the controller's disk"),
                               HasSubstr("  " + damaged + " has XXH3 ")));
  const Printed again = Cli({"backup", Folder("again.tar.zst"), "-o", "json"});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(nlohmann::json::parse(again.text)["damaged"].size(), 1u);
  EXPECT_EQ(Cli({"restore", Folder("again.tar.zst"), Folder("restored")}).code, 0);
}

TEST_F(BackupCommandTest, OnlyAWholeBackupBecomesADataRootAndOnlyWhereNothingIs) {
  BackUpAJob();
  const std::string restored = Folder("restored");
  std::ifstream in(archive_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const std::string cut = client_.WriteFile("cut.tar.zst", whole.substr(0, whole.size() / 2));
  Printed printed = Cli({"restore", cut, restored, "-o", "json"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_EQ(ErrorOf(printed)["code"], "DATA_LOSS");
  EXPECT_THAT(printed.text, HasSubstr(cut + " is not a complete backup"));
  EXPECT_EQ(CountOf("restored"), 0);

  printed = Cli({"restore", archive_, data_root_, "-o", "json"});  // where the controller runs
  EXPECT_EQ(printed.code, 1);
  EXPECT_EQ(ErrorOf(printed)["code"], "FAILED_PRECONDITION");
  EXPECT_THAT(printed.text, HasSubstr(data_root_ + " is not empty"));
  printed = Cli({"restore", data_root_, restored});  // the arguments are swapped
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, HasSubstr(data_root_ + " is a folder"));
  printed = Cli({"restore", archive_, cut});
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, HasSubstr(cut + " is not a folder"));
  printed = Cli({"restore", Folder("none.tar.zst"), restored});
  EXPECT_EQ(printed.code, 3);
  EXPECT_THAT(printed.text, HasSubstr("there is no file " + Folder("none.tar.zst")));
  printed = Cli({"restore", archive_, "/proc/restored"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, AllOf(HasSubstr("cannot write /proc/restored"),
                                  Not(HasSubstr("cannot reach the controller"))));
  EXPECT_EQ(Cli({"restore", archive_}).code, 2);
  EXPECT_EQ(CountOf("restored"), 0);
  ExpectTheSameEnd();  // the job does not notice
}

}  // namespace
}  // namespace baton::testing
