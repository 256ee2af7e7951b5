#include "sdk/rpc/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "sdk/base/utf8.h"

namespace baton {
namespace {

constexpr char kInfoUrl[] = "type.googleapis.com/baton.v1.ErrorInfo";
constexpr char kViolationsUrl[] = "type.googleapis.com/baton.v1.FieldViolations";

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

// The same error, small enough for trailers.
v1::Status Shortened(const absl::Status& status) {
  v1::Status out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(absl::StrCat(Cut(ReplaceInvalidUtf8(status.message()), kMaxMessage), " …"));
  if (const auto payload = status.GetPayload(kInfoUrl)) {
    v1::ErrorInfo info;
    info.ParseFromString(std::string(*payload));
    if (info.ByteSizeLong() > kMaxInfo) info.clear_metadata();
    auto* detail = out.add_details();
    detail->set_type_url(kInfoUrl);
    detail->set_value(info.SerializeAsString());
  }
  if (const auto payload = status.GetPayload(kViolationsUrl)) {
    v1::FieldViolations all;
    all.ParseFromString(std::string(*payload));
    auto* detail = out.add_details();
    detail->set_type_url(kViolationsUrl);
    detail->set_value(CutViolations(all).SerializeAsString());
  }
  return out;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata) {
  absl::Status status(code, message);
  v1::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("baton");
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  status.SetPayload(kInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

v1::FieldViolation Violation(const std::string& field, const std::string& description) {
  v1::FieldViolation violation;
  violation.set_field(field);
  violation.set_description(description);
  return violation;
}

absl::Status MakeSpecError(const std::vector<v1::FieldViolation>& violations) {
  std::string message = absl::StrCat("the spec has ", violations.size(),
                                     violations.size() == 1 ? " problem" : " problems");
  v1::FieldViolations all;
  for (const v1::FieldViolation& violation : violations) {
    absl::StrAppend(&message, "\n  ", violation.field(), ": ", violation.description());
    *all.add_violations() = violation;
  }
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "SPEC_INVALID", message);
  status.SetPayload(kViolationsUrl, absl::Cord(all.SerializeAsString()));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto payload = status.GetPayload(kInfoUrl);
  v1::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  return info.reason();
}

std::vector<v1::FieldViolation> ErrorViolations(const absl::Status& status) {
  const auto payload = status.GetPayload(kViolationsUrl);
  v1::FieldViolations all;
  if (!payload.has_value() || !all.ParseFromString(std::string(*payload))) return {};
  return {all.violations().begin(), all.violations().end()};
}

v1::Status ToProto(const absl::Status& status) {
  v1::Status out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(ReplaceInvalidUtf8(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    auto* detail = out.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(payload));
  });
  return out;
}

absl::Status FromProto(const v1::Status& status) {
  absl::Status out(static_cast<absl::StatusCode>(status.code()), status.message());
  for (const auto& detail : status.details()) {
    out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return out;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Status proto = ToProto(status);
  // The message is in the trailers twice, in the details as base64.
  if (EncodedSize(proto.message()) + proto.ByteSizeLong() * 4 / 3 > 7000) proto = Shortened(status);
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
