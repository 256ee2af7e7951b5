// Errors across the wire: absl::Status with an ErrorInfo payload <-> gRPC status and
// baton.v1.Status. The one place where they are converted.
#ifndef BATON_SDK_COMMON_RPC_ERROR_H_
#define BATON_SDK_COMMON_RPC_ERROR_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "baton/v1/error.pb.h"
#include "grpcpp/support/status.h"

namespace baton {

/// A status whose reason programs can read. `reason` is UPPER_SNAKE_CASE and documented in
/// docs/errors.md; `metadata` holds the names and values the message speaks of.
[[nodiscard]] absl::Status MakeError(absl::StatusCode code, absl::string_view reason,
                                     absl::string_view message,
                                     const std::map<std::string, std::string>& metadata = {});

/// The problem of `field`, a path in the spec: "spec.algorithm.advantage.gamma".
v1::FieldViolation Violation(const std::string& field, const std::string& description);

/// SPEC_INVALID with every violation, one per line of the message.
[[nodiscard]] absl::Status MakeSpecError(const std::vector<v1::FieldViolation>& violations);

/// The reason of MakeError; empty when the status has none.
std::string ErrorReason(const absl::Status& status);

/// The violations of MakeSpecError; empty when the status has none.
std::vector<v1::FieldViolation> ErrorViolations(const absl::Status& status);

v1::Status ToProto(const absl::Status& status);
absl::Status FromProto(const v1::Status& status);

/// Fits into a call's trailers (gRPC takes 8 KiB of them): a longer message is cut, violations
/// beyond that are counted (ValidateJob answers all of them). Text that is not UTF-8 is replaced.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_ERROR_H_
