// Since when each open prompt group has been under way, and how many responses were given up since
// the last step, for schedule.group_timeout_seconds (late_flow.h).
#ifndef BATON_CONTROLLER_CORE_STEPS_LATE_GROUPS_H_
#define BATON_CONTROLLER_CORE_STEPS_LATE_GROUPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace baton::controller {

class LateGroups {
 public:
  /// After a restart: when the groups that are open began is not stored, so they begin now.
  void Stand(absl::Time now) { stood_ = now; }
  void NoteBegun(uint64_t draw, absl::Time now) { begun_[draw] = now; }
  absl::Time BegunAt(uint64_t draw) const {
    const auto begun = begun_.find(draw);
    return begun == begun_.end() ? stood_ : begun->second;
  }
  /// The group is complete, or dropped. Returns when it began; nothing: that is not known.
  std::optional<absl::Time> End(uint64_t draw) {
    const auto found = begun_.find(draw);
    if (found == begun_.end()) return std::nullopt;
    const absl::Time begun = found->second;
    begun_.erase(found);
    return begun;
  }
  void Clear() { begun_.clear(); }
  /// Responses can come, and stragglers are looked for. While the job has no rollouts or reads its
  /// data, is paused, or its machine is suspended, none can; that time counts for no group.
  void Look(absl::Time now) {
    const absl::Duration gap = now - std::exchange(looked_, now);
    if (gap <= kLongestLook || gap == absl::InfiniteDuration()) return;
    for (auto& [draw, begun] : begun_) begun += gap;
    stood_ += gap;
  }

  /// So many responses were given up since the last step, with so many tokens.
  uint64_t given_up() const { return given_up_; }
  uint64_t given_up_tokens() const { return given_up_tokens_; }
  void NoteGivenUp(uint64_t tokens) {
    ++given_up_;
    given_up_tokens_ += tokens;
  }
  void EndStep() { given_up_ = given_up_tokens_ = 0; }

 private:
  static constexpr absl::Duration kLongestLook = absl::Seconds(10);  // from one to the next

  std::map<uint64_t, absl::Time> begun_;  // by draw; of groups that this controller began …
  absl::Time stood_;                      // … and when it took over the others
  absl::Time looked_ = absl::InfinitePast();
  uint64_t given_up_ = 0, given_up_tokens_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_LATE_GROUPS_H_
