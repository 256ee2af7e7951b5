#include "sdk/common/rpc/guarded_service.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace baton {

absl::Status MethodGuard::CheckSize(size_t bytes) const {
  if (bytes <= max_bytes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
      absl::StrCat(method, ": the request has ", bytes, " bytes, of at most ", max_bytes,
                   "; leave out what is not needed, and put data into "
                   "files that the request names"),
      {{"max_bytes", absl::StrCat(max_bytes)}});
}

int MethodIndex(absl::string_view service, absl::string_view method) {
  const auto* const found = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrCat(service, ".", method));
  return found->index();
}

}  // namespace baton
