#include "workers/rollout/speculation/tree_drafter.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/hash/hash.h"
#include "sdk/base/mutant.h"

namespace baton::rollout {
namespace {

constexpr int64_t kMostPerResponse = 64;  // draft tokens
constexpr int64_t kOverdraft = 4;         // times its share of a pass that a response may propose
// Scores may be too low by this factor; what would not pay even then is not proposed.
constexpr double kBelief = 0.5;
constexpr int64_t kMostRest = 256;  // passes
constexpr int64_t kFirstNodes = 16;
constexpr int64_t kVainTries = 4;  // before the first rest
// Of the time of passes, what drafts may take that are all in vain.
constexpr double kVainShare = 0.0025;
// While the cost of a row is not known, one pass of so many has drafts: it shows in the difference.
// It does not where as many responses run all the time, and each gets few. So this is tried only in
// the first passes of a long time.
constexpr int64_t kLearningPasses = 4;
constexpr int64_t kLearningSpell = 256;  // passes
constexpr int64_t kLearningTime = 4096;
// Rows beside those of responses and drafts, as a share of these, in a pass that tells what a row
// costs. Rows of prompts cost less: they have no logits.
constexpr int64_t kOtherRows = 8;
// From 2^this responses on drafts may well not pay: a trial without a gain has a long rest.
constexpr size_t kDoubtful = 3;
constexpr int64_t kDoubtfulRest = 2048;  // passes
constexpr int64_t kTrial = 128;
// From 2^this on they seldom pay: so many of the responses try it.
constexpr size_t kFullBatch = 4;
constexpr size_t kTried = 8;
constexpr double kSlowestPass = 2;  // times what was expected: the process was not running
// Tokens of a running response, and of all that ended, that wait to be followed.
constexpr size_t kMostWaiting = 2048;
constexpr int64_t kMostEnded = 1 << 20;
// Of those that ended, so many are followed in one pass: some milliseconds.
constexpr int64_t kMostAtOnce = 1 << 13;
// One pass of so many is drafted although it cannot pay, by what is known.
constexpr int64_t kDoubt = 512;
constexpr double kSecondsFading = 0.1;
constexpr double kSlowestDraft = 4;  // times the usual
// After so many passes with drafts one has none: what they are compared with grows old.
constexpr int64_t kPlainEvery = 64;

// Children of `parent` (-1: the root) in a draft; the one with that token, or -1.
int32_t ChildWith(const engine::DraftTree& tree, int32_t parent, int32_t token) {
  for (size_t i = static_cast<size_t>(parent + 1); i < tree.tokens.size(); ++i) {
    if (tree.parents[i] == parent && tree.tokens[i] == token) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

TreeDrafter::TreeDrafter(std::unique_ptr<TreeCache> cache) : cache_(std::move(cache)) {
  for (size_t size = kDoubtful; size < kGuards; ++size) {
    if (Mutant("many-rest-briefly")) break;
    guards_[size] = GainGuard(kDoubtfulRest, kTrial);
  }
}

void TreeDrafter::SetActorUpdates(int64_t updates) {
  absl::MutexLock lock(&age_mu_);
  if (actor_updates_ >= 0) age_ += std::abs(updates - actor_updates_);
  if (actor_updates_ < 0 || Mutant("rollback-outweighs-what-follows")) age_ = updates;
  actor_updates_ = updates;
}

// A response counts for less with each update that lies between its weights and those of now,
// wherever a rollback has led.
absl::Status TreeDrafter::AddEarlier(absl::Span<const int32_t> prompt,
                                     absl::Span<const int32_t> response, uint64_t policy_version) {
  int64_t age = 0;
  if (policy_version != 0) {
    absl::MutexLock lock(&age_mu_);
    const auto version = static_cast<int64_t>(policy_version);
    age = std::max<int64_t>(age_ - std::abs(actor_updates_ - version), 0);
    if (Mutant("history-never-fades")) age = age_;
  }
  return cache_->Add(prompt, response, age);
}

void TreeDrafter::Begin(uint64_t id, absl::Span<const int32_t> prompt,
                        absl::Span<const int32_t> resumed) {
  Response& response = responses_[id];
  response.prompt.assign(prompt.begin(), prompt.end());
  response.prompt_hash = absl::HashOf(prompt);
  response.waiting.assign(resumed.begin(), resumed.end());
  absl::MutexLock lock(&age_mu_);
  response.age = age_;
}

void TreeDrafter::Append(uint64_t id, absl::Span<const int32_t> tokens, int64_t verified) {
  const auto found = responses_.find(id);
  if (found == responses_.end()) return;
  Response& response = found->second;
  if (std::exchange(response.asked, false)) {
    pass_.tokens += static_cast<int64_t>(tokens.size());
    pass_.verified += verified;
    Judge(response, tokens, verified);
  }
  response.waiting.insert(response.waiting.end(), tokens.begin(), tokens.end());
  if (response.waiting.size() >= kMostWaiting && !Follow(response)) responses_.erase(found);
}

// False: it has a token that is none. What the engine draws is a token; a resumed one may be
// anything, and then the response gets no drafts.
bool TreeDrafter::Follow(Response& response) {
  if (response.cursor == nullptr) response.cursor = cache_->Begin(response.prompt, response.age);
  const bool ok = response.waiting.empty() || response.cursor->Append(response.waiting).ok();
  response.waiting.clear();
  return ok;
}

TreeDrafter::Said TreeDrafter::TakeFirst(std::list<Ended>::iterator ended) {
  Said said = std::move(ended->responses.front());
  ended->responses.pop_front();
  ended_tokens_ -= said.size();
  if (ended->responses.empty()) {
    ended_of_prompt_.erase(ended->prompt_hash);
    ended_.erase(ended);
  }
  return said;
}

int64_t TreeDrafter::FollowFirst(std::list<Ended>::iterator ended) {
  const Said said = TakeFirst(ended);
  // It fails if something resumed was no token; nothing of the response is learned then.
  if (!Mutant("ended-responses-not-followed")) {
    cache_->Add(said.prompt, said.tokens, said.age).IgnoreError();
  }
  return said.size();
}

bool TreeDrafter::CatchUp(int64_t tokens) {
  while (!ended_.empty() && tokens > 0) tokens -= FollowFirst(ended_.begin());
  return !ended_.empty();
}

// Counts what became of the nodes of its last draft that were computed.
void TreeDrafter::Judge(Response& response, absl::Span<const int32_t> tokens, int64_t verified) {
  const engine::DraftTree& tree = response.draft;
  size_t nodes = std::min(tree.tokens.size(), static_cast<size_t>(std::max<int64_t>(0, verified)));
  if (Mutant("unverified-nodes-judged")) nodes = tree.tokens.size();
  std::vector<bool> accepted(tree.tokens.size(), false);
  int32_t node = -1;
  for (const int32_t token : tokens) {
    node = ChildWith(tree, node, token);
    if (node < 0) break;
    accepted[static_cast<size_t>(node)] = true;
  }
  for (size_t i = 0; i < nodes; ++i) {
    stats_.accepted += accepted[i] ? 1 : 0;
    const int32_t parent = tree.parents[i];
    const bool reached = parent < 0 || accepted[static_cast<size_t>(parent)];
    if (reached || Mutant("nodes-not-reached-judged")) {
      acceptance_.Note(response.evidence[i], accepted[i]);
    }
  }
  stats_.verified += static_cast<int64_t>(nodes);
  response.draft = {};
  response.evidence.clear();
}

// All tokens go into the trees, before any response is drafted: each may profit from the others.
std::vector<TreeDrafter::Response*> TreeDrafter::FollowAll(absl::Span<const uint64_t> ids) {
  std::vector<Response*> responses;
  responses.reserve(ids.size());
  for (const uint64_t id : ids) {
    const auto found = responses_.find(id);
    if (found == responses_.end()) continue;
    Response& response = found->second;
    for (auto ended = ended_of_prompt_.find(response.prompt_hash);
         ended != ended_of_prompt_.end() && pass_.followed < kMostAtOnce;
         ended = ended_of_prompt_.find(response.prompt_hash)) {
      pass_.followed += FollowFirst(ended->second);
    }
    pass_.followed += static_cast<int64_t>(response.waiting.size());
    if (Follow(response)) {
      response.asked = true;
      response.draft = {};
      response.evidence.clear();
      responses.push_back(&response);
    } else {
      responses_.erase(found);
    }
  }
  return responses;
}

// Drafts of the responses as far as they may pay at all.
void TreeDrafter::Propose(absl::Span<Response* const> responses, int64_t decoding,
                          int64_t max_nodes) {
  // What a response may get beyond its share it takes from others; more need not be proposed.
  const auto most = static_cast<int>(std::min(
      {kMostPerResponse, max_nodes, std::max(kOverdraft, kOverdraft * max_nodes / decoding)}));
  const double least = kBelief * LeastProbability(decoding, cost_);
  std::vector<DraftQuery> queries;
  queries.reserve(responses.size());
  for (Response* response : responses) {
    queries.push_back({response->cursor.get(), most, &response->proposal, least});
  }
  TreeCache::ProposeDrafts(queries);
}

// Returns how many nodes were chosen of all proposals.
int64_t TreeDrafter::Choose(absl::Span<Response* const> responses, int64_t decoding,
                            int64_t max_nodes) {
  std::vector<NodeProbabilities>& probabilities = scratch_.probabilities;
  std::vector<std::vector<NodeEvidence>>& evidence = scratch_.evidence;
  probabilities.resize(responses.size());
  evidence.resize(responses.size());
  for (size_t i = 0; i < responses.size(); ++i) {
    const rollout::Draft& proposal = responses[i]->proposal;
    stats_.matched += proposal.match_length > 0 ? 1 : 0;
    EvidenceOf(proposal, &evidence[i]);
    probabilities[i].clear();
    for (size_t node = 0; node < evidence[i].size(); ++node) {
      const int32_t parent = proposal.tree.parents[node];
      const double reached = parent < 0 ? 1 : probabilities[i][static_cast<size_t>(parent)];
      probabilities[i].push_back(reached * acceptance_.Of(evidence[i][node]));
    }
  }
  stats_.asked += static_cast<int64_t>(responses.size());
  const std::vector<ChosenNode> chosen =
      ChooseNodes(probabilities, decoding, static_cast<size_t>(max_nodes), cost_);
  std::vector<std::vector<int32_t>> places(responses.size());  // of a proposal's nodes in the draft
  for (const auto& [i, node] : chosen) {
    const engine::DraftTree& proposal = responses[i]->proposal.tree;
    engine::DraftTree& draft = responses[i]->draft;
    places[i].resize(proposal.tokens.size(), -1);
    places[i][node] = static_cast<int32_t>(draft.tokens.size());
    const int32_t parent = proposal.parents[node];
    draft.tokens.push_back(proposal.tokens[node]);
    draft.parents.push_back(parent < 0 ? -1 : places[i][static_cast<size_t>(parent)]);
    responses[i]->evidence.push_back(evidence[i][node]);
  }
  stats_.proposed += static_cast<int64_t>(chosen.size());
  return static_cast<int64_t>(chosen.size());
}

GainGuard& TreeDrafter::GuardOf(int64_t decoding) {
  size_t size = 0;
  while (size + 1 < kGuards && decoding >> (size + 1) > 0) ++size;
  return guards_[Mutant("one-guard-for-all-sizes") ? 0 : size];
}

// Of so many responses that may have drafts, the first ones get them.
size_t TreeDrafter::Asked(size_t responses) {
  const bool full = pass_.decoding >> kFullBatch > 0 && !Mutant("full-batch-tried-whole");
  return full && !GuardOf(pass_.decoding).Pays() ? std::min(responses, kTried) : responses;
}

// Forgets now and then that nothing pays: the best drafts become better as the trees grow.
bool TreeDrafter::MayPayAtAll(int64_t decoding) {
  if (++passes_ % kDoubt == 0) return true;
  const auto asked = static_cast<double>(Asked(static_cast<size_t>(decoding)));
  return MayPay(decoding, most_nodes_, acceptance_.Best(), seconds_a_response_ * asked, cost_);
}

// The last pass is over, and its tokens are known.
void TreeDrafter::Settle() {
  const Pass pass = std::exchange(pass_, {});
  if (pass.rows == 0) return;
  const int64_t rows = pass.decoding + pass.verified;
  const bool few_others = pass.rows <= rows + 1 + rows / kOtherRows;
  if (few_others) cost_.Note(pass.rows, pass.seconds);
  if (!pass.asked || !cost_.known() || pass.ahead) return;
  if (pass.drafted_elsewhere && !few_others) return;
  // In all the time that the pass and its drafts took, also if none of these was chosen. That the
  // trees learn what was said is part of it: they need not where nothing is drafted.
  const double plain_seconds = cost_.Seconds(std::max<int64_t>(1, pass.rows - pass.verified));
  const double seconds = pass.drafted == 0
                             ? plain_seconds
                             : std::min(pass.seconds, kSlowestPass * cost_.Seconds(pass.rows));
  const double most = kSlowestPass * plain_seconds;
  const double follow_seconds =
      std::min(FollowingOf(pass.tokens, pass.followed, pass.follow_seconds), most);
  const double draft_seconds = std::min(pass.draft_seconds, most);
  const double plain = static_cast<double>(pass.decoding) *
                       (seconds + follow_seconds + draft_seconds) / plain_seconds;
  // A response without a draft yields one token.
  GuardOf(pass.decoding).NotePass(static_cast<double>(pass.tokens + pass.unasked), plain);
}

void TreeDrafter::SetAhead(bool ahead) {
  if (std::exchange(ahead_, ahead) == ahead) return;
  vain_ = rest_ = 0;
}

bool TreeDrafter::Rests(int64_t decoding) {
  if (cost_.known() && asked_in_a_row_ >= kPlainEvery && !Mutant("never-a-plain-pass")) return true;
  if (GuardOf(decoding).Rests()) return true;
  if (rest_ > 0) {
    --rest_;
    return true;
  }
  if (!MayPayAtAll(decoding)) return true;
  if (cost_.known()) return false;
  const int64_t time = Mutant("learns-for-ever") ? kLearningSpell : kLearningTime;
  const int64_t pass = learning_++ % time;
  return pass >= kLearningSpell || pass % kLearningPasses != 0;
}

// Nothing paid: the more often, the longer it rests, until drafting takes next to no time.
void TreeDrafter::RestIfInVain() {
  vain_ = pass_.drafted > 0 ? 0 : vain_ + 1;
  if (vain_ < kVainTries || !cost_.known()) return;
  const double share = pass_.draft_seconds / cost_.Seconds(pass_.decoding) / kVainShare;
  const auto enough = static_cast<int64_t>(std::min(share, static_cast<double>(kMostRest)));
  rest_ = std::min(int64_t{1} << std::min<int64_t>(vain_ - kVainTries, 32), enough);
}

bool TreeDrafter::WantsToDraft(int64_t decoding) {
  Settle();
  if (decoding < 1) return false;
  pass_.decoding = decoding;
  pass_.ahead = ahead_ && !Mutant("ahead-teaches-the-guard");
  const bool wants = !Rests(decoding);
  asked_in_a_row_ = wants ? asked_in_a_row_ + 1 : 0;
  return wants;
}

std::vector<engine::DraftTree> TreeDrafter::Draft(absl::Span<const uint64_t> ids,
                                                  int64_t max_nodes) {
  std::vector<engine::DraftTree> trees(ids.size());
  if (ids.empty() || max_nodes < 1) return trees;
  // The others, if any, are drafted by what they said in another life.
  const auto responses_here = static_cast<int64_t>(ids.size());
  pass_.drafted_elsewhere = pass_.decoding > responses_here && !Mutant("drafts-of-others-judged");
  pass_.decoding = std::max(pass_.decoding, responses_here);
  pass_.asked = true;
  most_nodes_ = max_nodes;
  const size_t asked = Asked(ids.size());
  pass_.unasked = pass_.decoding - static_cast<int64_t>(asked);
  const auto called = std::chrono::steady_clock::now();
  const std::vector<Response*> responses = FollowAll(ids.subspan(0, asked));
  const auto began = std::chrono::steady_clock::now();
  pass_.follow_seconds = std::chrono::duration<double>(began - called).count();
  Propose(responses, pass_.decoding, max_nodes);
  // Scores that were never tried may all be too high, and a full batch would pay for each.
  const bool bold = acceptance_.Tried() || Mutant("scores-never-tried-are-trusted");
  const int64_t most = bold ? max_nodes : std::min(max_nodes, pass_.decoding / 4 + kFirstNodes);
  pass_.drafted = Choose(responses, pass_.decoding, most);
  for (size_t i = 0; i < asked && pass_.drafted > 0; ++i) {
    const auto found = responses_.find(ids[i]);
    if (found != responses_.end()) trees[i] = found->second.draft;
  }
  pass_.draft_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  double seconds = pass_.draft_seconds / static_cast<double>(asked);
  // A process that was stopped says nothing of drafting.
  if (seconds_a_response_ > 0) seconds = std::min(seconds, kSlowestDraft * seconds_a_response_);
  seconds_a_response_ += kSecondsFading * (seconds - seconds_a_response_);
  RestIfInVain();
  return trees;
}

void TreeDrafter::PassDone(int64_t rows, double seconds) {
  // Several passes may follow one call of Draft; its drafts were for the first of them.
  if (pass_.rows == 0) {
    pass_.rows = rows;
    pass_.seconds = seconds;
  }
  acceptance_.Fade();
}

void TreeDrafter::End(uint64_t id) {
  const auto found = responses_.find(id);
  if (found == responses_.end()) return;
  Response response = std::move(found->second);
  responses_.erase(found);
  if (response.cursor != nullptr && !Mutant("trees-held-by-ended-responses")) {
    Follow(response);  // Its cursor holds the tree in memory.
    return;
  }
  if (response.waiting.empty()) return;  // It never ran.
  const auto [of_prompt, is_first] = ended_of_prompt_.try_emplace(response.prompt_hash);
  if (is_first) {
    of_prompt->second = ended_.insert(ended_.end(), Ended());
    of_prompt->second->prompt_hash = response.prompt_hash;
  }
  Said said = {std::move(response.prompt), std::move(response.waiting), response.age};
  ended_tokens_ += said.size();
  of_prompt->second->responses.push_back(std::move(said));
  // None of them was asked for a draft, so where so many wait, drafts do not pay.
  while (ended_tokens_ > kMostEnded) {
    Mutant("all-that-ended-is-followed") ? FollowFirst(ended_.begin())
                                         : TakeFirst(ended_.begin()).size();
  }
}

}  // namespace baton::rollout
