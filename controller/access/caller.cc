#include "controller/access/caller.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/common/rpc/error.h"

namespace baton::access {

const char* ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kRead:
      return "read";
    case Scope::kWrite:
      return "write";
    case Scope::kWorker:
      return "worker";
    case Scope::kAdmin:
      return "admin";
  }
  return "?";
}

absl::StatusOr<Scope> ParseScope(absl::string_view name) {
  for (const Scope scope : {Scope::kRead, Scope::kWrite, Scope::kWorker, Scope::kAdmin}) {
    if (name == ScopeName(scope)) return scope;
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, "TOKEN_SPEC",
      absl::StrCat("there is no scope '", name, "'; there are read, write, worker and admin"));
}

bool Caller::May(Scope scope) const {
  return scopes.count(scope) > 0 || scopes.count(Scope::kAdmin) > 0 ||
         (scope == Scope::kRead && scopes.count(Scope::kWrite) > 0);
}

bool ValidId(absl::string_view id) {
  return !id.empty() && id.size() <= 63 && id != "-" &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool ValidResource(absl::string_view resource) {
  if (!absl::ConsumePrefix(&resource, "projects/")) return false;
  const size_t end = std::min(resource.find('/'), resource.size());
  if (!ValidId(resource.substr(0, end))) return false;
  resource.remove_prefix(end);
  return resource.empty() || (absl::ConsumePrefix(&resource, "/jobs/") && ValidId(resource));
}

std::string ProjectOf(absl::string_view job) {
  constexpr absl::string_view kPrefix = "projects/";
  if (!absl::StartsWith(job, kPrefix)) return "";
  job.remove_prefix(kPrefix.size());
  return std::string(job.substr(0, job.find('/')));
}

}  // namespace baton::access
