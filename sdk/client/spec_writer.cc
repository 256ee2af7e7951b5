#include "sdk/client/spec_writer.h"

#include <array>
#include <charconv>
#include <map>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"
#include "sdk/client/enum_name.h"
#include "yaml-cpp/yaml.h"
namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The fewest digits that read back as the same number.
std::string ShortestDouble(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

void EmitMessage(const Message& message, YAML::Emitter& out);

// Writes a value that FillValue reads back as the same.
void EmitValue(const google::protobuf::Value& value, YAML::Emitter& out) {
  using google::protobuf::Value;
  switch (value.kind_case()) {
    case Value::kNumberValue:
      out << ShortestDouble(value.number_value());
      break;
    case Value::kBoolValue:
      out << value.bool_value();
      break;
    case Value::kStringValue:
      out << YAML::DoubleQuoted << value.string_value();
      break;
    case Value::kListValue:
      out << YAML::BeginSeq;
      for (const Value& element : value.list_value().values()) EmitValue(element, out);
      out << YAML::EndSeq;
      break;
    case Value::kStructValue:
      EmitMessage(value.struct_value(), out);
      break;
    default:
      out << YAML::Null;
  }
}

// The field, or its element `index` where that is not negative.
void EmitField(const Message& message, const FieldDescriptor* field, int index,
               YAML::Emitter& out) {
  const Reflection* reflection = message.GetReflection();
  const bool at = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      out << (at ? reflection->GetRepeatedString(message, field, index)
                 : reflection->GetString(message, field));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      out << reflection->GetBool(message, field);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out << ShortestDouble(reflection->GetDouble(message, field));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      out << reflection->GetInt32(message, field);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      out << reflection->GetInt64(message, field);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      out << ShortName(field->enum_type(), reflection->GetEnum(message, field)->name());
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      EmitMessage(at ? reflection->GetRepeatedMessage(message, field, index)
                     : reflection->GetMessage(message, field),
                  out);
      break;
    default:
      out << "?";
  }
}

// By key, so that the same spec is the same text.
void EmitMap(const Message& message, const FieldDescriptor* field, YAML::Emitter& out) {
  const Reflection* reflection = message.GetReflection();
  std::map<std::string, const Message*> entries;
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    const FieldDescriptor* key = entry.GetDescriptor()->map_key();
    entries[entry.GetReflection()->GetString(entry, key)] = &entry;
  }
  out << YAML::BeginMap;
  for (const auto& [key, entry] : entries) {
    out << YAML::Key << key << YAML::Value;
    EmitField(*entry, entry->GetDescriptor()->map_value(), -1, out);
  }
  out << YAML::EndMap;
}

void EmitMessage(const Message& message, YAML::Emitter& out) {
  if (const auto* value = dynamic_cast<const google::protobuf::Value*>(&message)) {
    return EmitValue(*value, out);
  }
  const Reflection* reflection = message.GetReflection();
  if (const auto* object = dynamic_cast<const google::protobuf::Struct*>(&message)) {
    return EmitMap(message, object->GetDescriptor()->FindFieldByName("fields"), out);
  }
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  out << YAML::BeginMap;
  for (const FieldDescriptor* field : fields) {
    out << YAML::Key << field->name() << YAML::Value;
    if (field->is_map()) {
      EmitMap(message, field, out);
    } else if (field->is_repeated()) {
      out << YAML::BeginSeq;
      for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
        EmitField(message, field, i, out);
      }
      out << YAML::EndSeq;
    } else {
      EmitField(message, field, -1, out);
    }
  }
  out << YAML::EndMap;
}

}  // namespace

std::string SpecToYaml(const v1::JobSpec& spec) {
  YAML::Emitter out;
  EmitMessage(spec, out);
  return std::string(out.c_str()) + "\n";
}

}  // namespace baton
