// Bearer tokens: made, looked up, revoked.
//
// A token is "baton-ID-SECRET". What is kept is its SHA-256: the secret is 160 random bits, so no
// slow hash is needed. Tokens of the controller's token file are an administrator's, and are not
// kept anywhere else.
#ifndef BATON_CONTROLLER_ACCESS_TOKEN_BOOK_H_
#define BATON_CONTROLLER_ACCESS_TOKEN_BOOK_H_

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/access_service.pb.h"
#include "controller/access/caller.h"
#include "controller/store/store.h"

namespace baton::access {

/// Thread-safe.
class TokenBook {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  /// Open: who shows no token may do everything. Only for a server on loopback.
  TokenBook() : TokenBook(std::set<std::string>()) {}
  /// Not open, unless there is none.
  explicit TokenBook(std::set<std::string> admin_tokens);
  /// One token a line; empty lines and those that begin with '#' are skipped. A file without a
  /// token is an error, as is one that others than its owner may read.
  static absl::StatusOr<std::set<std::string>> ReadFile(const std::string& path);

  /// Reads what `store` keeps; new tokens are kept there. It outlives this book. Blocks.
  absl::Status Load(store::Store* store);

  bool open() const { return admin_tokens_.empty(); }
  /// Who shows `bearer` (empty: shows none). UNAUTHENTICATED: TOKEN, TOKEN_EXPIRED.
  absl::StatusOr<Caller> Find(absl::string_view bearer, absl::Time now) const;

  /// Whether the token that Find knew the caller by is one still. Errors as those of Find.
  absl::Status StillGood(const Caller& caller, absl::Time now) const;

  /// `done` is called once the token is kept. INVALID_ARGUMENT (TOKEN_SPEC).
  void Create(const v1::CreateTokenRequest& request, absl::Time now,
              Done<v1::CreateTokenResponse> done);
  /// Oldest first. INVALID_ARGUMENT (PAGE_SIZE, PAGE_TOKEN).
  absl::StatusOr<v1::ListTokensResponse> List(const v1::ListTokensRequest& request) const;
  /// At once; `done` is called when it is forgotten for good. NOT_FOUND (TOKEN_NOT_FOUND).
  void Revoke(const std::string& id, Done<v1::RevokeTokenResponse> done);

 private:
  static absl::Status CheckExpiry(const v1::Token& token, absl::Time now);

  const std::set<std::string> admin_tokens_;
  store::Store* store_ = nullptr;
  mutable absl::Mutex mu_;
  std::map<std::string, store::v1::TokenRow> rows_ ABSL_GUARDED_BY(mu_);  // by id
};

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_TOKEN_BOOK_H_
