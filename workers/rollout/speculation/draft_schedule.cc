#include "workers/rollout/speculation/draft_schedule.h"

#include <algorithm>
#include <utility>

#include "workers/rollout/speculation/draft_budget.h"

namespace baton::rollout {
namespace {

constexpr int64_t kLongestBackOff = 256;  // passes
constexpr int64_t kBackOffAfter = 4;      // passes in a row whose drafts are wasted
// The largest share of the passes' time that drafts may take if all of them are wasted.
constexpr double kMaxWastedShare = 0.0025;
// One pass in this many gets drafts although they are not expected to pay.
constexpr int64_t kProbeInterval = 512;
// While the cost of a row is not known, one pass of so many has drafts: it shows in the difference.
// It does not where as many responses run all the time, and each gets few. So this is tried only in
// the first passes of a long time.
constexpr int64_t kLearningPasses = 4;
constexpr int64_t kLearningSpell = 256;  // passes
constexpr int64_t kLearningTime = 4096;
// Rows beside those of responses and drafts, as a share of these, in a pass that tells what a row
// costs. Rows of prompts cost less: they have no logits.
constexpr int64_t kOtherRows = 8;
// From 2^this responses on drafts may well not pay: a trial without a gain has a long back-off.
constexpr size_t kSeldomPays = 3;
constexpr int64_t kSeldomPaysBackOff = 2048;  // passes
constexpr int64_t kTrial = 128;
// From 2^this on they seldom pay: so many of the responses try it.
constexpr size_t kFullBatch = 4;
constexpr size_t kTried = 8;
constexpr double kSlowestPass = 2;  // times what was expected: the process was not running
constexpr double kSecondsFading = 0.1;
constexpr double kSlowestDraft = 4;  // times the usual
// After so many passes with drafts one has none: what they are compared with grows old.
constexpr int64_t kPlainEvery = 64;

}  // namespace

DraftSchedule::DraftSchedule() {
  for (size_t size = kSeldomPays; size < kGuards; ++size) {
    guards_[size] = GainGuard(kSeldomPaysBackOff, kTrial);
  }
}

GainGuard& DraftSchedule::GuardOf(int64_t decoding) {
  size_t size = 0;
  while (size + 1 < kGuards && decoding >> (size + 1) > 0) ++size;
  return guards_[size];
}

// The number of responses that get drafts, of `responses` that may have them: the first ones.
size_t DraftSchedule::Asked(size_t responses) {
  const bool full = pass_.decoding >> kFullBatch > 0;
  return full && !GuardOf(pass_.decoding).Pays() ? std::min(responses, kTried) : responses;
}

// Forgets now and then that nothing pays: the best drafts become better as the trees grow.
bool DraftSchedule::MayPayAtAll(int64_t decoding, double best) {
  if (++passes_ % kProbeInterval == 0) return true;
  const auto asked = static_cast<double>(Asked(static_cast<size_t>(decoding)));
  return MayPay(decoding, most_nodes_, best, seconds_a_response_ * asked, cost_);
}

// The last pass is over, and its tokens are known.
void DraftSchedule::Settle() {
  const Pass pass = std::exchange(pass_, {});
  if (pass.rows == 0) return;
  const int64_t rows = pass.decoding + pass.computed;
  const bool few_others = pass.rows <= rows + 1 + rows / kOtherRows;
  if (few_others) cost_.Note(pass.rows, pass.seconds);
  if (!pass.asked || !cost_.known() || pass.ahead) return;
  if (pass.drafted_elsewhere && !few_others) return;
  // In all the time that the pass and its drafts took, also if none of these was chosen. That the
  // trees learn what was said is part of it: they need not where nothing is drafted.
  const double plain_seconds = cost_.Seconds(std::max<int64_t>(1, pass.rows - pass.computed));
  const double seconds = pass.effort.chosen == 0
                             ? plain_seconds
                             : std::min(pass.seconds, kSlowestPass * cost_.Seconds(pass.rows));
  const double most = kSlowestPass * plain_seconds;
  const double follow_seconds =
      std::min(FollowingOf(pass.tokens, pass.effort.followed, pass.effort.follow_seconds), most);
  const double draft_seconds = std::min(pass.effort.draft_seconds, most);
  const double plain = static_cast<double>(pass.decoding) *
                       (seconds + follow_seconds + draft_seconds) / plain_seconds;
  // A response without a draft yields one token.
  GuardOf(pass.decoding).NotePass(static_cast<double>(pass.tokens + pass.unasked), plain);
}

void DraftSchedule::SetAhead(bool ahead) {
  if (std::exchange(ahead_, ahead) == ahead) return;
  wasted_ = back_off_ = 0;
}

bool DraftSchedule::BacksOff(int64_t decoding, double best) {
  if (cost_.known() && asked_in_a_row_ >= kPlainEvery) return true;
  if (GuardOf(decoding).BacksOff()) return true;
  if (back_off_ > 0) {
    --back_off_;
    return true;
  }
  if (!MayPayAtAll(decoding, best)) return true;
  if (cost_.known()) return false;
  const int64_t pass = learning_++ % kLearningTime;
  return pass >= kLearningSpell || pass % kLearningPasses != 0;
}

// Nothing paid: the more often, the longer it backs off, until drafting takes next to no time.
void DraftSchedule::BackOffIfWasted() {
  wasted_ = pass_.effort.chosen > 0 ? 0 : wasted_ + 1;
  if (wasted_ < kBackOffAfter || !cost_.known()) return;
  const double share = pass_.effort.draft_seconds / cost_.Seconds(pass_.decoding) / kMaxWastedShare;
  const auto enough = static_cast<int64_t>(std::min(share, static_cast<double>(kLongestBackOff)));
  back_off_ = std::min(int64_t{1} << std::min<int64_t>(wasted_ - kBackOffAfter, 32), enough);
}

bool DraftSchedule::WantsToDraft(int64_t decoding, double best) {
  Settle();
  if (decoding < 1) return false;
  pass_.decoding = decoding;
  pass_.ahead = ahead_;
  const bool wants = !BacksOff(decoding, best);
  asked_in_a_row_ = wants ? asked_in_a_row_ + 1 : 0;
  return wants;
}

size_t DraftSchedule::Begin(size_t responses, int64_t max_nodes) {
  // The others, if any, are drafted by what they said in another life.
  const auto here = static_cast<int64_t>(responses);
  pass_.drafted_elsewhere = pass_.decoding > here;
  pass_.decoding = std::max(pass_.decoding, here);
  pass_.asked = true;
  most_nodes_ = max_nodes;
  const size_t asked = Asked(responses);
  pass_.unasked = pass_.decoding - static_cast<int64_t>(asked);
  return asked;
}

void DraftSchedule::NoteDrafts(const DraftingEffort& effort) {
  pass_.effort = effort;
  double seconds = effort.draft_seconds / static_cast<double>(pass_.decoding - pass_.unasked);
  // A process that was stopped says nothing of drafting.
  if (seconds_a_response_ > 0) seconds = std::min(seconds, kSlowestDraft * seconds_a_response_);
  seconds_a_response_ += kSecondsFading * (seconds - seconds_a_response_);
  BackOffIfWasted();
}

void DraftSchedule::NoteTokens(int64_t tokens, int64_t computed) {
  pass_.tokens += tokens;
  pass_.computed += computed;
}

void DraftSchedule::NotePass(int64_t rows, double seconds) {
  // Several passes may follow one call of Begin; its drafts were for the first of them.
  if (pass_.rows > 0) return;
  pass_.rows = rows;
  pass_.seconds = seconds;
}

}  // namespace baton::rollout
