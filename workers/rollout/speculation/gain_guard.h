// A guard that measures whether drafts have paid so far, and stops them if not.
//
// It compares the yield of passes with drafts with what plain passes would have yielded in the same
// time. If plain passes yield significantly more, speculation backs off for some passes; the more
// often that happens, the longer. Chance is large: most of what drafts yield comes from few lucky
// passes. Where a gain is unlikely, it also backs off if after a trial none is seen.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_GAIN_GUARD_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_GAIN_GUARD_H_

#include <cstdint>

namespace baton::rollout {

/// The share of `seconds`, in which the trees were told `followed` tokens, that is charged to a
/// pass which made `made` of them: tokens that had waited since passes without drafts are not its
/// cost.
double FollowingOf(int64_t made, int64_t followed, double seconds);

class GainGuard {
 public:
  /// `first_back_off`: passes; it never backs off for fewer. `trial`: passes with drafts after
  /// which it backs off unless something was gained, and after four times as many unless that was
  /// no chance; 0: only a loss that is no chance makes it back off.
  explicit GainGuard(int64_t first_back_off = 64, int64_t trial = 0)
      : first_back_off_(first_back_off), trial_(trial), next_back_off_(first_back_off) {}

  /// A pass for which drafts were made yielded `tokens`; in its time, with that of drafting, plain
  /// passes would have yielded `plain`.
  void NotePass(double tokens, double plain);
  /// The next pass is to have no drafts. Call it once for each pass.
  bool BacksOff();
  /// Since the last back-off drafts gained something, and more than by chance.
  bool Pays() const;

 private:
  bool TrialFailed() const;
  void BackOff();

  // Later passes count more.
  double passes_ = 0, plain_ = 0;
  double loss_ = 0;       // plain tokens less those that came
  double variance_ = 0;   // of loss_, if it were chance alone
  int64_t back_off_ = 0;  // passes left
  int64_t tried_ = 0;     // passes since the last back-off
  int64_t first_back_off_, trial_;
  int64_t next_back_off_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_GAIN_GUARD_H_
