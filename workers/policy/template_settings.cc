#include "workers/policy/template_settings.h"

#include <cmath>
#include <cstdint>
#include <ctime>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace baton::policy {
namespace {

using google::protobuf::Value;

constexpr double kMostExact = 9007199254740992.0;  // 2^53: every integer up to it is a double

nlohmann::json ToJson(const google::protobuf::Struct& object);

nlohmann::json ToJson(const Value& value) {
  switch (value.kind_case()) {
    case Value::kNumberValue: {
      const double number = value.number_value();
      const bool whole = std::trunc(number) == number && std::fabs(number) <= kMostExact;
      return whole ? nlohmann::json(static_cast<int64_t>(number)) : nlohmann::json(number);
    }
    case Value::kStringValue:
      return value.string_value();
    case Value::kBoolValue:
      return value.bool_value();
    case Value::kStructValue:
      return ToJson(value.struct_value());
    case Value::kListValue: {
      nlohmann::json list = nlohmann::json::array();
      for (const Value& item : value.list_value().values()) list.push_back(ToJson(item));
      return list;
    }
    default:
      return nullptr;
  }
}

nlohmann::json ToJson(const google::protobuf::Struct& object) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [key, value] : object.fields()) out[key] = ToJson(value);
  return out;
}

}  // namespace

tokenizer::TemplateSettings TemplateSettingsOf(const v1::ModelSpec& spec) {
  tokenizer::TemplateSettings out;
  if (!spec.chat_template_kwargs().fields().empty()) {
    out.kwargs_json = ToJson(spec.chat_template_kwargs())
                          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  out.date = spec.chat_template_date();
  return out;
}

std::string TemplateDateOfToday() {
  return absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(std::time(nullptr)),
                          absl::UTCTimeZone());
}

}  // namespace baton::policy
