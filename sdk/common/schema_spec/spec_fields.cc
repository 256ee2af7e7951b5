#include "sdk/common/schema_spec/spec_fields.h"

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Value;

const FieldDescriptor* FieldOf(const Message& message, absl::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr || field->is_repeated()) return nullptr;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_STRING:
      return field;
    default:
      return nullptr;
  }
}

}  // namespace

bool HasOptionField(const Message& message, absl::string_view name) {
  return FieldOf(message, name) != nullptr;
}

std::optional<OptionValue> GetField(const Message& message, absl::string_view name) {
  const FieldDescriptor* field = FieldOf(message, name);
  const auto* reflection = message.GetReflection();
  if (field == nullptr || !reflection->HasField(message, field)) return std::nullopt;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_INT32:
      return static_cast<double>(reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection->GetInt64(message, field));
    default:
      return reflection->GetString(message, field);
  }
}

void SetField(absl::string_view name, const OptionValue& value, Message* message) {
  const FieldDescriptor* field = FieldOf(*message, name);
  const auto* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, field, std::get<bool>(value));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(message, field, std::get<double>(value));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, static_cast<int32_t>(std::get<double>(value)));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, field, static_cast<int64_t>(std::get<double>(value)));
    default:
      return reflection->SetString(message, field, std::get<std::string>(value));
  }
}

absl::StatusOr<Options> ToOptions(const google::protobuf::Struct& options) {
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

void SetOption(absl::string_view name, const OptionValue& value,
               google::protobuf::Struct* options) {
  Value& field = (*options->mutable_fields())[std::string(name)];
  if (const auto* flag = std::get_if<bool>(&value)) field.set_bool_value(*flag);
  if (const auto* number = std::get_if<double>(&value)) field.set_number_value(*number);
  if (const auto* text = std::get_if<std::string>(&value)) field.set_string_value(*text);
}

}  // namespace baton
