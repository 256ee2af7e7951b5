// Bearer tokens: creates, finds and revokes them.
//
// A token is "baton-ID-SECRET". The store has its SHA-256. No slow hash is needed, because the
// secret has 160 random bits. Tokens of the controller's token file have the scope admin and are
// only in that file.
#ifndef BATON_CONTROLLER_ACCESS_TOKEN_TABLE_H_
#define BATON_CONTROLLER_ACCESS_TOKEN_TABLE_H_

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
class TokenTable {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  /// Open: a caller without a token may do everything. Only for a server on loopback.
  TokenTable() : TokenTable(std::set<std::string>()) {}
  /// Open only if `admin_tokens` is empty.
  explicit TokenTable(std::set<std::string> admin_tokens);
  /// Reads one token per line; skips empty lines and lines that begin with '#'. It is an error if
  /// the file has no token, or if others than its owner may read it.
  static absl::StatusOr<std::set<std::string>> ReadFile(const std::string& path);

  /// Reads the tokens of `store`; new tokens are written there. The store outlives this.
  /// Blocks.
  absl::Status Load(store::Store* store);

  bool open() const { return admin_tokens_.empty(); }
  /// The caller with the token `bearer` (empty: no token). UNAUTHENTICATED: TOKEN, TOKEN_EXPIRED.
  absl::StatusOr<Caller> Find(absl::string_view bearer, absl::Time now) const;

  /// OK while the token by which Find knew the caller is still valid. Errors as those of Find.
  absl::Status StillGood(const Caller& caller, absl::Time now) const;

  /// `done` is called once the token is stored. INVALID_ARGUMENT (TOKEN_SPEC).
  void Create(const v1::CreateTokenRequest& request, absl::Time now,
              Done<v1::CreateTokenResponse> done);
  /// Oldest first. INVALID_ARGUMENT (PAGE_SIZE, PAGE_TOKEN).
  absl::StatusOr<v1::ListTokensResponse> List(const v1::ListTokensRequest& request) const;
  /// Takes effect at once; `done` is called when the store has deleted the token. NOT_FOUND
  /// (TOKEN_NOT_FOUND).
  void Revoke(const std::string& id, Done<v1::RevokeTokenResponse> done);

 private:
  static absl::Status CheckExpiry(const v1::Token& token, absl::Time now);

  const std::set<std::string> admin_tokens_;
  store::Store* store_ = nullptr;
  mutable absl::Mutex mu_;
  std::map<std::string, store::v1::TokenRow> rows_ ABSL_GUARDED_BY(mu_);  // by id
};

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_TOKEN_TABLE_H_
