// Early returns for absl::Status and absl::StatusOr.
//
//   BATON_RETURN_IF_ERROR(expr);             // expr yields absl::Status
//   BATON_ASSIGN_OR_RETURN(auto x, expr);    // expr yields absl::StatusOr<T>
//
// Both evaluate `expr` once. Use them only in functions that return Status or StatusOr.
#ifndef BATON_SDK_COMMON_BASE_STATUS_MACROS_H_
#define BATON_SDK_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

/// The same status with `context` and a colon put before its message; OK stays OK.
/// Payloads are kept.
[[nodiscard]] inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status out(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

}  // namespace baton

#define BATON_CONCAT_INNER_(a, b) a##b
#define BATON_CONCAT_(a, b) BATON_CONCAT_INNER_(a, b)

#define BATON_RETURN_IF_ERROR(expr)                                                       \
  do {                                                                                    \
    if (::absl::Status baton_status_ = (expr); !baton_status_.ok()) return baton_status_; \
  } while (false)

#define BATON_ASSIGN_OR_RETURN(lhs, expr) \
  BATON_ASSIGN_OR_RETURN_(BATON_CONCAT_(baton_statusor_, __LINE__), lhs, expr)
#define BATON_ASSIGN_OR_RETURN_(var, lhs, expr)  \
  auto var = (expr);                             \
  if (!var.ok()) return std::move(var).status(); \
  lhs = *std::move(var)

#endif  // BATON_SDK_COMMON_BASE_STATUS_MACROS_H_
