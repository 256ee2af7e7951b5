#include "bench/speculation_traces.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <set>
#include <utility>

namespace baton::bench {
namespace {

void CheckTrace(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "speculation_engine_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

template <typename T>
void AppendTo(std::vector<T>* to, const std::vector<T>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
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

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Epoch RunEpoch(engine::CausalLM& model, const EpochLoad& load, const EpochOptions& options,
               engine::Drafter* drafter) {
  engine::GeneratorOptions generator_options;
  generator_options.kv_cache_bytes = int64_t{1} << 30;
  generator_options.max_num_seqs = options.running;
  generator_options.max_draft_nodes = options.draft_tokens;
  generator_options.deterministic = true;
  auto generator = engine::Generator::Create(&model, nullptr, generator_options);
  CheckTrace(generator.status());
  (*generator)->SetDrafter(drafter);
  Epoch epoch;
  epoch.responses.resize(load.responses());
  const double began = ThreadSeconds();
  for (size_t i = 0; i < load.responses(); ++i) {
    engine::GenerateRequest request;
    request.id = i;
    request.prompt = load.PromptOf(i);
    request.params = load.params;
    request.key.job_seed = 1;
    request.key.prompt_id = i / static_cast<size_t>(load.samples);
    request.key.draw = options.epoch;
    request.key.sample = static_cast<uint32_t>(i % static_cast<size_t>(load.samples));
    CheckTrace((*generator)->Add(std::move(request)));
  }
  while (!(*generator)->idle()) {
    const auto updates = (*generator)->Step();
    CheckTrace(updates.status());
    for (const engine::GenerateUpdate& update : *updates) {
      CheckTrace(update.error);
      Epoch::Response& response = epoch.responses[update.id];
      AppendTo(&response.tokens, update.new_tokens);
      AppendTo(&response.log_probs, update.new_log_probs);
      AppendTo(&response.sampling_log_probs, update.new_sampling_log_probs);
      if (update.finished) response.finish_reason = update.finish_reason;
    }
  }
  epoch.cpu_seconds = ThreadSeconds() - began;
  const engine::GeneratorStats stats = (*generator)->stats();
  epoch.tokens = stats.generated_tokens;
  epoch.drafts = stats.drafts;
  return epoch;
}

bool Identical(const Epoch& a, const Epoch& b) {
  if (a.responses.size() != b.responses.size()) return false;
  for (size_t i = 0; i < a.responses.size(); ++i) {
    const Epoch::Response &x = a.responses[i], &y = b.responses[i];
    if (x.tokens != y.tokens || x.finish_reason != y.finish_reason ||
        !SameBits(x.log_probs, y.log_probs) ||
        !SameBits(x.sampling_log_probs, y.sampling_log_probs)) {
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
