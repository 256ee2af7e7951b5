// In what the layers of a decoder differ: which have a sliding window, and which rotate queries and
// keys.
#ifndef BATON_SDK_COMMON_SCHEMA_LAYER_KINDS_H_
#define BATON_SDK_COMMON_SCHEMA_LAYER_KINDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sdk/common/schema/config_reader.h"
#include "sdk/common/schema/json_fields.h"
#include "sdk/common/schema/model_families.h"

namespace baton {

struct LayerKinds {
  /// The layers of `sliding`: a token attends to so many tokens, itself included; absent: no layer
  /// has a window.
  std::optional<int64_t> sliding_window;
  /// Whether each layer has the window; empty: all of them have it (Mistral, Phi-3).
  std::vector<bool> sliding;
  /// Whether each layer rotates queries and keys (SmolLM3); empty: all of them do.
  std::vector<bool> rotary;

  bool slides(int64_t layer) const;
  bool rotates(int64_t layer) const;
};

/// Reads sliding_window, use_sliding_window, layer_types and their like as transformers (5.24)
/// does: layer_types goes before the keys that it is made of otherwise, no_rope_layers before its
/// interval. Problems stay in `reader`.
LayerKinds ReadLayerKinds(ConfigReader& reader, ModelFamily family, int64_t layers);

/// Adds what keys of the layers say against each other, and which counts, as transformers (5.24)
/// decides. `json`: a config.json from which ReadLayerKinds read `kinds`.
void WarnOfLayerKinds(const Json& json, ModelFamily family, int64_t layers, const LayerKinds& kinds,
                      std::vector<std::string>& out);

/// InvalidArgument: a config.json of this family cannot say it.
[[nodiscard]] absl::Status CheckLayerKinds(const LayerKinds& kinds, ModelFamily family,
                                           int64_t layers);

/// Writes the keys that ReadLayerKinds reads back.
void WriteLayerKinds(const LayerKinds& kinds, ModelFamily family, int64_t layers, Json& json);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_LAYER_KINDS_H_
