// Choice, when newer weights come, between finishing a replica's responses and making them again
// with the newer weights.
//
// Owns two measurements: the lengths of responses, and how many tokens of older weights the newer
// ones drew as well. A response is a function of weights, prompt and key, so a repeated response
// has the same tokens up to the first that the newer weights draw differently; the common ones are
// computed in one pass (Generate.draft_tokens).
//
// A step of the engine that advances n responses takes as long as F + n of them (StepCost). In
// tokens of a full replica, with C places, the longest response D tokens from its end:
//
//   to wait costs   what the places do not generate until it is done:
//                   F / (F + C) (C D - sum_i left_i)
//   to refresh costs   the tokens that are drawn differently, and a pass over those that are not,
//                   which has no cost of a step for each token:
//                   sum_i (t_i - accepted(t_i)) + max(kPassShare, C / (F + C)) sum_i accepted(t_i)
//
// with accepted(t) = q (1 - q^t) / (1 - q), where 1 - q is the share of judged tokens that were
// drawn differently, for each update between the weights. All are expectations over lengths and
// earlier refreshes. On a CPU F is small: a waiting place costs nothing, so only responses that
// would be too old are refreshed. On a GPU F is large.
//
// The choice never looks at the response's own tokens: otherwise the choice of weights would depend
// on the tokens, and the batch would be a biased sample. To save time, a response is made again
// only once it is twice as long as at its last refresh: otherwise versions that come faster than
// tokens could restart it for ever. A response that would be too old for any batch is made again in
// any case.
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_REFRESH_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_REFRESH_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace baton::controller {

/// A replica that makes responses with older weights than it could have.
struct OutdatedReplica {
  std::vector<uint32_t> tokens;  ///< Tokens so far of each of its responses.
  uint64_t places = 0;           ///< Responses that it makes at once.
  uint64_t updates = 1;          ///< Between its weights and the newer ones; at least 1.
  /// StepCost::FixedRows.
  double fixed_rows = std::numeric_limits<double>::infinity();
};

/// Reasons for stopping a response that newer weights make again: waiting would cost more …
inline constexpr char kMadeAgain[] = "newer weights make it again";
/// … or no batch could consume it when it is done.
inline constexpr char kTooOldToFinish[] = "it would be too old to learn from";

class Refresh {
 public:
  /// A token computed in a pass over many costs at least this share of a token computed in a step
  /// of a full replica.
  static constexpr double kPassShare = 0.1;

  /// `longest`: of a response, in tokens.
  explicit Refresh(uint32_t longest) : longest_(longest) {}

  /// A response ended with `tokens` tokens.
  void NoteLength(uint32_t tokens);
  /// `responses` responses were stopped to be made again.
  void NoteRecalled(uint64_t responses) { recalled_ += responses; }
  /// A response was made again: of its `drafted` tokens from weights `updates` older, the first
  /// `accepted` were drawn again.
  void NoteJudged(uint32_t drafted, uint32_t accepted, uint64_t updates);

  /// True if refreshing the replica is cheaper than waiting. Pure.
  bool Pays(const OutdatedReplica& replica) const;
  /// Expected number of further tokens of a response that has `tokens`.
  double Left(uint32_t tokens) const;
  /// Expected number of the first `tokens` tokens that are drawn again `updates` later.
  double Accepted(double tokens, uint64_t updates) const;

  /// Adds refresh/*, of the time since the last step.
  void AddMetrics(std::map<std::string, double>& metrics) const;
  /// The next step begins.
  void EndStep() { recalled_ = drafted_ = accepted_ = 0; }

 private:
  uint32_t longest_;
  std::vector<uint32_t> lengths_;  // of the newest responses, a ring
  size_t next_length_ = 0;
  // Counts of judged tokens; older ones count less and less. They begin with a guess.
  double differed_ = 1, judged_ = 200;
  uint64_t recalled_ = 0, drafted_ = 0, accepted_ = 0;  // since the last step
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_REFRESH_H_
