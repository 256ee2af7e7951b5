// Parsing of the target of an HTTP request.
#ifndef BATON_CONTROLLER_STATUS_REQUEST_TARGET_H_
#define BATON_CONTROLLER_STATUS_REQUEST_TARGET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::status {

/// "/api/v1/jobs/a%20b?after=3" -> {"api", "v1", "jobs", "a b"}, {after: "3"}.
struct RequestTarget {
  std::vector<std::string> path;  ///< Without empty segments.
  std::map<std::string, std::string> query;

  /// InvalidArgument: it does not begin with '/', or has a broken %-escape, a control character
  /// or bytes that are not UTF-8.
  static absl::StatusOr<RequestTarget> Parse(absl::string_view target);

  /// The parameter's text, or empty.
  std::string Text(const std::string& name) const;
  /// The parameter as a whole number in [min, max]; `fallback` if it is absent.
  absl::StatusOr<int64_t> Number(const std::string& name, int64_t min, int64_t max,
                                 int64_t fallback) const;
};

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_REQUEST_TARGET_H_
