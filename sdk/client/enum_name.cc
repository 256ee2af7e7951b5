#include "sdk/client/enum_name.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace baton {

std::string ShortName(const google::protobuf::EnumDescriptor* type, const std::string& value) {
  std::string prefix;
  for (char c : type->name()) {
    if (std::isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix += '_';
    prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  prefix += '_';
  return absl::AsciiStrToLower(absl::StartsWith(value, prefix) ? value.substr(prefix.size())
                                                               : value);
}

}  // namespace baton
