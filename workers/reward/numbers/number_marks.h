// The many ways in which texts and LaTeX write the parts of a number, brought to one. Internal to
// this folder.
#ifndef BATON_WORKERS_REWARD_NUMBERS_NUMBER_MARKS_H_
#define BATON_WORKERS_REWARD_NUMBERS_NUMBER_MARKS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::reward {

/// What PlainMarks writes beside ASCII. None of them stands in a text that it reads.
inline constexpr char kDash = '\x01';   ///< An en dash or a longer one: a range, or punctuation.
inline constexpr char kGroup = '\x02';  ///< A narrow space, as between thousands.
inline constexpr char kStop = '\x03';  ///< √, ±, ≤, ‰ …: a number beside it is part of more.

/// `text`, valid UTF-8, with
///   U+2212 and other minus signs and hyphens  -> -        en and em dashes -> kDash
///   digits of full width and other scripts    -> 0 to 9   ½                -> " 1/2"
///   × · ⋅ \times \cdot                        -> *        ÷ ⁄ \div         -> /
///   currency signs, \$ -> $   \% -> %   {,} -> ,   \left, \right, \( and the like -> nothing
///   narrow and no-break spaces, \, \! \; ~    -> kGroup   √ ± ≤ ≥ ≠ ‰      -> kStop
///   \text{cm}, \mathrm{cm} -> " cm "   \dfrac, \tfrac -> \frac   ^\circ -> " "   x² -> x^
/// and all else as it is.
std::string PlainMarks(absl::string_view text);

/// What stands in the last \boxed{…} or \fbox{…}, whose braces may be nested. `complete`: it has
/// both its braces. Nothing: the text has no box.
struct Box {
  std::string content;
  bool complete = false;
};
std::optional<Box> LastBox(absl::string_view text);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_NUMBERS_NUMBER_MARKS_H_
