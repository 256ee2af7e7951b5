#include "controller/api/access.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::api {
namespace {

constexpr char kNoToken[] = " ";  // no token is equal to this

// The caller's token; empty: none.
std::string BearerOf(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  if (it == metadata.end()) return "";
  absl::string_view value(it->second.data(), it->second.size());
  return absl::ConsumePrefix(&value, "Bearer ") ? std::string(value) : kNoToken;
}

absl::Status Refusal(const Asked& asked, const Granted& granted) {
  const access::Caller& caller = granted.caller;
  if (!caller.May(asked.scope)) {
    return MakeError(
        absl::StatusCode::kPermissionDenied, "SCOPE",
        absl::StrCat(asked.method, " asks for the scope '", access::ScopeName(asked.scope),
                     "', which token ", caller.name, " does not have"));
  }
  const bool named = asked.about_jobs && !asked.resource.empty();
  if (named && !access::ValidResource(granted.resource)) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "NAME_INVALID",
        absl::StrCat("'", granted.resource, "' is not projects/PROJECT or ",
                     "projects/PROJECT/jobs/JOB, each 1-63 characters of a-z, 0-9 ", "and '-'"));
  }
  if (named && !caller.Opens(granted.project)) {
    return MakeError(absl::StatusCode::kPermissionDenied, "PROJECT",
                     absl::StrCat("token ", caller.name, " is for project ", caller.project,
                                  ", not for ", granted.project));
  }
  return absl::OkStatus();
}

}  // namespace

Access Access::WithConnectionTables(std::vector<std::shared_ptr<ConnectionTable>> tables) const {
  Access with = *this;
  with.tables_ = std::move(tables);
  return with;
}

absl::Status Access::Know(const grpc::ServerContextBase& context,
                          const access::Caller& caller) const {
  if (tables_.empty()) return absl::OkStatus();
  const std::string peer = context.peer();
  for (const auto& table : tables_) {
    BATON_RETURN_IF_ERROR(table->Know(peer, caller.project, caller.May(access::Scope::kWorker)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Granted> Access::Check(const grpc::ServerContextBase& context,
                                      const Asked& asked) const {
  Granted granted;
  granted.method = asked.method;
  granted.resource = asked.resource;
  granted.changes = asked.scope != access::Scope::kRead && asked.scope != access::Scope::kWorker;
  if (audit_ != nullptr) granted.peer = context.peer();
  auto caller = tokens_->Find(BearerOf(context), absl::Now());
  absl::Status refused = caller.status();
  const bool known = caller.ok();
  if (caller.ok()) {
    granted.caller = *std::move(caller);
    const std::string own =
        granted.caller.project == "*" ? std::string("default") : granted.caller.project;
    if (asked.resource.empty() || !asked.about_jobs) {
      granted.project = granted.caller.project;
    } else if (absl::StartsWith(asked.resource, "projects/")) {
      granted.project = access::ProjectOf(asked.resource);
    } else {
      granted.project = own;
      granted.resource = absl::StrCat("projects/", own, "/jobs/", asked.resource);
    }
    refused = Refusal(asked, granted);
    if (refused.ok()) refused = Know(context, granted.caller);
  }
  if (refused.ok()) return granted;
  if (granted.caller.name.empty()) granted.caller.name = "unknown";
  granted.changes = true;
  if (!known && audit_ != nullptr) {
    audit_->WriteUnknown({absl::Now(), granted.caller.name, granted.peer, granted.method,
                          granted.resource, refused});
  } else {
    Ended(granted, refused);
  }
  return refused;
}

absl::Status Access::CheckCaller(const grpc::ServerContextBase& context,
                                 const std::string& method) const {
  const auto caller = tokens_->Find(BearerOf(context), absl::Now());
  if (!caller.ok() && audit_ != nullptr) {
    audit_->WriteUnknown(
        {absl::Now(), "unknown", std::string(context.peer()), method, "", caller.status()});
  }
  return caller.ok() ? Know(context, *caller) : caller.status();
}

bool Access::KnowsCaller(const grpc::ServerContextBase& context) const {
  return tokens_->Find(BearerOf(context), absl::Now()).ok();
}

void Access::Ended(const Granted& granted, const absl::Status& outcome) const {
  if (audit_ == nullptr || !granted.changes) return;
  audit_->Write(
      {absl::Now(), granted.caller.name, granted.peer, granted.method, granted.resource, outcome});
}

}  // namespace baton::api
