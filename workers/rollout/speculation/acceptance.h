// How likely the tokens of a draft are accepted, learned from the drafts that were verified.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_

#include <array>
#include <cstdint>

namespace baton::rollout {

/// Corrects the scores of a tree cache. A score is the share of earlier responses that went on so,
/// which says the more the longer the match is, and the less the more the policy has changed since.
/// So drafts are counted by score (in steps of a factor of sqrt 2) and by the length of the match
/// (in steps of a factor of 2). Of a class without counts the score itself is believed; counts
/// fade, so a class that seemed not to pay is tried again.
class Acceptance {
 public:
  /// A node of that score was verified; `accepted`: the response went on with its path.
  void Note(float score, int match_length, bool accepted);
  /// The probability that a node of that score is accepted, in [0, 1].
  double Of(float score, int match_length) const;
  /// False: so few nodes were tried that the scores are all that is known.
  bool Tried() const;
  /// No node is accepted with a higher probability, as far as nodes were tried; 1: too few were.
  double Best() const;
  /// A pass is over: counts fade.
  void Fade();

 private:
  static constexpr int kScores = 16, kMatches = 6;
  struct Count {
    double tried = 0, accepted = 0;
  };
  static int ClassOf(float score, int match_length);

  std::array<Count, kScores * kMatches> counts_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_
