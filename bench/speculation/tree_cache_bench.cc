// The tree cache of speculative rollout on one core:
// `./dev bench tree_cache [--quick] [--json FILE] [--responses FILE]`.
//
// Made responses are phrases of 8 to 24 tokens. A phrase is one of its prompt's earlier ones with
// probability r ("reuse"), or is drawn from a vocabulary of 32,000 with Zipf's law. 256 prompts
// have 4 responses of 512 tokens each, appended in turn, one token a call, so that a call finds its
// tree outside the CPU's own caches. Then each prompt has one response more, which asks for a draft
// of 16 nodes after each token. Drafts without a node do not count. For r of 0.5, 0.9 and 0.99:
//
//   append_us/{r}               one call of Append with one token; aim: at most 0.4. CPU time over
//                               a whole cache, the median of five caches
//   bytes_per_token/{r}         allocated, over tokens stored; aim for r 0.5: at most 100
//   draft_us_p50/{r}, _p99      the match advances by a token, which is stored, and a draft is
//                               made; aim of p50: at most 1. The clock's own cost is subtracted
//   propose_us_p50/{r}, _p99    of that, the draft alone
//   draft_ns_per_node/{r}       all time of drafts over their nodes; what other programs of the
//                               machine take is in it
//   nodes_per_draft/{r}         aim: at least 8
//   accepted_per_draft/{r}      tokens of the draft that the response did go on with
//   batch_draft_us/{r}/threads_{n}   a draft of a batch, without the advance; the threads share the
//                               responses
// --responses FILE: the same of recorded responses instead, as rows .../recorded. Each line of FILE
// is {"prompt": [token, ...], "response": [token, ...]}. The last response of a prompt asks for
// drafts, and the others are its history.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/support/report.h"
#include "nlohmann/json.hpp"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::bench {
namespace {

using rollout::Draft;
using rollout::DraftQuery;
using rollout::ResponseCursor;
using rollout::TreeCache;
using Clock = std::chrono::steady_clock;
using Tokens = std::vector<int32_t>;

constexpr int kBudget = 16;

/// The responses to one prompt. The last one asks for drafts.
struct PromptLoad {
  Tokens prompt;
  std::vector<Tokens> responses;
};

class Zipf {
 public:
  explicit Zipf(size_t vocabulary) {
    double sum = 0;
    for (size_t rank = 1; rank <= vocabulary; ++rank) {
      sum += 1.0 / static_cast<double>(rank);
      cumulative_.push_back(sum);
    }
  }
  int32_t operator()(std::mt19937_64& rng) const {
    const double at = std::uniform_real_distribution<>(0, cumulative_.back())(rng);
    return static_cast<int32_t>(std::lower_bound(cumulative_.begin(), cumulative_.end(), at) -
                                cumulative_.begin());
  }

 private:
  std::vector<double> cumulative_;
};

std::vector<PromptLoad> MadeLoad(double reuse, size_t prompts, size_t responses, size_t tokens) {
  static const Zipf zipf(32'000);
  std::mt19937_64 rng(17);
  std::vector<PromptLoad> load(prompts);
  for (size_t p = 0; p < prompts; ++p) {
    for (int i = 0; i < 32; ++i) load[p].prompt.push_back(zipf(rng));
    load[p].prompt.push_back(static_cast<int32_t>(p));
    std::vector<Tokens> phrases;
    for (size_t r = 0; r < responses + 1; ++r) {
      Tokens response;
      while (response.size() < tokens) {
        if (phrases.empty() || std::uniform_real_distribution<>(0, 1)(rng) >= reuse) {
          phrases.emplace_back(8 + rng() % 17);
          for (int32_t& token : phrases.back()) token = zipf(rng);
          response.insert(response.end(), phrases.back().begin(), phrases.back().end());
        } else {
          const Tokens& phrase = phrases[rng() % phrases.size()];
          response.insert(response.end(), phrase.begin(), phrase.end());
        }
      }
      response.resize(tokens);
      load[p].responses.push_back(std::move(response));
    }
  }
  return load;
}

/// Empty: the file has none, or a line that is not as it should be (said on standard error).
std::vector<PromptLoad> RecordedLoad(const std::string& path) {
  std::ifstream in(path);
  std::map<Tokens, std::vector<Tokens>> by_prompt;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const auto json = nlohmann::json::parse(line);
      by_prompt[json.at("prompt").get<Tokens>()].push_back(json.at("response").get<Tokens>());
    } catch (const nlohmann::json::exception& error) {
      std::fprintf(stderr, "%s:%d: %s; expected {\"prompt\": [..], \"response\": [..]}\n",
                   path.c_str(), number, error.what());
      return {};
    }
  }
  std::vector<PromptLoad> load;
  for (auto& [prompt, responses] : by_prompt) load.push_back({prompt, std::move(responses)});
  if (load.empty()) std::fprintf(stderr, "%s has no responses\n", path.c_str());
  return load;
}

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The time that this thread has computed: other programs of the machine leave it alone.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The time between two readings of the clock with nothing between them.
double ClockSeconds() {
  std::vector<double> empty;
  for (int i = 0; i < 20'000; ++i) {
    const auto from = Clock::now();
    empty.push_back(Seconds(from, Clock::now()));
  }
  return Percentile(empty, 0.5);
}

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "tree_cache_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

/// A cache and the cursors of the responses that ask for drafts.
class Measured {
 public:
  Measured(const std::vector<PromptLoad>& load, std::string suffix, Report* report)
      : load_(load), suffix_(std::move(suffix)), report_(*report) {}

  /// Fills a cache `repeats` times, each time a fresh one. The last stays.
  void MeasureAppends(int repeats, bool aims) {
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
      cache_ = nullptr;
      auto cache = TreeCache::Create({});
      Require(cache.status());
      cache_ = *std::move(cache);
      seconds.push_back(Fill());
    }
    const rollout::TreeCacheStats stats = cache_->stats();
    if (stats.tokens == 0) return;
    const auto tokens = static_cast<double>(stats.tokens);
    Add("append_us", 1e6 * Percentile(seconds, 0.5) / tokens, "us", "aim: at most 0.4");
    Add("bytes_per_token", static_cast<double>(stats.bytes) / tokens, "bytes",
        aims ? "aim: at most 100" : "");
  }

  void MeasureDrafts() {
    for (const PromptLoad& prompt : load_) {
      cursors_.push_back(cache_->Begin(prompt.prompt, 0));
      drafts_.emplace_back();
    }
    const double clock = ClockSeconds();
    std::vector<double> both, alone;
    double total = 0, nodes = 0, accepted = 0;
    bool left = true;
    for (size_t i = 0; left; ++i) {
      left = false;
      for (size_t p = 0; p < load_.size(); ++p) {
        const Tokens& response = load_[p].responses.back();
        if (i >= response.size()) continue;
        left = true;
        Draft& draft = drafts_[p];
        const auto from = Clock::now();
        const absl::Status appended = cursors_[p]->Append({&response[i], 1});
        const auto advanced = Clock::now();
        cursors_[p]->ProposeDraft(kBudget, &draft);
        const auto to = Clock::now();
        Require(appended);
        if (draft.tree.tokens.empty()) continue;
        both.push_back(Seconds(from, to) - 2 * clock);
        alone.push_back(Seconds(advanced, to) - clock);
        total += both.back();
        nodes += static_cast<double>(draft.tree.tokens.size());
        accepted += Accepted(draft, absl::MakeConstSpan(response).subspan(i + 1));
      }
    }
    if (both.empty()) return;
    const auto count = static_cast<double>(both.size());
    Add("draft_us_p50", 1e6 * Percentile(both, 0.5), "us", "aim: at most 1");
    Add("draft_us_p99", 1e6 * Percentile(both, 0.99), "us", "");
    Add("propose_us_p50", 1e6 * Percentile(alone, 0.5), "us", "");
    Add("propose_us_p99", 1e6 * Percentile(alone, 0.99), "us", "");
    Add("draft_ns_per_node", 1e9 * total / nodes, "ns", "");
    Add("nodes_per_draft", nodes / count, "", "aim: at least 8");
    Add("accepted_per_draft", accepted / count, "tokens", "");
  }

  /// The drafts of all responses, again and again.
  void MeasureBatches(int threads, int repeats) {
    std::vector<std::vector<DraftQuery>> queries(static_cast<size_t>(threads));
    for (size_t p = 0; p < cursors_.size(); ++p) {
      queries[p % queries.size()].push_back({cursors_[p].get(), kBudget, &drafts_[p]});
    }
    const auto from = Clock::now();
    std::vector<std::thread> running;
    for (const auto& part : queries) {
      running.emplace_back([&part, repeats] {
        for (int i = 0; i < repeats; ++i) TreeCache::ProposeDrafts(part);
      });
    }
    for (std::thread& thread : running) thread.join();
    const double seconds = Seconds(from, Clock::now());
    const double drafts = static_cast<double>(cursors_.size()) * repeats;
    Add("batch_draft_us", 1e6 * seconds / drafts, "us",
        threads > 1 ? "with as many cores free: a part of the row above" : "",
        absl::StrCat("/threads_", threads));
  }

 private:
  /// Appends all responses but the last of each prompt, a token of each in turn. The seconds of it.
  double Fill() {
    struct Call {
      ResponseCursor* cursor;
      int32_t token;
    };
    struct Source {
      std::unique_ptr<ResponseCursor> cursor;
      const Tokens* tokens;
    };
    std::vector<Source> sources;
    for (size_t r = 0, left = 1; left > 0; ++r) {
      left = 0;
      for (const PromptLoad& prompt : load_) {
        if (r + 1 >= prompt.responses.size()) continue;
        sources.push_back({cache_->Begin(prompt.prompt, 0), &prompt.responses[r]});
        ++left;
      }
    }
    std::vector<Call> calls;
    for (size_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      for (const Source& source : sources) {
        if (i >= source.tokens->size()) continue;
        calls.push_back({source.cursor.get(), (*source.tokens)[i]});
        ++left;
      }
    }
    const double from = CpuSeconds();
    for (const Call& call : calls) Require(call.cursor->Append({&call.token, 1}));
    return CpuSeconds() - from;
  }

  static double Accepted(const Draft& draft, absl::Span<const int32_t> tokens) {
    size_t accepted = 0;
    int32_t parent = -1;
    for (size_t i = 0; i < draft.tree.tokens.size() && accepted < tokens.size(); ++i) {
      if (draft.tree.parents[i] != parent || draft.tree.tokens[i] != tokens[accepted]) continue;
      parent = static_cast<int32_t>(i);
      ++accepted;
    }
    return static_cast<double>(accepted);
  }

  void Add(const std::string& name, double value, const std::string& unit, const std::string& note,
           const std::string& end = "") {
    report_.Add(absl::StrCat(name, "/", suffix_, end), value, unit, note);
  }

  const std::vector<PromptLoad>& load_;
  const std::string suffix_;
  Report& report_;
  std::unique_ptr<TreeCache> cache_;
  std::vector<std::unique_ptr<ResponseCursor>> cursors_;
  std::vector<Draft> drafts_;
};

void Measure(const std::vector<PromptLoad>& load, const std::string& suffix, bool aims, bool quick,
             Report* report) {
  Measured measured(load, suffix, report);
  measured.MeasureAppends(quick ? 1 : 5, aims);
  measured.MeasureDrafts();
  for (const int threads : {1, 2}) measured.MeasureBatches(threads, quick ? 2 : 200);
}

int Main(int argc, char** argv) {
  CLI::App app("Tree cache: what drafts and appends cost");
  std::string json, responses;
  bool quick = false;
  app.add_option("--json", json, "Write the rows to this file");
  app.add_option("--responses", responses, "Measure these recorded responses instead");
  app.add_flag("--quick", quick, "Few and short responses");
  CLI11_PARSE(app, argc, argv);
  Report report("tree_cache");
  if (!responses.empty()) {
    const std::vector<PromptLoad> load = RecordedLoad(responses);
    if (load.empty()) return 1;
    Measure(load, "recorded", false, quick, &report);
  } else {
    for (const auto& [reuse, suffix] :
         {std::pair<double, const char*>{0.5, "0.5"}, {0.9, "0.9"}, {0.99, "0.99"}}) {
      const auto load = quick ? MadeLoad(reuse, 16, 2, 128) : MadeLoad(reuse, 256, 4, 512);
      Measure(load, suffix, reuse == 0.5, quick, &report);
    }
  }
  report.Print();
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) { return baton::bench::Main(argc, argv); }
