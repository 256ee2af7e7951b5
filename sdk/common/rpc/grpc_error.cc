// Errors of calls: how an absl::Status goes through a gRPC status.
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

// Shares of the trailers. The message is percent-encoded, the details are base64.
constexpr size_t kMaxMessage = 2400;
constexpr size_t kMaxInfo = 1000;
constexpr size_t kMaxViolations = 2400;

bool IsPlain(char c) { return c >= 0x20 && c <= 0x7e && c != '%'; }

size_t EncodedSize(absl::string_view text) {
  size_t size = 0;
  for (const char c : text) size += IsPlain(c) ? 1 : 3;
  return size;
}

// The longest beginning that fits, whole characters.
std::string Cut(absl::string_view text, size_t encoded) {
  size_t bytes = 0;
  for (size_t size = 0; bytes < text.size(); ++bytes) {
    size += IsPlain(text[bytes]) ? 1 : 3;
    if (size > encoded) break;
  }
  return std::string(text.substr(0, ValidUtf8Prefix(text.substr(0, bytes))));
}

v1::FieldViolations CutViolations(const v1::FieldViolations& all) {
  v1::FieldViolations kept;
  for (const v1::FieldViolation& violation : all.violations()) {
    if (kept.ByteSizeLong() + violation.ByteSizeLong() > kMaxViolations) break;
    *kept.add_violations() = violation;
  }
  const int more = all.violations_size() - kept.violations_size();
  if (more > 0) {
    kept.add_violations()->set_description(
        absl::StrCat("… and ", more, " more; ValidateJob lists all of them"));
  }
  return kept;
}

// The error, cut to fit into trailers.
v1::Status Shortened(const v1::Status& status) {
  v1::Status out;
  out.set_code(status.code());
  out.set_message(absl::StrCat(Cut(status.message(), kMaxMessage), " …"));
  for (const auto& detail : status.details()) {
    v1::ErrorInfo info;
    v1::FieldViolations all;
    if (detail.Is<v1::RetryInfo>()) {
      *out.add_details() = detail;
    } else if (detail.UnpackTo(&info)) {
      if (info.ByteSizeLong() > kMaxInfo) info.clear_metadata();
      out.add_details()->PackFrom(info);
    } else if (detail.UnpackTo(&all)) {
      out.add_details()->PackFrom(CutViolations(all));
    }
  }
  return out;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Status proto = ToProto(status);
  // The message is in the trailers twice, in the details as base64.
  if (EncodedSize(proto.message()) + proto.ByteSizeLong() * 4 / 3 > 7000) proto = Shortened(proto);
  const std::string message = proto.message();
  if (EncodedSize(message) > 1000) proto.clear_message();  // see FromGrpc
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      proto.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details()) &&
      details.code() == status.error_code()) {
    if (details.message().empty()) details.set_message(status.error_message());
    return FromProto(details);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace baton
