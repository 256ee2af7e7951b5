#include "bench/speculation/speculation_traces.h"

#include <cstring>
#include <set>
#include <utility>

namespace baton::bench {
namespace {

// Bit for bit.
template <typename T>
bool BeginsWith(const std::vector<T>& all, const std::vector<T>& first) {
  return first.size() <= all.size() &&
         (first.empty() || std::memcmp(all.data(), first.data(), first.size() * sizeof(T)) == 0);
}

using Ngrams = std::set<std::vector<int32_t>>;

// Adds the n-grams of `tokens`. How many `known` had before.
size_t CountKnown(const std::vector<int32_t>& tokens, size_t n, const Ngrams& known, Ngrams* added,
                  size_t* all) {
  size_t count = 0;
  for (size_t i = 0; i + n <= tokens.size(); ++i) {
    std::vector<int32_t> ngram(tokens.begin() + i, tokens.begin() + i + n);
    count += known.count(ngram);
    ++*all;
    added->insert(std::move(ngram));
  }
  return count;
}

}  // namespace

bool IsPartOf(const Epoch& part, const Epoch& whole) {
  if (part.responses.size() != whole.responses.size()) return false;
  for (size_t i = 0; i < part.responses.size(); ++i) {
    const Epoch::Response &x = part.responses[i], &y = whole.responses[i];
    const bool ended = !x.finish_reason.empty();
    if (ended && (x.finish_reason != y.finish_reason || x.tokens.size() != y.tokens.size())) {
      return false;
    }
    if (!BeginsWith(y.tokens, x.tokens) || !BeginsWith(y.log_probs, x.log_probs) ||
        !BeginsWith(y.sampling_log_probs, x.sampling_log_probs)) {
      return false;
    }
  }
  return true;
}

double MeanEntropy(const Epoch& epoch) {
  double sum = 0;
  for (const Epoch::Response& response : epoch.responses) {
    for (const float log_prob : response.log_probs) sum -= log_prob;
  }
  return sum / static_cast<double>(epoch.tokens);
}

double NgramOverlap(const EpochLoad& load, const std::vector<Epoch>& epochs, size_t which,
                    size_t n) {
  const auto samples = static_cast<size_t>(load.samples);
  size_t known_ones = 0, all = 0, ignored = 0;
  for (size_t p = 0; p < load.prompts.size(); ++p) {
    Ngrams known;
    for (size_t e = 0; e <= which; ++e) {
      for (size_t i = p * samples; i < (p + 1) * samples; ++i) {
        // A response does not know its own n-grams.
        Ngrams own;
        const size_t count =
            CountKnown(epochs[e].responses[i].tokens, n, known, &own, e == which ? &all : &ignored);
        if (e == which) known_ones += count;
        known.merge(own);
      }
    }
  }
  return all == 0 ? 0 : static_cast<double>(known_ones) / static_cast<double>(all);
}

}  // namespace baton::bench
