// Fields of a spec's messages, by their names, as values of options.
#ifndef BATON_SDK_COMMON_SCHEMA_SPEC_SPEC_FIELDS_H_
#define BATON_SDK_COMMON_SCHEMA_SPEC_SPEC_FIELDS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"
#include "sdk/common/schema/options.h"

namespace baton {

/// Whether messages of this type have a field `name` that holds one value of an option.
bool HasOptionField(const google::protobuf::Message& message, absl::string_view name);

/// The value of the field `name`; none: it is absent, or there is no such field.
std::optional<OptionValue> GetField(const google::protobuf::Message& message,
                                    absl::string_view name);

/// Sets the field `name`, which there is and whose type is the value's. A number is rounded
/// towards zero where the field holds integers.
void SetField(absl::string_view name, const OptionValue& value, google::protobuf::Message* message);

/// Members of `spec` become the values of the fields that `message` has.
template <class Spec>
void ReadFields(const std::vector<OptionField<Spec>>& table,
                const google::protobuf::Message& message, Spec* spec) {
  for (const auto& row : table) {
    if (const auto value = GetField(message, row.name)) SetMember(row, *value, *spec);
  }
}

/// A graph's options. InvalidArgument names one that is neither a number, true or false, nor a
/// text.
absl::StatusOr<Options> ToOptions(const google::protobuf::Struct& options);

void SetOption(absl::string_view name, const OptionValue& value, google::protobuf::Struct* options);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_SPEC_SPEC_FIELDS_H_
