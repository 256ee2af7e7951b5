#include "workers/tokenizer/tokens/class_warning.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "sdk/common/schema/json_fields.h"

namespace baton::tokenizer {
namespace {

struct ClassRow {
  const char* name;
  const char* settings;  // of tokenizer_config.json, as JSON
  const char* steps;     // tokenizer.json without what the class takes from the file
};
struct TypeRow {
  const char* model_type;
  const char* registered;  // the class that transformers has for it
  bool beats_folder;       // even where the folder names another
};

#include "workers/tokenizer/tokens/class_table.inc"

constexpr const char* kGeneric[] = {"", "TokenizersBackend", "PythonBackend", "PreTrainedTokenizer",
                                    "MistralCommonBackend"};
constexpr const char* kSamples[] = {"Hello, world!",
                                    "The answer is 1234567.",
                                    "It's John's; they're not we'LL.",
                                    " two  spaces   here",
                                    "def f(x):\n\treturn x\n\n\n",
                                    "x = 3.14 * (a + b)",
                                    "naïve café",
                                    "日本語の文です。",
                                    "Привет, мир",
                                    "한국어 문장",
                                    "नमस्ते दुनिया",
                                    "1+2=3",
                                    "https://example.com/a_b?c=1&d=2"};
constexpr size_t kShownIds = 12;

Json ParseOrEmpty(absl::string_view text) {
  if (NestingOf(text) > kMaxNesting) return Json::object();
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::string StringOrEmpty(const Json& root, const char* key) {
  const Json* field = FindField(root, key);
  return field != nullptr && field->is_string() ? field->get<std::string>() : "";
}

bool IsTrue(const Json& root, const char* key) {
  const Json* field = FindField(root, key);
  return field != nullptr && *field == true;
}

std::string WithoutFast(absl::string_view name) {
  absl::ConsumeSuffix(&name, "Fast");
  return std::string(name);
}

bool IsGeneric(const std::string& name) {
  return std::any_of(std::begin(kGeneric), std::end(kGeneric),
                     [&](const char* generic) { return name == generic; });
}

bool IsKnown(const std::string& name) {
  return std::any_of(std::begin(kKnownClasses), std::end(kKnownClasses),
                     [&](const char* known) { return name == known; });
}

bool HasByteLevel(const Json& step) {
  if (step.is_array()) return std::any_of(step.begin(), step.end(), HasByteLevel);
  if (!step.is_object()) return false;
  if (StringOrEmpty(step, "type") == "ByteLevel") return true;
  const Json* parts = FindField(step, "pretokenizers");
  return parts != nullptr && HasByteLevel(*parts);
}

// AutoTokenizer.from_pretrained of transformers 5.24: the class for a folder; "": tokenizer.json's.
std::string AutoClass(const Json& tokenizer, const Json& tokenizer_config, const Json& config) {
  const Json* auto_map = FindField(tokenizer_config, "auto_map");
  if (auto_map != nullptr && !auto_map->empty()) return "";  // code of the folder's own
  std::string declared = WithoutFast(StringOrEmpty(tokenizer_config, "tokenizer_class"));
  if (declared.empty()) declared = WithoutFast(StringOrEmpty(config, "tokenizer_class"));
  const std::string type = StringOrEmpty(config, "model_type");
  const auto row = std::find_if(std::begin(kTypeRows), std::end(kTypeRows),
                                [&](const TypeRow& r) { return type == r.model_type; });
  const std::string registered = row == std::end(kTypeRows) ? "" : row->registered;
  const bool beats = row != std::end(kTypeRows) && row->beats_folder;
  const Json* pre_tokenizer = FindField(tokenizer, "pre_tokenizer");
  if (declared == "LlamaTokenizer" && !beats && registered != "MistralCommonBackend" &&
      pre_tokenizer != nullptr && HasByteLevel(*pre_tokenizer)) {
    return "";
  }
  if (declared.empty()) return registered;
  if (registered.empty() || registered == declared) return declared;
  if (IsGeneric(registered)) return "";
  return beats ? registered : declared;
}

// The row of `name` whose settings the folder has; of several the one with most; null: none.
const ClassRow* FindRow(const std::string& name, const Json& tokenizer_config) {
  const ClassRow* best = nullptr;
  size_t most = 0;
  for (const ClassRow& row : kClassRows) {
    if (name != row.name) continue;
    const Json settings = ParseOrEmpty(row.settings);
    const bool fits =
        std::all_of(settings.items().begin(), settings.items().end(), [&](const auto& item) {
          const Json* value = FindField(tokenizer_config, item.key().c_str());
          return value != nullptr && *value == item.value();
        });
    if (fits && (best == nullptr || settings.size() > most)) {
      best = &row;
      most = settings.size();
    }
  }
  return best;
}

// `step` without what moves offsets alone.
Json WithoutOffsets(Json step) {
  if (step.is_object()) step.erase("trim_offsets");
  if (step.is_structured()) {
    for (Json& part : step) part = WithoutOffsets(std::move(part));
  }
  return step;
}

// Whether ids are the same for certain, so that no text need be tried: large files take seconds.
bool HaveSameSteps(const Json& a, const Json& b) {
  for (const char* key : {"normalizer", "pre_tokenizer"}) {
    if (WithoutOffsets(a.value(key, Json())) != WithoutOffsets(b.value(key, Json()))) return false;
  }
  const Json &left = a.at("model"), &right = b.at("model");
  for (const char* key : {"byte_fallback", "fuse_unk", "ignore_merges"}) {
    if (IsTrue(left, key) != IsTrue(right, key)) return false;
  }
  for (const char* key : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (StringOrEmpty(left, key) != StringOrEmpty(right, key)) return false;
  }
  return true;
}

struct Rebuilt {
  std::string name;      // "": transformers takes tokenizer.json as it is
  bool by_type = false;  // no tokenizer_class of the folder's changes that
  bool has_same_steps = false;
  Json tokenizer;
};

Rebuilt Rebuild(absl::string_view tokenizer_json, const TokenizerSideFiles& files) {
  Rebuilt out;
  const Json config = ParseOrEmpty(files.config_json);
  const Json tokenizer_config = ParseOrEmpty(files.tokenizer_config_json);
  out.tokenizer = ParseOrEmpty(tokenizer_json);
  const std::string name = AutoClass(out.tokenizer, tokenizer_config, config);
  const ClassRow* row =
      IsGeneric(name) || !IsKnown(name) ? nullptr : FindRow(name, tokenizer_config);
  const Json* model = FindField(out.tokenizer, "model");
  if (row == nullptr || model == nullptr || !FindField(*model, "merges")) return out;
  const Json* vocab = FindField(*model, "vocab");
  if (vocab == nullptr) return out;
  Json rebuilt = ParseOrEmpty(row->steps);
  // A class's own unknown token may be none of the vocabulary's; then there is none.
  if (FindField(*vocab, StringOrEmpty(rebuilt["model"], "unk_token").c_str()) == nullptr) {
    rebuilt["model"]["unk_token"] = nullptr;
  }
  out.has_same_steps = HaveSameSteps(out.tokenizer, rebuilt);
  rebuilt["model"]["vocab"] = *vocab;
  rebuilt["model"]["merges"] = model->at("merges");
  out.tokenizer.update(rebuilt);
  out.name = name;
  const std::string type = StringOrEmpty(config, "model_type");
  out.by_type = std::any_of(std::begin(kTypeRows), std::end(kTypeRows), [&](const TypeRow& r) {
    return type == r.model_type && r.beats_folder;
  });
  return out;
}

std::string ShowIds(const absl::StatusOr<std::vector<int32_t>>& ids) {
  if (!ids.ok()) return "no ids";
  const size_t shown = std::min(ids->size(), kShownIds);
  return absl::StrCat("[",
                      absl::StrJoin(ids->begin(), ids->begin() + static_cast<long>(shown), ", "),
                      shown < ids->size() ? ", …]" : "]");
}

}  // namespace

std::string ClassThatRebuilds(absl::string_view tokenizer_json, const TokenizerSideFiles& files) {
  return Rebuild(tokenizer_json, files).name;
}

std::string ClassWarning(absl::string_view tokenizer_json, const TokenizerSideFiles& files) {
  const Rebuilt rebuilt = Rebuild(tokenizer_json, files);
  if (rebuilt.name.empty() || rebuilt.has_same_steps) return "";
  const auto own = Tokenizer::FromJson(tokenizer_json, files);
  const auto other = Tokenizer::FromJson(rebuilt.tokenizer.dump(), files);
  if (!own.ok() || !other.ok()) return "";
  for (const char* sample : kSamples) {
    const auto here = (*own)->Encode(sample), there = (*other)->Encode(sample);
    if (!here.ok() || (there.ok() && *here == *there)) continue;
    return absl::StrCat(
        "transformers 5 loads this folder's tokenizer as ", rebuilt.name,
        ", which does not take the steps of tokenizer.json: ", Json(sample).dump(), " is ",
        ShowIds(there), " there and ", ShowIds(here),
        " here; engines that load it by AutoTokenizer (vLLM, TRL) see other ids than this job",
        rebuilt.by_type ? ""
                        : "; to make them the same, set tokenizer_class to TokenizersBackend in "
                          "tokenizer_config.json");
  }
  return "";
}

std::string ClassWarning(const std::string& dir) {
  const auto files = ReadTokenizerFiles(dir);
  return files.ok() ? ClassWarning(files->tokenizer_json, files->side) : "";
}

}  // namespace baton::tokenizer
