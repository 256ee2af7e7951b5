// The components of a tokenizer.json (normalizer, pre_tokenizer, decoder, post_processor): objects
// with a `type`, which may be a Sequence of others.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_JSON_COMPONENTS_H_
#define BATON_WORKERS_TOKENIZER_STEPS_JSON_COMPONENTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/schema/json_fields.h"

namespace baton::tokenizer {

/// A component and its place in the file ("decoder.decoders[2]"). Its `type` is a string.
using JsonComponent = std::pair<std::string, const Json*>;

/// The components of a Sequence, whose list stands under the key `list`, or the component itself;
/// nothing for null. Sequences may be nested. INVALID_ARGUMENT says where. They point into `json`.
[[nodiscard]] absl::StatusOr<std::vector<JsonComponent>> FlattenSequence(const Json& json,
                                                                         const char* list,
                                                                         const std::string& where);

/// Metaspace, of a pre-tokenizer or a decoder: a sign ("▁") stands for each space.
struct MetaspaceOptions {
  enum class Scheme { kAlways, kFirst, kNever };
  std::string replacement;          ///< One character.
  Scheme scheme = Scheme::kAlways;  ///< Which words it is prepended to.
  bool split = true;                ///< Words are cut before it.
};
[[nodiscard]] absl::StatusOr<MetaspaceOptions> ParseMetaspaceOptions(const Json& json,
                                                                     const std::string& where);

/// Keeps the steps of one component from growing a text without bound: each may make a text longer,
/// so that their growth multiplies. All return INVALID_ARGUMENT, at `where`, when the steps so far
/// are more than 64, may make a text more than 256 times as long or prepend more than 1 KiB to it.
class GrowthLimit {
 public:
  /// A step that writes at most `to` bytes for each `from` bytes that it reads (`from` > 0).
  [[nodiscard]] absl::Status AddChange(size_t from, size_t to, absl::string_view where);
  /// A step that prepends so many bytes.
  [[nodiscard]] absl::Status AddPrepend(size_t bytes, absl::string_view where);

 private:
  absl::Status AddStep(absl::string_view where);

  double growth_ = 1;
  size_t prepended_bytes_ = 0;
  int steps_ = 0;
};

/// UNIMPLEMENTED: "WHERE: WHAT is not supported; supported: SUPPORTED".
[[nodiscard]] absl::Status Unsupported(absl::string_view where, absl::string_view what,
                                       absl::string_view supported);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_JSON_COMPONENTS_H_
