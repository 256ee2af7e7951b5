// The bounds of a number in options and settings, and their wording.
#ifndef BATON_SDK_COMMON_BASE_BOUNDS_H_
#define BATON_SDK_COMMON_BASE_BOUNDS_H_

#include <limits>
#include <string>

namespace baton {

/// NaN and infinities never pass.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;  ///< `low` itself is out.
};

/// The shortest text that means this number: "0.2", "10000000", "1e-8", "0.9999999".
std::string NumberText(double number);

/// "0 is not in [1, 1024]", "-1 is not at least 0"; "": `number` is good.
std::string NumberProblem(double number, const Bounds& bounds);

/// For tables: "1 to 1024", "at least 0", "above 0"; "": there are none.
std::string BoundsText(const Bounds& bounds);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_BOUNDS_H_
