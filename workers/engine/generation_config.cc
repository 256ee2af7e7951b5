#include "workers/engine/generation_config.h"

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/json_fields.h"
#include "workers/engine/small_file.h"

namespace baton::engine {
namespace {

constexpr char kFile[] = "generation_config.json";
constexpr size_t kMaxFileBytes = size_t{16} << 20;

absl::Status ReadId(const Json& root, const char* key, std::optional<int32_t>* out) {
  const Json* field = FindField(root, key);
  if (field == nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const int64_t id,
                         IntegerValue(*field, -1, INT32_MAX, absl::StrCat(kFile, ".", key)));
  if (id >= 0) *out = static_cast<int32_t>(id);  // -1 is how some files say "none"
  return absl::OkStatus();
}

absl::Status ReadEosIds(const Json& root, std::vector<int32_t>* out) {
  const Json* field = FindField(root, "eos_token_id");
  if (field == nullptr) return absl::OkStatus();
  const std::string where = absl::StrCat(kFile, ".eos_token_id");
  const Json list = field->is_array() ? *field : Json::array({*field});
  for (const Json& item : list) {
    BATON_ASSIGN_OR_RETURN(const int64_t id, IntegerValue(item, 0, INT32_MAX, where));
    out->push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ReadNumber(const Json& root, const char* key, double low, double high,
                        std::optional<double>* out) {
  const Json* field = FindField(root, key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_number()) return WrongType(kFile, key, "a number", *field);
  const double value = field->get<double>();
  if (!(value >= low && value <= high)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFile, ".", key, ": ", value, " is not in [", low, ", ", high, "]"));
  }
  *out = value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationConfig> GenerationConfig::FromJson(absl::string_view json) {
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(json, kFile));
  GenerationConfig out;
  BATON_RETURN_IF_ERROR(ReadEosIds(root, &out.eos_token_ids));
  BATON_RETURN_IF_ERROR(ReadId(root, "bos_token_id", &out.bos_token_id));
  BATON_RETURN_IF_ERROR(ReadId(root, "pad_token_id", &out.pad_token_id));
  if (FindField(root, "do_sample") != nullptr) {
    BATON_ASSIGN_OR_RETURN(out.do_sample, BoolField(root, "do_sample", false, kFile));
  }
  BATON_RETURN_IF_ERROR(ReadNumber(root, "temperature", 0, 1e6, &out.temperature));
  BATON_RETURN_IF_ERROR(ReadNumber(root, "top_p", 0, 1, &out.top_p));
  if (const Json* field = FindField(root, "top_k")) {
    BATON_ASSIGN_OR_RETURN(out.top_k,
                           IntegerValue(*field, 0, INT32_MAX, absl::StrCat(kFile, ".top_k")));
  }
  return out;
}

absl::StatusOr<GenerationConfig> GenerationConfig::Load(const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(const std::string text,
                         ReadSmallFile(absl::StrCat(dir, "/", kFile), kMaxFileBytes));
  auto config = FromJson(text);
  if (!config.ok()) return Annotate(config.status(), dir);
  return config;
}

std::string GenerationConfig::ToJson() const {
  Json root = Json::object();
  if (eos_token_ids.size() == 1) root["eos_token_id"] = eos_token_ids[0];
  if (eos_token_ids.size() > 1) root["eos_token_id"] = eos_token_ids;
  if (bos_token_id.has_value()) root["bos_token_id"] = *bos_token_id;
  if (pad_token_id.has_value()) root["pad_token_id"] = *pad_token_id;
  if (do_sample.has_value()) root["do_sample"] = *do_sample;
  if (temperature.has_value()) root["temperature"] = *temperature;
  if (top_p.has_value()) root["top_p"] = *top_p;
  if (top_k.has_value()) root["top_k"] = *top_k;
  return root.dump(2) + "\n";
}

absl::Status GenerationConfig::Save(const std::string& dir) const {
  return WriteSmallFile(absl::StrCat(dir, "/", kFile), ToJson());
}

}  // namespace baton::engine
