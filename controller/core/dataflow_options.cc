#include "controller/core/dataflow_options.h"

#include "absl/strings/str_cat.h"

namespace baton::controller {

absl::StatusOr<Options> ToOptions(const google::protobuf::Struct& options) {
  using google::protobuf::Value;
  Options out;
  for (const auto& [name, value] : options.fields()) {
    switch (value.kind_case()) {
      case Value::kNumberValue:
        out[name] = value.number_value();
        break;
      case Value::kBoolValue:
        out[name] = value.bool_value();
        break;
      case Value::kStringValue:
        out[name] = value.string_value();
        break;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": is neither a number, true or false, nor a text"));
    }
  }
  return out;
}

}  // namespace baton::controller
