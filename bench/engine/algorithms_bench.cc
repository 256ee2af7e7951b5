// Advantages and policy losses on one core: `./dev bench algorithms [--quick] [--json FILE]`.
//
// Advantages are ComputeAdvantages as a step calls it: columns checked, rewards shaped, advantages
// estimated and, where the estimator does, whitened, all metrics. Rows are medians.
//   {estimator}_tokens_per_second   responses of 64 to 4096 tokens, 1 M tokens, groups of 8
//   gae_kl_tokens_per_second        with k3 to the reference in the reward
//   gae_masked_tokens_per_second    every fourth token is the environment's
//   gae_8m_tokens_seconds           8 M tokens (8192 responses of 1024); aim below 0.25 s
//   copy_8m_tokens_seconds          the same three columns copied, for comparison
//   loss_{loss}_tokens_per_second   from log-probs on, forward and backward (algorithms_losses.h)
//   logits_{loss}_v{V}_tokens_per_second   from logits on
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/engine/algorithms_losses.h"
#include "bench/support/report.h"
#include "controller/algorithms/compute_advantages.h"

namespace baton::bench {
namespace {

/// Flat columns and the samples that borrow them.
struct Batch {
  std::vector<float> log_probs, ref_log_probs, values;
  std::vector<uint8_t> mask;
  std::vector<algorithms::Sample> samples;
};

Batch MakeBatch(const std::vector<size_t>& lengths) {
  size_t total = 0;
  for (const size_t length : lengths) total += length;
  Batch b;
  std::mt19937 rng(7);
  const auto column = [&](float low, float width) {
    std::vector<float> out(total);
    for (float& x : out) x = low + width * static_cast<float>(rng() >> 8) * 0x1p-24F;
    return out;
  };
  b.log_probs = column(-3, 3);
  b.ref_log_probs = column(-3, 3);
  b.values = column(-1, 2);
  b.mask.resize(total, 1);
  for (size_t k = 3; k < total; k += 4) b.mask[k] = 0;
  size_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto part = [&](const std::vector<float>& c) {
      return absl::MakeConstSpan(c).subspan(begin, lengths[i]);
    };
    algorithms::Sample s;
    s.group = i / 8;
    s.length = lengths[i];
    s.reward = static_cast<double>(rng() % 2);
    s.reward_baseline = static_cast<double>(rng() % 2);
    s.advantage = s.reward - s.reward_baseline.value();
    s.log_probs = part(b.log_probs);
    s.ref_log_probs = part(b.ref_log_probs);
    s.values = part(b.values);
    b.samples.push_back(s);
    begin += lengths[i];
  }
  return b;
}

void SetMasks(Batch& b) {
  size_t begin = 0;
  for (algorithms::Sample& s : b.samples) {
    s.mask = absl::MakeConstSpan(b.mask).subspan(begin, s.length);
    begin += s.length;
  }
}

double AdvantageSeconds(const Batch& b, const std::string& name, const Options& options,
                        int repeats) {
  const auto spec = algorithms::MakeEstimatorSpec(name, options);
  const auto run = [&] {
    const auto out =
        algorithms::ComputeAdvantages(b.samples, *spec, algorithms::InitialState(*spec));
    if (!out.ok() || !std::isfinite(out->metrics.at("critic/advantages/mean"))) {
      std::fprintf(stderr, "algorithms_bench: %s failed\n", name.c_str());
      std::exit(1);
    }
  };
  return MedianSeconds(repeats, run);
}

void MeasureAdvantages(bool quick, Report& report) {
  const int repeats = quick ? 3 : 11;
  std::mt19937 rng(1);
  std::vector<size_t> lengths;
  double tokens = 0;
  while (tokens < (quick ? 1e5 : 1e6)) {
    lengths.push_back(64 + rng() % 4033);
    tokens += static_cast<double>(lengths.back());
  }
  Batch b = MakeBatch(lengths);
  for (const std::string& name : EstimatorNames()) {
    report.Add(name + "_tokens_per_second", tokens / AdvantageSeconds(b, name, {}, repeats),
               "tokens/s");
  }
  const Options kl = {{"use_kl_in_reward", true}, {"kl_penalty", std::string("k3")}};
  report.Add("gae_kl_tokens_per_second", tokens / AdvantageSeconds(b, "gae", kl, repeats),
             "tokens/s");
  SetMasks(b);
  report.Add("gae_masked_tokens_per_second", tokens / AdvantageSeconds(b, "gae", {}, repeats),
             "tokens/s");
  const Batch large = MakeBatch(std::vector<size_t>(quick ? 512 : 8192, 1024));
  report.Add(quick ? "gae_0.5m_tokens_seconds" : "gae_8m_tokens_seconds",
             AdvantageSeconds(large, "gae", {}, repeats), "s", "aim for 8 M tokens: below 0.25");
  report.Add(quick ? "copy_0.5m_tokens_seconds" : "copy_8m_tokens_seconds",
             MedianSeconds(repeats,
                           [&] {
                             const std::vector<float> a = large.values, c = large.log_probs,
                                                      d = large.ref_log_probs;
                             if (a[0] + c[0] + d[0] == 12345) std::puts("");
                           }),
             "s", "three columns copied");
}

void MeasureLosses(bool quick, Report& report) {
  const int repeats = quick ? 3 : 11;
  const int64_t tokens = quick ? 1 << 14 : 1 << 17;
  for (const char* loss : {"ppo_clip", "gspo", "cispo", "reinforce"}) {
    report.Add(absl::StrCat("loss_", loss, "_tokens_per_second"),
               LossTokensPerSecond(loss, tokens, repeats), "tokens/s");
  }
  for (const int64_t vocabulary : {int64_t{1024}, int64_t{32768}}) {
    for (const char* loss : {"ppo_clip", "gspo"}) {
      const int64_t rows = (quick ? 1 << 20 : 1 << 23) / vocabulary;
      report.Add(absl::StrCat("logits_", loss, "_v", vocabulary, "_tokens_per_second"),
                 LogitsTokensPerSecond(loss, rows, vocabulary, repeats), "tokens/s");
    }
  }
}

int RunBench(const std::string& json, bool quick) {
  at::set_num_threads(1);
  Report report("algorithms");
  MeasureAdvantages(quick, report);
  MeasureLosses(quick, report);
  report.Print();
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  std::string json;
  bool quick = false;
  CLI::App app("Measures advantages and policy losses on one thread.");
  app.add_option("--json", json, "Write the rows here");
  app.add_flag("--quick", quick, "Smaller batches, fewer repetitions");
  CLI11_PARSE(app, argc, argv);
  return baton::bench::RunBench(json, quick);
}
