#include "controller/access/token_table.h"

#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::access {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class TokenTableTest : public ::testing::Test {
 protected:
  TokenTableTest() { EXPECT_TRUE(table_.Load(&store_).ok()); }

  absl::StatusOr<v1::CreateTokenResponse> Create(const std::string& project,
                                                 const std::vector<std::string>& scopes,
                                                 int64_t seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_project(project);
    for (const std::string& scope : scopes) request.add_scopes(scope);
    if (seconds != 0) request.mutable_lifetime()->set_seconds(seconds);
    absl::StatusOr<v1::CreateTokenResponse> made;
    absl::Notification done;
    table_.Create(request, now_, [&](auto answer) {
      made = std::move(answer);
      done.Notify();
    });
    done.WaitForNotification();
    return made;
  }
  std::string ReasonFor(const std::string& bearer) const {
    return ErrorReason(table_.Find(bearer, now_).status());
  }

  store::MemoryStore store_;
  TokenTable table_{{"root-secret"}};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(TokenTableTest, GrantsATokenOnlyItsProjectAndScopes) {
  const auto made = Create("a", {"read"});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto caller = table_.Find(made->secret(), now_);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name, made->token().token_id());
  EXPECT_TRUE(caller->Opens("a"));
  EXPECT_FALSE(caller->Opens("b"));
  EXPECT_TRUE(caller->May(Scope::kRead));
  EXPECT_FALSE(caller->May(Scope::kWrite));
  EXPECT_FALSE(caller->May(Scope::kWorker));
  EXPECT_FALSE(caller->May(Scope::kAdmin));
  const auto writer = table_.Find(Create("", {"write"})->secret(), now_);
  EXPECT_TRUE(writer->May(Scope::kRead));
  EXPECT_TRUE(writer->Opens("default"));
  const auto worker = table_.Find(Create("a", {"worker"})->secret(), now_);
  EXPECT_TRUE(worker->May(Scope::kWorker));
  EXPECT_FALSE(worker->Opens("b"));
}

// Refuses every commit, as a store that is being closed does.
class ClosingStore : public store::MemoryStore {
 public:
  using store::MemoryStore::Commit;
  void Commit(std::vector<store::Write>, store::Durability, Done done) override {
    done(absl::CancelledError("the store is closed"));
  }
};

TEST_F(TokenTableTest, AFailedCommitYieldsNoToken) {
  ClosingStore store;
  ASSERT_TRUE(table_.Load(&store).ok());
  const auto made = Create("a", {"read"});
  EXPECT_TRUE(absl::IsCancelled(made.status())) << made.status();
  EXPECT_EQ(table_.List({})->tokens_size(), 0);
}

TEST_F(TokenTableTest, APageIsAsLongAsItIsAskedFor) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Create("a", {"read"}).ok());
  v1::ListTokensRequest request;
  request.set_page_size(2);
  const auto first = table_.List(request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->tokens_size(), 2);
  request.set_page_token(first->next_page_token());
  const auto second = table_.List(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->tokens_size(), 1);
  EXPECT_EQ(second->next_page_token(), "");
}

TEST_F(TokenTableTest, AcceptsOnlyTheExactSecret) {
  const auto made = Create("a", {"read"});
  const std::string secret = made->secret();
  EXPECT_EQ(ReasonFor(""), "TOKEN");
  EXPECT_EQ(ReasonFor("wrong"), "TOKEN");
  EXPECT_EQ(ReasonFor(secret + "0"), "TOKEN");
  EXPECT_EQ(ReasonFor(secret.substr(0, secret.size() - 1)), "TOKEN");
  std::string other = secret;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_EQ(ReasonFor(other), "TOKEN");
  EXPECT_EQ(ReasonFor("baton-" + made->token().token_id() + "-"), "TOKEN");
  EXPECT_TRUE(table_.Find("root-secret", now_)->May(Scope::kAdmin));
}

TEST_F(TokenTableTest, RefusesExpiredAndRevokedTokens) {
  const auto brief = Create("a", {"read"}, 60);
  const auto lasting = Create("a", {"read"});
  now_ += absl::Seconds(59);
  EXPECT_TRUE(table_.Find(brief->secret(), now_).ok());
  now_ += absl::Seconds(1);
  EXPECT_EQ(ReasonFor(brief->secret()), "TOKEN_EXPIRED");
  EXPECT_TRUE(table_.Find(lasting->secret(), now_).ok());
  const auto revoke = [&] {
    absl::Status status;
    absl::Notification done;
    table_.Revoke(lasting->token().token_id(), [&](const auto& answer) {
      status = answer.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  };
  EXPECT_TRUE(revoke().ok());
  EXPECT_EQ(ReasonFor(lasting->secret()), "TOKEN");
  EXPECT_EQ(ErrorReason(revoke()), "TOKEN_NOT_FOUND");
}

TEST_F(TokenTableTest, StoresTokensWithoutTheirSecrets) {
  const auto made = Create("a", {"read", "write"});
  TokenTable after({"root-secret"});
  ASSERT_TRUE(after.Load(&store_).ok());
  EXPECT_EQ(after.Find(made->secret(), now_)->name, made->token().token_id());
  EXPECT_EQ(after.List({})->tokens_size(), 1);
  const auto rows = store_.Scan("tokens", {});
  ASSERT_EQ(rows->size(), 1u);
  const std::string secret = made->secret().substr(made->secret().rfind('-') + 1);
  EXPECT_THAT(rows->front().value, Not(HasSubstr(secret)));
}

TEST_F(TokenTableTest, KeepsACallerValidUntilItsTokenExpiresOrIsRevoked) {
  const Caller lasting = *table_.Find(Create("a", {"read"})->secret(), now_);
  const Caller brief = *table_.Find(Create("a", {"read"}, 60)->secret(), now_);
  const Caller root = *table_.Find("root-secret", now_);
  for (const Caller& caller : {lasting, brief, root}) {
    EXPECT_TRUE(table_.StillGood(caller, now_ + absl::Seconds(59)).ok()) << caller.name;
  }
  EXPECT_EQ(ErrorReason(table_.StillGood(brief, now_ + absl::Seconds(60))), "TOKEN_EXPIRED");
  table_.Revoke(lasting.name, [](const auto&) {});
  EXPECT_EQ(ErrorReason(table_.StillGood(lasting, now_)), "TOKEN");
  EXPECT_TRUE(table_.StillGood(root, now_ + absl::Hours(10'000)).ok());
}

TEST_F(TokenTableTest, RefusesInvalidScopesProjectsAndLifetimes) {
  EXPECT_EQ(ErrorReason(Create("a", {}).status()), "TOKEN_SPEC");
  EXPECT_THAT(std::string(Create("a", {"root"}).status().message()), HasSubstr("read, write"));
  EXPECT_EQ(ErrorReason(Create("../a", {"read"}).status()), "TOKEN_SPEC");
  EXPECT_EQ(ErrorReason(Create("a", {"admin"}).status()), "TOKEN_SPEC");
  EXPECT_EQ(ErrorReason(Create("-", {"read"}).status()), "TOKEN_SPEC");   // would be all projects
  EXPECT_EQ(ErrorReason(Create("", {"worker"}).status()), "TOKEN_SPEC");  // whose jobs?
  EXPECT_EQ(ErrorReason(Create("a", {"read"}, -5).status()), "TOKEN_SPEC");
  EXPECT_TRUE(table_.List({})->tokens().empty());
}

TEST_F(TokenTableTest, WithoutATokenFileAnybodyIsAnAdministratorButAWrongTokenIsNot) {
  TokenTable open;
  EXPECT_TRUE(open.Find("", now_)->May(Scope::kAdmin));
  EXPECT_FALSE(open.Find("wrong", now_).ok());
}

TEST_F(TokenTableTest, ReadsOneTokenALine) {
  const auto write = [](const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    return path;
  };
  EXPECT_THAT(*TokenTable::ReadFile(write("tokens", "# people\n  one \r\n\ntwo\n")),
              UnorderedElementsAre("one", "two"));
  std::filesystem::permissions(::testing::TempDir() + "tokens", std::filesystem::perms(0644));
  EXPECT_THAT(std::string(TokenTable::ReadFile(::testing::TempDir() + "tokens").status().message()),
              HasSubstr("chmod 600"));
  const auto empty = TokenTable::ReadFile(write("empty", "# nobody\n\n")).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("one token a line"));
  EXPECT_EQ(TokenTable::ReadFile(::testing::TempDir() + "absent").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton::access
