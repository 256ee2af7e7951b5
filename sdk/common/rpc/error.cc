#include "sdk/common/rpc/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/utf8.h"

namespace baton {
namespace {

constexpr char kInfoUrl[] = "type.googleapis.com/baton.v1.ErrorInfo";
constexpr char kViolationsUrl[] = "type.googleapis.com/baton.v1.FieldViolations";

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

}  // namespace baton
