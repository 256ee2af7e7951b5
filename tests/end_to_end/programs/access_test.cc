// A controller for many users: tokens, TLS both ways, workers on an address of their own.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"
#include "tests/end_to_end/programs/process_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() { files_.WriteFile("admins", "root-token\n"); }

  std::string Folder(const std::string& name) const { return files_.folder() + "/" + name; }

  // A certificate authority, and certificates of it for the controller and for its callers.
  void MakeCertificates() {
    const std::string quiet = absl::StrCat(" >>", Folder("openssl.log"), " 2>&1");
    const auto run = [&](const std::string& command) {
      ASSERT_EQ(std::system(absl::StrCat("cd ", files_.folder(), " && ", command, quiet).c_str()),
                0)
          << command;
    };
    run("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key "
        "-out ca.pem");
    files_.WriteFile("names", "subjectAltName=IP:127.0.0.1\n");
    for (const std::string who : {"server", "client"}) {
      run(absl::StrCat("openssl req -newkey rsa:2048 -nodes -subj /CN=", who, " -keyout ", who,
                       ".key -out ", who, ".csr"));
      run(absl::StrCat("openssl x509 -req -in ", who, ".csr -CA ca.pem -CAkey ca.key -days 2 ",
                       "-CAcreateserial -extfile names -out ", who, ".pem"));
    }
  }

  void StartController(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"baton-controller", "--listen",     "127.0.0.1:0",
                                          "--http",           "127.0.0.1:0",  "--data-root",
                                          Folder("data"),     "--token-file", Folder("admins")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    controller_ = std::make_unique<Process>(arguments, Folder("controller.log"));
    users_ = "127.0.0.1:" + controller_->WaitForLog("grpc_port=");
    workers_address_ = "127.0.0.1:" + controller_->WaitForLog("worker_port=");
    http_port_ = std::atoi(controller_->WaitForLog("http_port=").c_str());
  }
  void StartWorker(const std::string& id, const std::string& role, const std::string& token,
                   const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"baton-fake-worker",
                                          "--controller",
                                          workers_address_,
                                          "--roles",
                                          role,
                                          "--id",
                                          id,
                                          "--token-file",
                                          files_.WriteFile(id, token),
                                          "--weights-dir",
                                          Folder("weights")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    workers_[id] = std::make_unique<Process>(arguments, Folder(id + ".log"));
  }
  // Runs the command line; what it printed, and its exit code.
  std::pair<std::string, int> Cli(const std::string& token, std::vector<std::string> arguments) {
    std::vector<std::string> all = {"baton", "--controller", users_};
    if (!token.empty()) {
      all.insert(all.end(), {"--token-file", files_.WriteFile("token-of-cli", token)});
    }
    all.insert(all.end(), tls_.begin(), tls_.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    Process process(all, Folder(absl::StrCat("cli-", ++calls_, ".log")));
    const int code = process.Wait();
    return {process.Log(), code};
  }
  // The secret: the first line.
  std::string MakeToken(const std::string& project, const std::string& scope) {
    const auto [out, code] =
        Cli("root-token", {"token", "create", "--project", project, "--scope", scope});
    EXPECT_EQ(code, 0) << out;
    for (const auto line : absl::StrSplit(out, '\n')) {
      if (absl::StartsWith(line, "baton-")) return std::string(line);
    }
    return "";
  }
  std::string WriteSpec() {
    const std::string prompts = files_.Prompts("train.jsonl", 20);
    return files_.WriteFile(
        "job.yaml", absl::StrCat(R"(kind: rl
model: {init: {characters: "0123456789+=", max_position_embeddings: 4096}}
data: {train_files: [)",
                                 prompts, R"(], train_batch_size: 2, max_response_length: 32}
rollout: {n: 2}
reward: {rules: [{type: exact_match}]}
trainer: {total_training_steps: 3}
resources: {rollout_workers: 1}
)"));
  }

  TestClient files_;  // its folder
  std::string users_, workers_address_;
  int http_port_ = 0;
  int calls_ = 0;
  std::vector<std::string> tls_;
  std::unique_ptr<Process> controller_;
  std::map<std::string, std::unique_ptr<Process>> workers_;
};

// gRPC keeps the whole of a message before it looks at its size.
TEST_F(AccessTest, AMessageOfAnUnknownCallerTakesNoMemory) {
  StartController({});
  const grpc::Slice large(std::string(256 << 20, 'x'));
  const grpc::ByteBuffer request(&large, 1);
  const auto channel = grpc::CreateChannel(users_, grpc::InsecureChannelCredentials());
  const auto call = [&](const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    auto rpc = stub.PrepareUnaryCall(&context, method, request, &queue);
    rpc->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    rpc->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.error_code();
  };
  const int64_t before = controller_->PeakMemory();
  ASSERT_GT(before, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call("/baton.v1.JobService/CreateJob"), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(call("/baton.v1.JobService/WatchJob"), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(call("/baton.v1.WorkerService/Attach"), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(call("/grpc.health.v1.Health/Check"), grpc::StatusCode::OK);
    EXPECT_NE(call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
              grpc::StatusCode::OK);
  }
  EXPECT_LT(controller_->PeakMemory() - before, 64 << 20);
}

TEST_F(AccessTest, AJobOverMutualTlsWithTokensAndWorkersOfTheirOwnAddress) {
  MakeCertificates();
  const std::vector<std::string> server = {
      "--tls-cert",      Folder("server.pem"), "--tls-key",       Folder("server.key"),
      "--tls-client-ca", Folder("ca.pem"),     "--worker-listen", "127.0.0.1:0"};
  const std::vector<std::string> mutual = {"--tls-ca",   Folder("ca.pem"),
                                           "--tls-cert", Folder("client.pem"),
                                           "--tls-key",  Folder("client.key")};
  StartController(server);
  ASSERT_NE(users_, workers_address_);
  tls_ = mutual;
  const std::string writer = MakeToken("a", "write"), worker = MakeToken("*", "worker");
  ASSERT_THAT(writer, Not(IsEmpty()));
  StartWorker("actor-0", "actor", worker, mutual);
  StartWorker("rollout-0", "rollout", worker, mutual);
  StartWorker("reward-0", "reward", worker, mutual);
  const auto [out, code] = Cli(writer, {"submit", WriteSpec(), "--name", "j", "--watch"});
  EXPECT_EQ(code, 0) << out << controller_->Log();
  EXPECT_THAT(Cli(writer, {"show", "j"}).first, HasSubstr("SUCCEEDED"));
  EXPECT_THAT(Cli(MakeToken("b", "read"), {"show", "projects/a/jobs/j"}).first,
              HasSubstr("is for project b, not for a"));
}

TEST_F(AccessTest, RefusesCallersWithoutACertificateOrTls) {
  MakeCertificates();
  StartController({"--tls-cert", Folder("server.pem"), "--tls-key", Folder("server.key"),
                   "--tls-client-ca", Folder("ca.pem")});
  const auto [plain, plain_code] = Cli("root-token", {"jobs"});
  EXPECT_EQ(plain_code, 4) << plain;
  tls_ = {"--tls-ca", Folder("ca.pem")};  // encrypted, but nobody
  const auto [nobody, nobody_code] = Cli("root-token", {"jobs"});
  EXPECT_EQ(nobody_code, 4) << nobody;
  tls_ = {"--tls-ca", Folder("nowhere.pem")};
  const auto [nowhere, nowhere_code] = Cli("root-token", {"jobs"});
  EXPECT_EQ(nowhere_code, 2) << nowhere;
  EXPECT_THAT(nowhere, HasSubstr("nowhere.pem cannot be read"));
}

TEST_F(AccessTest, WorkersAndUsersKeepToTheirAddresses) {
  StartController({"--worker-listen", "127.0.0.1:0"});
  const std::string worker = MakeToken("*", "worker");
  std::swap(users_, workers_address_);
  const auto [out, code] = Cli("root-token", {"jobs"});
  EXPECT_NE(code, 0) << "the workers' address serves no users: " << out;
  StartWorker("lost", "rollout", worker, {});
  EXPECT_NE(workers_.at("lost")->Wait(), 0);  // the users' address serves no workers
}

TEST_F(AccessTest, RefusesAWorkerWithAUsersTokenAndSaysWhy) {
  StartController({});
  StartWorker("actor-0", "actor", MakeToken("a", "write"), {});
  EXPECT_NE(workers_.at("actor-0")->Wait(), 0);
  EXPECT_THAT(workers_.at("actor-0")->Log(), HasSubstr("asks for the scope 'worker'"));
}

TEST_F(AccessTest, PathsOfOthersAreRefused) {
  StartController({"--allow-path", Folder("shared")});
  const std::string writer = MakeToken("a", "write"), spec = WriteSpec();
  const auto submit = [&](const std::string& model) {
    return Cli(writer, {"submit", spec, "--set", "model={path: " + model + "}"});
  };
  std::filesystem::create_directories(Folder("data/jobs/b/secret"));
  std::filesystem::create_directories(Folder("shared"));
  std::filesystem::create_directory_symlink(Folder("data/jobs/b"), Folder("data/files/link"));
  for (const std::string& path :
       {std::string("/etc"), Folder("data/jobs/b/secret"), Folder("shared/../data/jobs/b/secret"),
        std::string("files/link/secret"), std::string("../../etc")}) {
    const auto [out, code] = submit(path);
    EXPECT_EQ(code, 2) << out;
    EXPECT_THAT(out, HasSubstr("is not open to project a")) << path;
  }
  EXPECT_THAT(submit(Folder("shared/model")).first, HasSubstr("no config.json in"));
  EXPECT_THAT(submit("job:projects/b/jobs/x").first, HasSubstr("is of another project"));
  const auto [out, code] =
      Cli(writer, {"submit", "--checkpoint", Folder("data/jobs/b/secret"), "--name", "j"});
  EXPECT_NE(code, 0);
  EXPECT_THAT(out, HasSubstr("is not open to project a"));
}

TEST_F(AccessTest, TokensAndQuotasOutliveARestart) {
  StartController({});
  const std::string writer = MakeToken("a", "write");
  EXPECT_EQ(Cli("root-token", {"project", "set", "a", "--max-jobs", "1"}).second, 0);
  const std::string spec = WriteSpec();
  EXPECT_EQ(Cli(writer, {"submit", spec, "--name", "one"}).second, 0);
  const auto [over, code] = Cli(writer, {"submit", spec, "--name", "two"});
  EXPECT_NE(code, 0);
  EXPECT_THAT(over, HasSubstr("project a has 1 jobs that have not ended, of at most 1"));
  controller_->Signal(SIGKILL);
  controller_->Wait();
  std::filesystem::remove(Folder("controller.log"));
  StartController({});
  EXPECT_THAT(Cli(writer, {"submit", spec, "--name", "two"}).first, HasSubstr("of at most 1"));
  EXPECT_THAT(Cli("root-token", {"project", "list"}).first, HasSubstr("a        1       1"));
  const std::string id = writer.substr(6, 12);
  EXPECT_EQ(Cli("root-token", {"token", "revoke", id}).second, 0);
  EXPECT_THAT(Cli(writer, {"jobs"}).first, HasSubstr("not known"));
  EXPECT_THAT(Cli("", {"jobs"}).first, HasSubstr("--token-file"));
  EXPECT_THAT(HttpGet(http_port_, "/api/v1/jobs"), HasSubstr("401"));
}

}  // namespace
}  // namespace baton::testing
