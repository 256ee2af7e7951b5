#include "controller/access/token_table.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/rpc/page.h"

namespace baton::access {
namespace {

constexpr char kTokenTable[] = "tokens";  // id -> TokenRow
constexpr char kPrefix[] = "baton";
constexpr size_t kMaxNote = 200;
constexpr int kMostTokens = 1000;  // per page

absl::Status Unauthenticated(const std::string& reason, const std::string& message) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason, message);
}

// The id in "baton-ID-SECRET"; empty: not a token of this format.
std::string IdOf(absl::string_view bearer) {
  const std::vector<std::string> parts = absl::StrSplit(bearer, '-');
  return parts.size() == 3 && parts[0] == kPrefix ? parts[1] : "";
}

absl::Status Check(const v1::Token& token, const v1::CreateTokenRequest& request) {
  const auto wrong = [](const std::string& message) {
    return MakeError(absl::StatusCode::kInvalidArgument, "TOKEN_SPEC", message);
  };
  if (token.project() != "*" && !ValidId(token.project())) {
    return wrong(absl::StrCat("'", token.project(),
                              "' is not the name of a project: use a-z, 0-9 and '-', at most 63 "
                              "characters, or '*' for all"));
  }
  if (token.scopes().empty()) {
    return wrong("a token needs a scope: read, write, worker or admin");
  }
  for (const std::string& scope : token.scopes()) {
    BATON_RETURN_IF_ERROR(ParseScope(scope).status());
    if (scope == "admin" && token.project() != "*") {
      return wrong("the scope admin is for all projects: give project '*'");
    }
    if (scope == "worker" && request.project().empty()) {
      return wrong("say whose jobs the worker gets: a project, or '*' for all");
    }
  }
  if (token.note().size() > kMaxNote) {
    return wrong(absl::StrCat("the note is longer than ", kMaxNote, " bytes"));
  }
  if (request.has_lifetime() && request.lifetime().seconds() <= 0) {
    return wrong("a token's lifetime is at least a second");
  }
  return absl::OkStatus();
}

}  // namespace

TokenTable::TokenTable(std::set<std::string> admin_tokens)
    : admin_tokens_(std::move(admin_tokens)) {}

absl::StatusOr<std::set<std::string>> TokenTable::ReadFile(const std::string& path) {
  const absl::Status is_private = CheckPrivate("--token-file", path);
  if (absl::IsInvalidArgument(is_private)) return is_private;
  std::ifstream in(path);
  if (!in) {
    return absl::NotFoundError(
        absl::StrCat("token file ", path, " cannot be opened; write one token a line into it"));
  }
  std::set<std::string> tokens;
  for (std::string line; std::getline(in, line);) {
    const std::string token(absl::StripAsciiWhitespace(line));
    if (!token.empty() && token[0] != '#') {
      tokens.insert(token);
    }
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token file ", path, " holds no token; write one token a line into it"));
  }
  return tokens;
}

absl::Status TokenTable::Load(store::Store* store) {
  BATON_ASSIGN_OR_RETURN(const auto rows, store->Scan(kTokenTable, {}));
  absl::MutexLock lock(&mu_);
  store_ = store;
  for (const store::Row& row : rows) {
    store::v1::TokenRow token;
    if (!token.ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("row ", row.key, " of tokens is damaged"));
    }
    rows_[row.key] = std::move(token);
  }
  return absl::OkStatus();
}

absl::StatusOr<Caller> TokenTable::Find(absl::string_view bearer, absl::Time now) const {
  if (bearer.empty()) {
    if (open()) return Caller{"anyone", "*", {Scope::kAdmin}, /*kept=*/false};
    return Unauthenticated("TOKEN", "this controller asks for a token; give --token-file");
  }
  for (const std::string& token : admin_tokens_) {
    if (SameSecret(token, bearer)) return Caller{"file", "*", {Scope::kAdmin}, /*kept=*/false};
  }
  absl::MutexLock lock(&mu_);
  const auto row = rows_.find(IdOf(bearer));
  if (row == rows_.end() || !SameSecret(row->second.sha256(), Sha256(bearer))) {
    return Unauthenticated("TOKEN", "this token is not known to the controller");
  }
  const v1::Token& token = row->second.token();
  BATON_RETURN_IF_ERROR(CheckExpiry(token, now));
  Caller caller{token.token_id(), token.project(), {}, /*kept=*/true};
  for (const std::string& name : token.scopes()) {
    const auto scope = ParseScope(name);
    if (scope.ok()) caller.scopes.insert(*scope);  // a scope of a later release allows nothing here
  }
  return caller;
}

absl::Status TokenTable::CheckExpiry(const v1::Token& token, absl::Time now) {
  const auto expires = FromProto(token.expire_time());
  if (!token.has_expire_time() || expires > now) {
    return absl::OkStatus();
  }
  return Unauthenticated(
      "TOKEN_EXPIRED",
      absl::StrCat("token ", token.token_id(), " has expired; ask an administrator for a new one"));
}

absl::Status TokenTable::StillGood(const Caller& caller, absl::Time now) const {
  if (!caller.kept) return absl::OkStatus();
  absl::MutexLock lock(&mu_);
  const auto row = rows_.find(caller.name);
  if (row == rows_.end()) {
    return Unauthenticated("TOKEN", absl::StrCat("token ", caller.name, " was revoked"));
  }
  return CheckExpiry(row->second.token(), now);
}

void TokenTable::Create(const v1::CreateTokenRequest& request, absl::Time now,
                        Done<v1::CreateTokenResponse> done) {
  store::v1::TokenRow row;
  v1::Token& token = *row.mutable_token();
  const auto id_digits = RandomHex(6), secret = RandomHex(20);
  if (!id_digits.ok()) return done(id_digits.status());
  if (!secret.ok()) return done(secret.status());
  token.set_token_id(*id_digits);
  token.set_note(request.note());
  token.set_project(request.project().empty() ? "default" : request.project());
  *token.mutable_scopes() = request.scopes();
  *token.mutable_create_time() = ToProtoSeconds(now);
  if (request.has_lifetime()) {
    *token.mutable_expire_time() =
        ToProtoSeconds(now + absl::Seconds(request.lifetime().seconds()));
  }
  if (const absl::Status status = Check(token, request); !status.ok()) return done(status);
  v1::CreateTokenResponse answer;
  answer.set_secret(absl::StrCat(kPrefix, "-", token.token_id(), "-", *secret));
  *answer.mutable_token() = token;
  row.set_sha256(Sha256(answer.secret()));
  const std::string id = token.token_id();
  store_->Commit({{kTokenTable, id, row.SerializeAsString()}},
                 [this, row, id, answer, done](const absl::Status& status) {
                   if (!status.ok()) return done(status);
                   {
                     absl::MutexLock lock(&mu_);
                     rows_[id] = row;
                   }
                   done(answer);
                 });
}

absl::StatusOr<v1::ListTokensResponse> TokenTable::List(
    const v1::ListTokensRequest& request) const {
  BATON_ASSIGN_OR_RETURN(const Page page, Page::Read(request, kMostTokens, kMostTokens));
  std::map<std::string, v1::Token> sorted;  // by creation time, then by id
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [id, row] : rows_) {
      const auto made = static_cast<uint64_t>(row.token().create_time().seconds());
      sorted[absl::StrCat(absl::Hex(made, absl::kZeroPad16), id)] = row.token();
    }
  }
  v1::ListTokensResponse answer;
  std::string last;
  for (auto it = sorted.upper_bound(page.after()); it != sorted.end(); ++it) {
    if (answer.tokens_size() == page.size()) {
      answer.set_next_page_token(page.TokenAfter(last));
      break;
    }
    *answer.add_tokens() = it->second;
    last = it->first;
  }
  return answer;
}

void TokenTable::Revoke(const std::string& id, Done<v1::RevokeTokenResponse> done) {
  bool known = false;
  {
    absl::MutexLock lock(&mu_);
    known = rows_.erase(id) > 0;
  }
  if (!known) {
    return done(MakeError(absl::StatusCode::kNotFound, "TOKEN_NOT_FOUND",
                          absl::StrCat("there is no token '", id, "'; `baton token list`")));
  }
  store_->Commit({{kTokenTable, id, std::nullopt}}, [done](const absl::Status& status) {
    done(status.ok() ? absl::StatusOr<v1::RevokeTokenResponse>(v1::RevokeTokenResponse())
                     : absl::StatusOr<v1::RevokeTokenResponse>(status));
  });
}

}  // namespace baton::access
