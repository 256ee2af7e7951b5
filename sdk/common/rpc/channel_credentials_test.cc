// Real certificates, which openssl makes, and real connections.
#include "sdk/common/rpc/channel_credentials.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

class TlsTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path(name); }

  // A self-signed certificate, which is its own authority: NAME.pem and NAME.key.
  void Make(const std::string& name) const {
    const std::string command =
        absl::StrCat("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=", name,
                     " -addext subjectAltName=IP:127.0.0.1 -keyout ", File(name + ".key"), " -out ",
                     File(name + ".pem"), " 2>/dev/null");
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  // As a program that renews certificates does.
  void Use(const std::string& name) const {
    for (const char* end : {".key", ".pem"}) {
      fs::copy_file(File(name + end), File(std::string("new") + end));
      fs::rename(File(std::string("new") + end), File(std::string("server") + end));
    }
  }
  bool Connects(const std::string& ca, int port) const {
    TlsFiles files;
    files.ca = File(ca + ".pem");
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    const auto channel = grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", port), MakeChannelCredentials(files).value(), arguments);
    return channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  const TestFolder folder_;
};

TEST_F(TlsTest, ACertificateThatIsReplacedCountsWithoutARestart) {
  Make("old");
  Make("young");
  Use("old");
  TlsFiles files;
  files.certificate = File("server.pem");
  files.key = File("server.key");
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials(files, absl::Seconds(1)).value(),
                           &port);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(Connects("old", port));
  EXPECT_FALSE(Connects("young", port));
  Use("young");
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  bool renewed = false;
  while (!renewed && absl::Now() < deadline) renewed = Connects("young", port);
  EXPECT_TRUE(renewed);
  EXPECT_FALSE(Connects("old", port));
}

TEST(MayShowToken, RefusesClearTextBeyondThisMachine) {
  TlsFiles tls;
  tls.ca = "system";
  EXPECT_TRUE(MayShowToken("t", "127.0.0.1:7077", {}, false).ok());
  EXPECT_TRUE(MayShowToken("", "10.0.0.1:7077", {}, false).ok());
  EXPECT_TRUE(MayShowToken("t", "10.0.0.1:7077", tls, false).ok());
  EXPECT_TRUE(MayShowToken("t", "10.0.0.1:7077", {}, true).ok());
  const absl::Status refused = MayShowToken("t", "10.0.0.1:7077", {}, false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("--insecure"));
}

}  // namespace
}  // namespace baton
