#include "bench/speculation/epoch_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>

#include "bench/support/report.h"

namespace baton::bench {
namespace {

constexpr size_t kParts = 20;  // of a run, whose ratios show the noise

void CheckRun(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "speculation_engine_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T>
void AppendTo(std::vector<T>* to, const std::vector<T>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

// The ratio of seconds per token.
double Ratio(double base_seconds, int64_t base_tokens, double seconds, int64_t tokens) {
  return base_seconds / seconds * static_cast<double>(tokens) / static_cast<double>(base_tokens);
}

double CpuRatio(const EpochRun::Turn& base, const EpochRun::Turn& run) {
  return Ratio(base.cpu_seconds, base.tokens, run.cpu_seconds, run.tokens);
}

}  // namespace

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

EpochRun::EpochRun(engine::CausalLM& model, const EpochLoad& load, const EpochOptions& options,
                   engine::Drafter* drafter) {
  engine::GeneratorOptions generator_options;
  generator_options.kv_cache_bytes = int64_t{1} << 30;
  generator_options.max_num_seqs = options.running;
  generator_options.max_draft_nodes = options.draft_tokens;
  generator_options.deterministic = true;
  auto generator = engine::Generator::Create(&model, nullptr, generator_options);
  CheckRun(generator.status());
  generator_ = *std::move(generator);
  generator_->SetDrafter(drafter);
  epoch_.responses.resize(load.responses());
  for (size_t i = 0; i < load.responses(); ++i) {
    engine::GenerateRequest request;
    request.id = i;
    request.prompt = load.PromptOf(i);
    request.params = load.params;
    request.key.job_seed = 1;
    request.key.prompt_id = i / static_cast<size_t>(load.samples);
    request.key.prompt_index = options.epoch;
    request.key.sample = static_cast<uint32_t>(i % static_cast<size_t>(load.samples));
    CheckRun(generator_->Add(std::move(request)));
  }
}

void EpochRun::AdvanceTo(int64_t tokens) {
  const int64_t before = epoch_.tokens;
  const double cpu_began = ThreadSeconds(), wall_began = WallSeconds();
  while (!done() && epoch_.tokens < tokens) Step();
  Turn turn;
  turn.tokens = epoch_.tokens - before;
  turn.cpu_seconds = ThreadSeconds() - cpu_began;
  turn.wall_seconds = WallSeconds() - wall_began;
  turns_.push_back(turn);
}

void EpochRun::Step() {
  const auto updates = generator_->Step();
  CheckRun(updates.status());
  for (const engine::GenerateUpdate& update : *updates) {
    CheckRun(update.error);
    Epoch::Response& response = epoch_.responses[update.id];
    AppendTo(&response.tokens, update.new_tokens);
    AppendTo(&response.log_probs, update.new_log_probs);
    AppendTo(&response.sampling_log_probs, update.new_sampling_log_probs);
    if (update.finished) response.finish_reason = update.finish_reason;
    epoch_.tokens += static_cast<int64_t>(update.new_tokens.size());
  }
}

Epoch RunEpoch(engine::CausalLM& model, const EpochLoad& load, const EpochOptions& options,
               engine::Drafter* drafter) {
  EpochRun run(model, load, options, drafter);
  while (!run.done()) run.AdvanceTo(INT64_MAX);
  return run.epoch();
}

double TakeTurns(absl::Span<EpochRun* const> runs, const TurnOptions& options) {
  std::vector<EpochRun*> order(runs.begin(), runs.end());
  std::mt19937_64 rng(37);
  const auto done = [](const EpochRun* run) { return run->done(); };
  const double end = WallSeconds() + options.seconds;
  for (int64_t round = 1; !std::all_of(runs.begin(), runs.end(), done); ++round) {
    if (WallSeconds() > end) break;
    std::shuffle(order.begin(), order.end(), rng);
    for (EpochRun* run : order) run->AdvanceTo(round * options.tokens);
  }
  return end - WallSeconds();
}

EpochRun::Turn SumOf(absl::Span<const EpochRun::Turn> turns) {
  EpochRun::Turn sum;
  for (const EpochRun::Turn& turn : turns) {
    sum.tokens += turn.tokens;
    sum.cpu_seconds += turn.cpu_seconds;
    sum.wall_seconds += turn.wall_seconds;
  }
  return sum;
}

Speedup SpeedupOf(absl::Span<const EpochRun::Turn> turns, absl::Span<const EpochRun::Turn> base) {
  const EpochRun::Turn all = SumOf(turns), base_all = SumOf(base);
  Speedup speedup;
  speedup.cpu = CpuRatio(base_all, all);
  speedup.wall = Ratio(base_all.wall_seconds, base_all.tokens, all.wall_seconds, all.tokens);
  std::vector<double> ratios;
  const size_t parts = std::min(kParts, turns.size());
  for (size_t i = 0; i < parts; ++i) {
    const size_t from = turns.size() * i / parts, count = turns.size() * (i + 1) / parts - from;
    const EpochRun::Turn part = SumOf(turns.subspan(from, count));
    const EpochRun::Turn base_part = SumOf(base.subspan(from, count));
    // The last turns of a run that was ahead may be empty.
    if (part.tokens > 0 && base_part.tokens > 0) ratios.push_back(CpuRatio(base_part, part));
  }
  speedup.median = Percentile(ratios, 0.5);
  speedup.low = Percentile(ratios, 0.1);
  speedup.high = Percentile(ratios, 0.9);
  return speedup;
}

}  // namespace baton::bench
