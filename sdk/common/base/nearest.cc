#include "sdk/common/base/nearest.h"

#include <algorithm>
#include <cstddef>

namespace baton {
namespace {

// Levenshtein's distance, by rows.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

const std::string* Nearest(absl::string_view given, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, given.size() / 2) + 1;
  for (const std::string& name : known) {
    const size_t distance = EditDistance(given, name);
    if (distance < best_distance) {
      best = &name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace baton
