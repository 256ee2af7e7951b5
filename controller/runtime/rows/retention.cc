#include "controller/runtime/rows/retention.h"

#include <algorithm>

namespace baton::controller {

std::pair<int64_t, int64_t> GoneWith(int64_t number, int64_t kept) {
  const int64_t at_a_time = std::max<int64_t>(kept / 100, 1);
  if (number % at_a_time != 0 || number <= kept) return {0, 0};
  return {std::max<int64_t>(number - kept - at_a_time + 1, 1), number - kept + 1};
}

std::vector<int64_t> ThinnedWith(int64_t number, int64_t kept) {
  std::vector<int64_t> out;
  for (int64_t distance = kept, every = 2; kept > 0 && distance < number;
       distance *= 2, every *= 2) {
    const int64_t old = number - distance;
    if (old % every != 0) out.push_back(old);
  }
  return out;
}

}  // namespace baton::controller
