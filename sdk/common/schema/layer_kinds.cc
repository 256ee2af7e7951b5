#include "sdk/common/schema/layer_kinds.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using Family = ModelFamily;

bool AnyOf(const std::vector<bool>& layers) {
  return std::find(layers.begin(), layers.end(), true) != layers.end();
}

/// Which layers rotate if each interval-th one does not.
std::vector<bool> RotaryByInterval(int64_t interval, int64_t layers) {
  std::vector<bool> out;
  for (int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % interval != 0);
  return out;
}

/// SmolLM3's no_rope_layers: 1 for a layer that rotates. The list goes before the interval.
std::vector<bool> ReadRotaryLayers(ConfigReader& reader, int64_t layers) {
  std::vector<double> rotates;
  std::vector<bool> out;
  reader.Numbers("no_rope_layers", rotates);
  int64_t interval = 4;
  reader.Int("no_rope_layer_interval", interval);
  const bool listed = reader.Find("no_rope_layers") != nullptr;
  if (!listed && interval < 1) reader.Fail("no_rope_layer_interval", "is below 1");
  if (!reader.status().ok()) return out;
  if (!listed) return RotaryByInterval(interval, layers);
  if (static_cast<int64_t>(rotates.size()) < layers) {
    reader.Fail("no_rope_layers", "has fewer entries than num_hidden_layers");
    return out;
  }
  for (int64_t i = 0; i < layers; ++i) out.push_back(rotates[static_cast<size_t>(i)] != 0);
  return out;
}

/// layer_types as whether each layer has a window; empty without the key.
std::vector<bool> ReadLayerTypes(ConfigReader& reader, int64_t layers) {
  std::vector<std::string> types;
  reader.Strings("layer_types", types);
  std::vector<bool> slides;
  for (const std::string& type : types) {
    slides.push_back(type == "sliding_attention");
    if (slides.back() || type == "full_attention") continue;
    reader.Note(absl::UnimplementedError(
        absl::StrCat("layer_types: \"", type,
                     "\" is not supported; only full_attention and sliding_attention are")));
  }
  if (reader.Find("layer_types") != nullptr && static_cast<int64_t>(slides.size()) != layers) {
    reader.Fail("layer_types", absl::StrCat("has ", slides.size(), " entries for ", layers,
                                            " layers (num_hidden_layers)"));
  }
  return slides;
}

/// Which layers have a window without layer_types, as transformers' config classes fill it in.
std::vector<bool> DefaultSlidingLayers(ConfigReader& reader, Family family, int64_t layers,
                                       const LayerKinds& kinds) {
  std::vector<bool> slides;
  int64_t first = 28, pattern = 6;
  reader.Int("max_window_layers", first);
  reader.Int("sliding_window_pattern", pattern);
  if (pattern < 1) reader.Fail("sliding_window_pattern", "is below 1");
  if (!reader.status().ok()) return slides;
  for (int64_t i = 0; i < layers; ++i) {
    slides.push_back(family == Family::kGemma3    ? (i + 1) % pattern != 0
                     : family == Family::kSmolLm3 ? !kinds.rotates(i)
                                                  : i >= first);
  }
  return slides;
}

/// The window of a family whose layers are all alike.
void ReadCommonWindow(ConfigReader& reader, Family family, int64_t layers, LayerKinds& kinds) {
  const bool windows = IsOneOf(family, {Family::kMistral, Family::kPhi3});
  if (windows) {
    if (family == Family::kMistral && !reader.Has("sliding_window")) kinds.sliding_window = 4096;
    reader.OptionalInt("sliding_window", kinds.sliding_window);
  }
  // transformers does not look at layer_types in these families.
  if (!AnyOf(ReadLayerTypes(reader, layers)) || windows) return;
  reader.Note(absl::UnimplementedError(
      "layer_types: layers with a sliding window are not supported for this family"));
}

/// The window of a family whose layers differ.
void ReadWindow(ConfigReader& reader, Family family, int64_t layers, LayerKinds& kinds) {
  const bool gemma = family == Family::kGemma3;
  bool used = gemma;
  if (!gemma) reader.Bool("use_sliding_window", used);
  std::optional<int64_t> window;
  if (family != Family::kSmolLm3 && !reader.Has("sliding_window")) window = 4096;
  reader.OptionalInt("sliding_window", window);
  if (!used) window.reset();
  std::vector<bool> slides = ReadLayerTypes(reader, layers);
  if (reader.Find("layer_types") == nullptr && (gemma || window.has_value())) {
    slides = DefaultSlidingLayers(reader, family, layers, kinds);
  }
  if (!AnyOf(slides)) return;
  if (!window.has_value()) {
    return reader.Fail("layer_types",
                       "has sliding_attention, but sliding_window is null or use_sliding_window "
                       "is false");
  }
  kinds.sliding_window = window;
  kinds.sliding = slides;
}

/// "sliding_attention in 3 of 36 layers".
std::string CountText(absl::string_view what, const std::vector<bool>& layers) {
  return absl::StrCat(what, " in ", std::count(layers.begin(), layers.end(), true), " of ",
                      layers.size(), " layers");
}

/// no_rope_layers against what is made of the interval otherwise, and against num_hidden_layers.
void WarnOfRotaryLayers(const Json& json, int64_t layers, const LayerKinds& kinds,
                        std::vector<std::string>& out) {
  const Json* list = FindField(json, "no_rope_layers");
  if (list == nullptr) return;
  if (static_cast<int64_t>(list->size()) > layers) {
    out.push_back(absl::StrCat("config.json says no_rope_layers: ", list->size(),
                               " entries and num_hidden_layers: ", layers, "; the first ", layers,
                               " count, as in transformers 5"));
  }
  const Json* interval = FindField(json, "no_rope_layer_interval");
  if (interval == nullptr) return;
  const auto every = interval->get<int64_t>();
  if (every >= 1 && RotaryByInterval(every, layers) == kinds.rotary) return;
  std::vector<bool> fixed = kinds.rotary;
  fixed.flip();
  out.push_back(Contradiction("no_rope_layers", CountText("0", fixed), "no_rope_layer_interval",
                              interval->dump()));
}

/// layer_types of a family that gives all layers the window, or none, whatever it says.
void WarnOfUnreadTypes(const Json& json, const std::vector<bool>& types, const LayerKinds& kinds,
                       std::vector<std::string>& out) {
  const bool windows = kinds.sliding_window.has_value();
  if (std::count(types.begin(), types.end(), !windows) == 0) return;
  const std::string window = windows ? absl::StrCat(*kinds.sliding_window) : "null";
  out.push_back(Contradiction("sliding_window",
                              window + (json.contains("sliding_window") ? "" : " (its default)"),
                              "layer_types", CountText("sliding_attention", types)));
}

/// layer_types against the keys that it is made of otherwise.
void WarnOfTypes(const Json& json, ModelFamily family, const std::vector<bool>& types,
                 const LayerKinds& kinds, std::vector<std::string>& out) {
  const auto contradicts = [&](const char* key) {
    out.push_back(Contradiction("layer_types", CountText("sliding_attention", types), key,
                                FindField(json, key)->dump()));
  };
  ConfigReader reader(json, "");
  bool used = family == Family::kGemma3;
  reader.Bool("use_sliding_window", used);
  const bool windows = FindField(json, "sliding_window") != nullptr ||
                       (family != Family::kSmolLm3 && !json.contains("sliding_window"));
  if (!used || !windows) return;
  const char* key = family == Family::kGemma3    ? "sliding_window_pattern"
                    : family == Family::kSmolLm3 ? nullptr
                                                 : "max_window_layers";
  if (key != nullptr && FindField(json, key) != nullptr) {
    const auto layers = static_cast<int64_t>(types.size());
    if (DefaultSlidingLayers(reader, family, layers, kinds) != types) contradicts(key);
  } else if (family != Family::kGemma3 && !AnyOf(types)) {
    contradicts("use_sliding_window");
  }
}

}  // namespace

bool LayerKinds::slides(int64_t layer) const {
  return sliding_window.has_value() && (sliding.empty() || sliding[static_cast<size_t>(layer)]);
}

bool LayerKinds::rotates(int64_t layer) const {
  return rotary.empty() || rotary[static_cast<size_t>(layer)];
}

LayerKinds ReadLayerKinds(ConfigReader& reader, ModelFamily family, int64_t layers) {
  LayerKinds kinds;
  if (!reader.status().ok()) return kinds;
  if (family == Family::kSmolLm3) kinds.rotary = ReadRotaryLayers(reader, layers);
  if (!reader.status().ok()) return kinds;
  if (IsOneOf(family, {Family::kQwen2, Family::kQwen3, Family::kSmolLm3, Family::kGemma3})) {
    ReadWindow(reader, family, layers, kinds);
  } else {
    ReadCommonWindow(reader, family, layers, kinds);
  }
  return kinds;
}

void WarnOfLayerKinds(const Json& json, ModelFamily family, int64_t layers, const LayerKinds& kinds,
                      std::vector<std::string>& out) {
  if (family == Family::kSmolLm3) WarnOfRotaryLayers(json, layers, kinds, out);
  if (FindField(json, "layer_types") == nullptr) return;
  ConfigReader reader(json, "");
  const std::vector<bool> types = ReadLayerTypes(reader, layers);
  if (IsOneOf(family, {Family::kMistral, Family::kPhi3})) {
    WarnOfUnreadTypes(json, types, kinds, out);
  } else if (IsOneOf(family, {Family::kQwen2, Family::kQwen3, Family::kSmolLm3, Family::kGemma3})) {
    WarnOfTypes(json, family, types, kinds, out);
  }
}

absl::Status CheckLayerKinds(const LayerKinds& kinds, ModelFamily family, int64_t layers) {
  for (const auto& [key, list] : {std::make_pair("layer_types", &kinds.sliding),
                                  std::make_pair("no_rope_layers", &kinds.rotary)}) {
    if (list->empty() || static_cast<int64_t>(list->size()) == layers) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", list->size(), " entries for ", layers, " layers"));
  }
  if (!kinds.rotary.empty() && family != Family::kSmolLm3) {
    return absl::InvalidArgumentError("no_rope_layers: only SmolLM3 has them");
  }
  if (!kinds.sliding_window.has_value()) return absl::OkStatus();
  const bool all = IsOneOf(family, {Family::kMistral, Family::kPhi3});
  if (all != kinds.sliding.empty() ||
      IsOneOf(family, {Family::kLlama, Family::kOlmo2, Family::kGranite})) {
    return absl::InvalidArgumentError(
        "sliding_window: Mistral and Phi-3 have one in all layers, Qwen2, Qwen3, SmolLM3 and Gemma "
        "3 in those that layer_types names, the others in none");
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  if (*kinds.sliding_window >= 1 && *kinds.sliding_window <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sliding_window: ", *kinds.sliding_window, " is not in [1, ", kMost, "]"));
}

void WriteLayerKinds(const LayerKinds& kinds, ModelFamily family, int64_t layers, Json& json) {
  const bool windows = kinds.sliding_window.has_value();
  const bool switched = IsOneOf(family, {Family::kQwen2, Family::kQwen3, Family::kSmolLm3});
  if (switched) json["use_sliding_window"] = windows;
  if (windows) {
    json["sliding_window"] = *kinds.sliding_window;
  } else if (IsOneOf(family, {Family::kMistral, Family::kPhi3, Family::kGemma3})) {
    json["sliding_window"] = nullptr;  // absent, it would be the family's own
  }
  if (family == Family::kGemma3 || (switched && windows)) {
    json["layer_types"] = Json::array();
    for (int64_t i = 0; i < layers; ++i) {
      json["layer_types"].push_back(kinds.slides(i) ? "sliding_attention" : "full_attention");
    }
  }
  if (family != Family::kSmolLm3) return;
  json["no_rope_layers"] = Json::array();
  for (int64_t i = 0; i < layers; ++i) json["no_rope_layers"].push_back(kinds.rotates(i) ? 1 : 0);
}

}  // namespace baton
