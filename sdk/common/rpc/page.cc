#include "sdk/common/rpc/page.h"

#include <algorithm>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

constexpr size_t kDigestDigits = 16;

absl::Status BadToken() {
  return MakeError(absl::StatusCode::kInvalidArgument, "PAGE_TOKEN",
                   "page_token is not one that this question gave; repeat the call with the "
                   "filters that the token came with, or begin without it");
}

bool IsHex(absl::string_view text) {
  return text.size() % 2 == 0 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

absl::StatusOr<Page> Page::Read(const google::protobuf::Message& request, int standard, int most) {
  const auto* const size = request.GetDescriptor()->FindFieldByName("page_size");
  const auto* const token = request.GetDescriptor()->FindFieldByName("page_token");
  if (size == nullptr || token == nullptr) {
    return absl::InternalError(absl::StrCat(request.GetTypeName(), " has no pages"));
  }
  const std::unique_ptr<google::protobuf::Message> question(request.New());
  question->CopyFrom(request);
  const auto* const fields = question->GetReflection();
  const int asked = fields->GetInt32(*question, size);
  const std::string given = fields->GetString(*question, token);
  fields->ClearField(question.get(), size);
  fields->ClearField(question.get(), token);
  if (asked < 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "PAGE_SIZE",
        absl::StrCat("page_size is ", asked, ", not 1 to ", most, " (0: ", standard, ")"));
  }
  Page page;
  page.size_ = asked == 0 ? standard : std::min(asked, most);
  page.question_ = absl::BytesToHexString(Sha256(absl::StrCat(request.GetTypeName(), "\n",
                                                              question->SerializeAsString())))
                       .substr(0, kDigestDigits);
  if (given.empty()) return page;
  const absl::string_view position =
      absl::string_view(given).substr(std::min(given.size(), kDigestDigits));
  const bool other = given.compare(0, kDigestDigits, page.question_) != 0;
  if (other || !IsHex(position)) return BadToken();
  page.first_ = false;
  page.after_ = absl::HexStringToBytes(position);
  return page;
}

absl::StatusOr<int64_t> Page::NumberAfter() const {
  int64_t number = 0;
  if (!absl::SimpleAtoi(after_, &number)) return BadToken();
  return number;
}

std::string Page::TokenAfter(absl::string_view position) const {
  return absl::StrCat(question_, absl::BytesToHexString(position));
}

std::string Page::TokenAfter(int64_t position) const { return TokenAfter(absl::StrCat(position)); }

}  // namespace baton
