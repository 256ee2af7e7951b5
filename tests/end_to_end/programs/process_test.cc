// The programs themselves, as processes: killed, out of disk, on ports that are taken.
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/programs/process_cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

TEST_F(ProcessTest, EveryProgramIsKilledOnce) {
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 2)) << client_.Why("rl");
  controller_->Signal(SIGKILL);
  EXPECT_EQ(controller_->Wait(), 128 + SIGKILL);
  StartController();
  ASSERT_TRUE(client_.WaitForStep("rl", 3)) << client_.Why("rl");
  StartWorker("rollout-0", "rollout");
  StartWorker("reward-0", "reward");
  ASSERT_TRUE(client_.WaitForStep("rl", 4)) << client_.Why("rl");
  StartWorker("actor-0", "actor");
  ExpectTheSameEnd();
}

TEST_F(ProcessTest, AFullDiskHoldsTheJobAndLosesNothing) {
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
  EXPECT_THAT(HttpGet(http_port_, "/readyz"), HasSubstr("200"));
  ASSERT_TRUE(client_.WaitForStep("rl", 1)) << client_.Why("rl");
  controller_->LimitFileSize(0);
  ASSERT_TRUE(
      WaitFor([&] { return HttpGet(http_port_, "/readyz").find("503") != std::string::npos; },
              absl::Seconds(5)))
      << controller_->Log();
  EXPECT_THAT(HttpGet(http_port_, "/readyz"), HasSubstr("store"));
  EXPECT_THAT(client_.Why("rl"), HasSubstr("kind: \"store\""));
  const Job held = client_.Get("rl");
  // Tasks may end, but nothing that follows from them leaves.
  const absl::Time end = absl::Now() + absl::Milliseconds(400);
  ASSERT_TRUE(WaitFor([&] { return absl::Now() > end; }));
  EXPECT_EQ(client_.Get("rl").step(), held.step());
  EXPECT_EQ(client_.Get("rl").state(), Job::STATE_RUNNING) << controller_->Log();
  controller_->LimitFileSize(RLIM_INFINITY);
  ExpectTheSameEnd();
  EXPECT_THAT(HttpGet(http_port_, "/readyz"), HasSubstr("200"));
  for (const v1::JobEvent& event : client_.Events("rl")) EXPECT_NE(event.type(), "warning");
}

TEST_F(ProcessTest, RecoversFromAFullDiskFollowedByAKill) {
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 2)) << client_.Why("rl");
  controller_->LimitFileSize(0);
  ASSERT_TRUE(
      WaitFor([&] { return HttpGet(http_port_, "/readyz").find("503") != std::string::npos; },
              absl::Seconds(5)));
  controller_->Signal(SIGKILL);
  controller_->Wait();
  StartController();
  ExpectTheSameEnd();
}

TEST_F(ProcessTest, AWorkerWithoutDiskHoldsTheJobAndSaysWhere) {
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 1)) << client_.Why("rl");
  workers_.at("actor-0")->LimitFileSize(0);
  ASSERT_TRUE(WaitFor([&] {
    return client_.Why("rl").find("kind: \"space\"") != std::string::npos;
  })) << client_.Why("rl");
  EXPECT_THAT(client_.Why("rl"), HasSubstr("cause: \"room to "));
  EXPECT_THAT(client_.Why("rl"), HasSubstr(client_.folder()));
  EXPECT_EQ(client_.Get("rl").state(), Job::STATE_RUNNING);
  workers_.at("actor-0")->LimitFileSize(RLIM_INFINITY);
  ExpectTheSameEnd();
  const auto events = client_.Events("rl");
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const v1::JobEvent& event) { return event.type() == "warning"; }),
            1);
}

// A real disk that is full: store, payloads and checkpoints stand on it.
TEST_F(ProcessTest, AFullFileSystemHoldsTheJobUntilThereIsRoom) {
  const std::string small = Folder("data");
  std::filesystem::create_directories(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=16m") != 0) {
    GTEST_SKIP() << "only root may mount a small file system";
  }
  const absl::Cleanup unmount = [&] {
    controller_ = nullptr;
    workers_.clear();
    ::umount2(small.c_str(), MNT_DETACH);
  };
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 1)) << client_.Why("rl");
  {
    std::ofstream ballast(small + "/ballast", std::ios::binary);
    const std::string block(4096, 'x');
    while (ballast.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  ASSERT_TRUE(WaitFor(
      [&] {
        const std::string why = client_.Why("rl");
        return why.find("kind: \"store\"") != std::string::npos ||
               why.find("kind: \"space\"") != std::string::npos;
      },
      absl::Seconds(20)))
      << client_.Why("rl") << controller_->Log();
  EXPECT_EQ(client_.Get("rl").state(), Job::STATE_RUNNING) << controller_->Log();
  std::filesystem::remove(small + "/ballast");
  ExpectTheSameEnd();
}

// Stops and continues a process in turns, so that it gets a sixteenth of its time. The turn in
// which it runs is shorter than a token takes: no token is without a stop, however busy the machine
// is.
class Throttle {
 public:
  explicit Throttle(Process& process) : process_(process), thread_([this] { Run(); }) {}
  ~Throttle() {
    over_.Notify();
    thread_.join();
  }

 private:
  void Run() {
    bool over = false;
    while (!over) {
      process_.Signal(SIGSTOP);
      over = over_.WaitForNotificationWithTimeout(absl::Milliseconds(150));
      process_.Signal(SIGCONT);
      over = over || over_.WaitForNotificationWithTimeout(absl::Milliseconds(10));
    }
  }
  Process& process_;
  absl::Notification over_;
  std::thread thread_;
};

TEST_F(ProcessTest, AThrottledWorkerIsDrainedAndItsWorkMoves) {
  StartController({"--drain-slow-after", "1"});
  StartWorker("actor-0", "actor");
  StartWorker("reward-0", "reward");
  for (const char* id : {"rollout-0", "rollout-1", "rollout-2"}) {
    StartWorker(id, "rollout", {"--token-ms", "20"});
  }
  v1::JobSpec spec = client_.RlSpec(1000);
  spec.mutable_resources()->set_rollout_workers(3);
  spec.mutable_data()->set_train_batch_size(8);
  spec.mutable_data()->set_max_response_length(8);
  const Throttle throttle(*workers_.at("rollout-1"));
  ASSERT_TRUE(client_.Create(spec, "rl").ok());
  const auto drained = [&] {
    return controller_->Log().find("rollout-1: it is drained: ") != std::string::npos;
  };
  EXPECT_TRUE(WaitFor(drained, absl::Seconds(60))) << controller_->Log();
  const int64_t held = client_.Get("rl").step();
  EXPECT_TRUE(client_.WaitForStep("rl", held + 2)) << client_.Why("rl");
  for (const v1::Worker& worker : client_.Workers()) {
    EXPECT_EQ(worker.state() == v1::Worker::STATE_DRAINING, worker.worker_id() == "rollout-1");
    EXPECT_EQ(!worker.drain_reason().empty(), worker.worker_id() == "rollout-1");
  }
}

TEST_F(ProcessTest, AStoppedWorkerIsNamedBeforeItsLeaseEnds) {
  StartCluster();
  ASSERT_TRUE(client_.Create(client_.RlSpec(1000), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 2)) << client_.Why("rl");
  workers_.at("rollout-1")->Signal(SIGSTOP);
  // Two heartbeats are missing before the lease of 2 s ends; then the step goes on without it.
  EXPECT_TRUE(WaitFor(
      [&] {
        const std::string why = client_.Why("rl");
        const size_t first = why.find("waits {");
        return first != std::string::npos &&
               why.find("subject: \"worker rollout-1\"", first) < why.find("waits {", first + 1) &&
               why.find("which is attached but silent") != std::string::npos;
      },
      absl::Seconds(5)))
      << client_.Why("rl");
  const int64_t held = client_.Get("rl").step();
  EXPECT_TRUE(client_.WaitForStep("rl", held + 2)) << client_.Why("rl");
  workers_.at("rollout-1")->Signal(SIGCONT);
}

TEST_F(ProcessTest, ASecondJobSaysWhyItIsQueuedAndHowToHelpIt) {
  StartController({"--up-workers", "trainers=1,rollouts=2,rewards=1,scorers=2,workers=0"});
  StartWorker("actor-0", "actor");
  for (const char* id : {"rollout-0", "rollout-1", "rollout-2", "rollout-3"}) {
    StartWorker(id, "rollout", {"--token-ms", "5"});
  }
  StartWorker("reward-0", "reward");
  StartWorker("reward-1", "reward");
  ASSERT_TRUE(client_.Create(client_.RlSpec(1000), "rl").ok());
  ASSERT_TRUE(client_.WaitForStep("rl", 1)) << client_.Why("rl");
  client_.Prompts("second.jsonl", 4);
  const std::string spec =
      client_.WriteFile("second.yaml",
                        "kind: rl\n"
                        "model: {init: {characters: \"0123456789+=\"}}\n"
                        "data: {train_files: [second.jsonl], train_batch_size: 4}\n"
                        "reward: {rules: [{type: exact_match}]}\n"
                        "trainer: {total_training_steps: 2}\n");
  const Printed submitted = Cli({"submit", spec, "--name", "second"});
  EXPECT_EQ(submitted.code, 0) << submitted.text;
  EXPECT_THAT(submitted.text,
              HasSubstr("it is queued and waits for 1 actor worker to attach or to become free; 1 "
                        "worker of role actor is attached: job rl has it"));
  EXPECT_THAT(
      submitted.text,
      HasSubstr(
          "it starts as soon as these workers are there; start more: `baton down`, then `baton "
          "up --trainers 2`; all jobs then go on"));
  EXPECT_EQ(Cli({"cancel", "rl"}).code, 0);
  EXPECT_TRUE(client_.WaitForState("second", Job::STATE_SUCCEEDED)) << client_.Why("second");
}

TEST_F(ProcessTest, TakenPortsAreNamed) {
  StartController();
  Process second({"baton-controller", "--listen", listen_, "--http", "127.0.0.1:0", "--data-root",
                  Folder("other")},
                 Folder("second.log"));
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on " + listen_));
  EXPECT_THAT(second.Log(), HasSubstr("Choose another with --listen"));
  const std::string http = absl::StrCat("127.0.0.1:", http_port_);
  Process third({"baton-controller", "--listen", "127.0.0.1:0", "--http", http, "--data-root",
                 Folder("other")},
                Folder("third.log"));
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_THAT(third.Log(), HasSubstr(http));
  EXPECT_THAT(third.Log(), HasSubstr("--http"));
  Process store({"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                 "--data-root", Folder("data")},
                Folder("store.log"));
  EXPECT_EQ(store.Wait(), 1);
  EXPECT_THAT(store.Log(), HasSubstr("another controller has this store open"));
  Process relay({"baton-relay", "--listen", listen_, "--shm-dir", client_.folder()},
                Folder("relay.log"));
  EXPECT_EQ(relay.Wait(), 1);
  EXPECT_THAT(relay.Log(), HasSubstr("cannot listen on " + listen_ +
                                     ": Address already in use; "
                                     "choose another address with --listen"));
}

TEST_F(ProcessTest, AnOpenAddressWithoutTokensIsRefused) {
  Process controller({"baton-controller", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0",
                      "--data-root", Folder("data")},
                     Folder("open.log"));
  EXPECT_EQ(controller.Wait(), 1);
  EXPECT_THAT(controller.Log(), HasSubstr("Give --token-file FILE (one token a line), or listen "
                                          "on 127.0.0.1"));
  Process http({"baton-controller", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--data-root",
                Folder("data")},
               Folder("http.log"));
  EXPECT_EQ(http.Wait(), 1);
  EXPECT_THAT(http.Log(), HasSubstr("--token-file"));
  Process relay({"baton-relay", "--listen", "0.0.0.0:0", "--shm-dir", client_.folder()},
                Folder("relay.log"));
  EXPECT_EQ(relay.Wait(), 1);
  EXPECT_THAT(relay.Log(), HasSubstr("give --token-file, or use 127.0.0.1"));
}

TEST_F(ProcessTest, ARelayWithoutMemorySaysSo) {
  Process relay({"baton-relay", "--listen", "127.0.0.1:0", "--shm-dir", client_.folder(),
                 "--max-bytes", "99999999999999999"},
                Folder("relay.log"));
  EXPECT_EQ(relay.Wait(), 1);
  EXPECT_THAT(relay.Log(), HasSubstr("less than the 99999999999999999 bytes of --max-bytes: "
                                     "enlarge it (containers: --shm-size) or lower --max-bytes"));
}

TEST_F(ProcessTest, LogFilesThatWereMovedAwayAreOpenedAnew) {
  const auto read = [&](const std::string& name) {
    std::ifstream file(Folder(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto told = [&](const std::string& name, const std::string& text) {
    return WaitFor([&] { return read(name).find(text) != std::string::npos; }, absl::Seconds(20));
  };
  StartController({"--log-level", "info"});  // its log: standard error, a file
  StartWorker("reward-0", "reward", {"--log-file", Folder("of-worker.log")});
  Process relay({"baton-relay", "--listen", "127.0.0.1:0", "--shm-dir", Folder(""), "--log-file",
                 Folder("of-relay.log")},
                Folder("relay.log"));
  ASSERT_TRUE(told("of-worker.log", "attached to the controller")) << read("of-worker.log");
  ASSERT_TRUE(told("of-relay.log", "listening")) << read("of-relay.log");
  ASSERT_TRUE(client_.Create(client_.RlSpec(1), "first").ok());
  ASSERT_TRUE(told("data/audit.log", "first"));
  for (const std::string name : {"of-worker.log", "of-relay.log", "data/audit.log"}) {
    std::filesystem::rename(Folder(name), Folder(name + ".moved"));
  }
  controller_->Signal(SIGHUP);
  workers_.at("reward-0")->Signal(SIGHUP);
  relay.Signal(SIGHUP);
  EXPECT_TRUE(told("of-worker.log", "log file reopened"));
  EXPECT_TRUE(told("of-relay.log", "log file reopened"));
  EXPECT_EQ(controller_->WaitForLog("log files "), "reopened");
  ASSERT_TRUE(client_.Create(client_.RlSpec(1), "second").ok());
  EXPECT_TRUE(told("data/audit.log", "second"));
  EXPECT_THAT(read("data/audit.log"), ::testing::Not(HasSubstr("jobs/first")));
  EXPECT_THAT(read("data/audit.log.moved"), HasSubstr("jobs/first"));
  workers_.at("reward-0")->Signal(SIGHUP);  // it may come again
  EXPECT_TRUE(WaitFor([&] {
    const std::string log = read("of-worker.log");
    return log.find("reopened") != log.rfind("reopened");
  }));
  for (Process* one : {controller_.get(), workers_.at("reward-0").get(), &relay}) {
    EXPECT_TRUE(one->running());
    one->Signal(SIGTERM);
    EXPECT_EQ(one->Wait(), 0) << one->Log();
  }
}

TEST_F(ProcessTest, ProgramsThatAreAskedToStopLeaveNothing) {
  StartCluster();
  Process relay({"baton-relay", "--listen", "127.0.0.1:0", "--shm-dir", Folder("")},
                Folder("relay.log"));
  ASSERT_THAT(relay.WaitForLog("listening on "), HasSubstr("127.0.0.1:"));
  // Before that a signal may find a program that is still starting.
  for (auto& [id, worker] : workers_) {
    ASSERT_NE(worker->WaitForLog("attached to the controller worker="), "") << worker->Log();
  }
  for (auto& [id, worker] : workers_) worker->Signal(SIGTERM);
  for (auto& [id, worker] : workers_) EXPECT_EQ(worker->Wait(), 0) << id << worker->Log();
  controller_->Signal(SIGTERM);
  EXPECT_EQ(controller_->Wait(), 0) << controller_->Log();
  relay.Signal(SIGTERM);
  EXPECT_EQ(relay.Wait(), 0) << relay.Log();
  for (const auto& entry : std::filesystem::directory_iterator(client_.folder())) {
    EXPECT_EQ(entry.path().filename().string().find("baton-relay"), std::string::npos)
        << entry.path();
  }
}

}  // namespace
}  // namespace baton::testing
