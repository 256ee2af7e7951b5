// Retention: which rows of a job are deleted in favour of newer ones (rules:
// docs/formats/store.md).
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_RETENTION_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_RETENTION_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace baton::controller {

/// Entry `number` was just written, and the newest `kept` entries stay. Returns the range [first,
/// second) to delete now. A hundredth of `kept` is deleted at a time, so the number of entries
/// never exceeds `kept` by much.
std::pair<int64_t, int64_t> GoneWith(int64_t number, int64_t kept);

/// Entry `number` was just written. The newest `kept` entries stay. Of the entries that are
/// kept·2^j or more behind the newest, every 2^(j+1)-th stays. Returns the entries that are exactly
/// kept·2^j behind now, for any j, and do not stay; most of them were deleted at a smaller j. There
/// are never more than kept·(1 + log2(number / kept) / 2) + 1 entries.
std::vector<int64_t> ThinnedWith(int64_t number, int64_t kept);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_RETENTION_H_
