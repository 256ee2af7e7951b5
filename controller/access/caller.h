// The caller of a method, and the caller's permissions.
#ifndef BATON_CONTROLLER_ACCESS_CALLER_H_
#define BATON_CONTROLLER_ACCESS_CALLER_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::access {

/// Permissions of a token. kWrite includes kRead, kAdmin includes all.
enum class Scope : uint8_t {
  kRead,    ///< See jobs and their results.
  kWrite,   ///< Submit, steer and delete jobs; upload files.
  kWorker,  ///< Attach as a worker and fetch batches, for the token's project or all.
  kAdmin,   ///< Tokens, projects, drains; everything.
};

const char* ScopeName(Scope scope);
/// InvalidArgument names the four scopes.
absl::StatusOr<Scope> ParseScope(absl::string_view name);

struct Caller {
  std::string name;           ///< For the audit log: a token's id, "file", or "anyone".
  std::string project = "*";  ///< The only project that the caller may touch; "*": all.
  std::set<Scope> scopes;
  bool kept = false;  ///< The token is in the table, so it may be revoked or expire.

  bool May(Scope scope) const;
  bool Opens(absl::string_view other) const { return project == "*" || project == other; }
};

/// True if a text is the id of a job or a project: 1 to 63 of a-z, 0-9 and '-', but not "-" alone,
/// which means all projects.
bool ValidId(absl::string_view id);

/// True if a text is "projects/P" or "projects/P/jobs/J" with valid ids, and nothing else.
bool ValidResource(absl::string_view resource);

/// The project of "projects/P/jobs/J"; empty for any other text.
std::string ProjectOf(absl::string_view job);

}  // namespace baton::access

#endif  // BATON_CONTROLLER_ACCESS_CALLER_H_
