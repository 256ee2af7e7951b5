// Which rows of a job give way to newer ones (docs/formats/store.md says it to users).
#ifndef BATON_CONTROLLER_RUNTIME_RETENTION_H_
#define BATON_CONTROLLER_RUNTIME_RETENTION_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace baton::controller {

/// Entry `number` is written, and the newest `kept` stay. Those that go now: [first, second). They
/// go a hundredth of `kept` at a time, so that many more than `kept` are never there.
std::pair<int64_t, int64_t> GoneWith(int64_t number, int64_t kept);

/// Entry `number` is written. The newest `kept` stay; of those that are kept·2^j or more behind the
/// newest, every 2^(j+1)-th stays. Those that are kept·2^j behind now, for any j, and do not stay:
/// most went when they came to a smaller j, but not where a release without this rule wrote them.
/// There are never more than kept·(1 + log2(number / kept) / 2) + 1.
std::vector<int64_t> ThinnedWith(int64_t number, int64_t kept);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_RETENTION_H_
