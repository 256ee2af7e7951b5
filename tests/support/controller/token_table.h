// A table of tokens with a store of its own, for tests.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_TOKEN_TABLE_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_TOKEN_TABLE_H_

#include <memory>
#include <set>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/access/token_table.h"
#include "controller/store/memory_store.h"

namespace baton::access {

class TestTokens {
 public:
  /// "root" is an administrator's.
  TestTokens() { table_->Load(&store_).IgnoreError(); }

  /// A token made `age` ago; `lifetime_seconds` 0: for ever. Its secret, or why there is none.
  std::string Make(const std::string& project, const std::string& scope,
                   absl::Duration age = absl::ZeroDuration(), int64_t lifetime_seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_project(project);
    request.add_scopes(scope);
    if (lifetime_seconds > 0) request.mutable_lifetime()->set_seconds(lifetime_seconds);
    std::string secret;
    absl::Notification made;
    table_->Create(request, absl::Now() - age, [&](absl::StatusOr<v1::CreateTokenResponse> token) {
      secret = token.ok() ? token->secret() : std::string(token.status().message());
      made.Notify();
    });
    made.WaitForNotification();
    return secret;
  }

  const std::shared_ptr<TokenTable>& table() const { return table_; }

 private:
  store::MemoryStore store_;
  const std::shared_ptr<TokenTable> table_ =
      std::make_shared<TokenTable>(std::set<std::string>{"root"});
};

}  // namespace baton::access

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_TOKEN_TABLE_H_
