// What verl, TRL and other trainers call the settings of a job: the only table of such names, with
// the releases that have them. A spec keeps one name for each setting, so these names are refused
// with ours; values that mean the same as one of ours are taken as that.
#ifndef BATON_SDK_CLIENT_OTHER_NAMES_H_
#define BATON_SDK_CLIENT_OTHER_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

/// A setting of another trainer.
struct OtherName {
  /// Its path there, e.g. verl's "actor_rollout_ref.rollout.n"; without a dot, as TRL's
  /// "num_generations", it may stand in any section.
  absl::string_view name;
  absl::string_view ours;  ///< The path of ours, e.g. "rollout.n"; empty: there is none.
  absl::string_view note;  ///< In what ours differs, or what to do instead; empty: nothing.
};

/// All that are known.
const std::vector<OtherName>& OtherNames();

/// The setting that `path` names, where Baton has no such path: by the whole path, also without
/// verl's "actor_rollout_ref", or by its last key. Null: none that is known.
const OtherName* FindOtherName(absl::string_view path);

/// A value that a setting of ours has in other trainers and not here.
struct OtherValue {
  absl::string_view path;       ///< Of our setting.
  int64_t value;                ///< Theirs.
  std::optional<int64_t> ours;  ///< What means the same here; nullopt: nothing does.
  absl::string_view note;       ///< What to write instead, if nothing does.
};

/// Null: `value` is not known to mean anything elsewhere.
const OtherValue* FindOtherValue(absl::string_view path, int64_t value);

/// What to write where `path`, a section of ours, was given a value or a list, as other programs
/// have it: `model: Qwen/Qwen3-0.6B`. The name of ours is in it; empty: nothing is known.
std::string InsteadOfValue(absl::string_view path);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_OTHER_NAMES_H_
