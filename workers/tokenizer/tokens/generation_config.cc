#include "workers/tokenizer/tokens/generation_config.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "relay/weights/file_io.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"

namespace baton::tokenizer {
namespace {

constexpr char kGenerationConfig[] = "generation_config.json";
constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

absl::Status ReadId(const Json& root, const char* key, const std::string& file,
                    std::optional<int32_t>* out) {
  const Json* field = FindField(root, key);
  if (field == nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const int64_t id,
                         IntegerValue(*field, -1, INT32_MAX, absl::StrCat(file, ".", key)));
  if (id >= 0) *out = static_cast<int32_t>(id);  // -1 is how some files say "none"
  return absl::OkStatus();
}

absl::Status ReadEosIds(const Json& root, const std::string& file, std::vector<int32_t>* out) {
  const Json* field = FindField(root, "eos_token_id");
  if (field == nullptr) return absl::OkStatus();
  const std::string where = absl::StrCat(file, ".eos_token_id");
  const Json list = field->is_array() ? *field : Json::array({*field});
  for (const Json& item : list) {
    BATON_ASSIGN_OR_RETURN(const int64_t id, IntegerValue(item, -1, INT32_MAX, where));
    if (id >= 0) out->push_back(static_cast<int32_t>(id));  // -1 is how some files say "none"
  }
  return absl::OkStatus();
}

absl::Status ReadNumber(const Json& root, const char* key, const std::string& file, double low,
                        double high, std::optional<double>* out) {
  const Json* field = FindField(root, key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_number()) return WrongType(file, key, "a number", *field);
  const double value = field->get<double>();
  if (!(value >= low && value <= high)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ".", key, ": ", value, " is not in [", low, ", ", high, "]"));
  }
  *out = value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationConfig> GenerationConfig::FromJson(absl::string_view json,
                                                            const std::string& file) {
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(json, file));
  GenerationConfig out;
  BATON_RETURN_IF_ERROR(ReadEosIds(root, file, &out.eos_token_ids));
  BATON_RETURN_IF_ERROR(ReadId(root, "bos_token_id", file, &out.bos_token_id));
  BATON_RETURN_IF_ERROR(ReadId(root, "pad_token_id", file, &out.pad_token_id));
  if (FindField(root, "do_sample") != nullptr) {
    BATON_ASSIGN_OR_RETURN(out.do_sample, BoolField(root, "do_sample", false, file));
  }
  BATON_RETURN_IF_ERROR(ReadNumber(root, "temperature", file, 0, 1e6, &out.temperature));
  BATON_RETURN_IF_ERROR(
      ReadNumber(root, "top_p", file, std::numeric_limits<double>::min(), 1, &out.top_p));
  if (const Json* field = FindField(root, "top_k")) {
    BATON_ASSIGN_OR_RETURN(out.top_k,
                           IntegerValue(*field, 0, INT32_MAX, absl::StrCat(file, ".top_k")));
  }
  return out;
}

absl::StatusOr<GenerationConfig> GenerationConfig::Load(const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(
      const std::string text,
      relay::ReadFile(absl::StrCat(dir, "/", kGenerationConfig), kMaxConfigBytes));
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
  return relay::WriteFileAtomically(absl::StrCat(dir, "/", kGenerationConfig), ToJson());
}

}  // namespace baton::tokenizer
