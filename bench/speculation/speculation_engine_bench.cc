// The gain of speculative rollout at the level of the engine, with one model: `./dev bench
// speculation_engine [--quick] [--json FILE]`; `./dev bench speculation` runs it on the checkpoints
// of a job.
//
// One compute thread and a worker's environment. An epoch is --samples responses to each of the
// first --num-prompts lines of --prompts (or to sums that are made up), at temperature 1 and top_p
// 1, with the model of --model (a model's folder or a checkpoint's) or a random one (--init).
// Epochs differ in their random numbers alone.
//
// With K responses at once (--running) all ways to generate epoch 2 take turns of some
// milliseconds (epoch_run.h). They do so again, with new drafters, until all of them together took
// --seconds; so the last epoch is not finished. A speedup is seconds for a token without drafts
// over those with drafts, in CPU time of the thread. Notes give it in parts of the run (tenth
// percentile, median, ninetieth), and in wall-clock time. /L being --label:
//
//   tokens_per_second_off/{K}     without drafts
//   noise/{K}                     speedup of a second run without drafts: 1, but for the machine
//   generation_speedup/{K}        with a rollout's drafter (`auto`) that generated epoch 1 before
//   new_job_speedup/{K}           with a rollout's drafter that knows nothing: siblings alone help
//   history_only_speedup/{K}      it knows epoch 1, and no response knows what others of epoch 2
//                                 say, for each has trees of its own. They take --samples times the
//                                 memory, which a large batch of a small model feels
//   ceiling/{K}                   with perfect drafts (OracleDrafter), at most 64 tokens each;
//                                 --draft-tokens are shared as `auto` does
//   auto_over_off/{case}/{K}      other histories of a new drafter.
//                                 cold_cache: none, and siblings do not help either.
//                                 hostile_prefix: responses to the prompt that are right in the
//                                 first 4 tokens and random after them. hostile_stretches: right
//                                 and random by turns, 4 tokens each
//   {any of these}_spread         of its parts, the ninetieth percentile less the tenth
//   accepted_per_step/{K}         `auto`: draft tokens drawn, by pass with a draft
//   drafted_per_token/{K}         draft tokens computed, over all tokens
//   drafting/{K}                  share of its time in the drafter
//   identical_tokens/{K}          1: every run with drafts gave the tokens and the log-probs of the
//                                 run without, bit for bit
//   auto_over_off_worst_case      the least of the cases, and of new_job_speedup and
//                                 generation_speedup at the largest K (a full batch); aim: at least
//                                 0.98
//   entropy/epoch_{E}             mean token entropy, estimated from the tokens drawn
//   ngram_overlap/epoch_{E}       share of its 4-grams that an earlier response to the prompt had
//   replay/{way}/{nodes}/accepted_per_draft   recorded responses: the last of --epochs is replayed,
//                                 those before it are the history (draft_methods.h)
//
// It exits with 1 if a run with drafts gave anything else than the run without.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/speculation/draft_methods.h"
#include "bench/speculation/epoch_run.h"
#include "bench/speculation/speculation_drafters.h"
#include "bench/speculation/speculation_traces.h"
#include "bench/support/report.h"
#include "bench/support/worker_environment.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "workers/policy/policy_source.h"

namespace baton::bench {
namespace {

struct BenchOptions {
  std::string model, prompts, label, json;
  int64_t hidden_size = 512, layers = 8;  // of a random model
  double logit_scale = 1;                 // of a random model
  int64_t num_prompts = 64, samples = 16, digits = 6;
  int64_t max_new_tokens = 240, draft_tokens = 128;
  std::vector<int64_t> running = {1, 2, 4, 8, 64};
  int64_t turn_tokens = 128, turn_passes = 8;
  double seconds = 60;
  int epochs = 3;
  bool cpu_clock = false, skip_worst = false, skip_replay = false, quick = false;

  void MakeQuick() {
    hidden_size = 32, layers = 1, logit_scale = 8;
    num_prompts = 4, samples = 3, max_new_tokens = 24;
    running = {2};
    seconds = 2, epochs = 2;
  }
};

/// The measurements.
struct Subject {
  std::unique_ptr<policy::PolicySource> source;
  std::unique_ptr<engine::CausalLM> model;
  EpochLoad load;
};

absl::StatusOr<std::vector<std::string>> PromptTexts(const BenchOptions& options) {
  std::vector<std::string> texts;
  const auto wanted = static_cast<size_t>(options.num_prompts);
  if (options.prompts.empty()) {
    std::mt19937_64 rng(13);
    int64_t below = 1;
    for (int64_t i = 0; i < options.digits; ++i) below *= 10;
    const auto number = [&] { return rng() % static_cast<uint64_t>(below); };
    while (texts.size() < wanted) texts.push_back(absl::StrCat(number(), "+", number(), ":"));
    return texts;
  }
  std::ifstream in(options.prompts);
  for (std::string line; texts.size() < wanted && std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(options.prompts, ":", texts.size() + 1,
                                                     ": expected {\"prompt\": \"text\"}"));
    }
    texts.push_back(json["prompt"].get<std::string>());
  }
  if (texts.size() < wanted) {
    return absl::InvalidArgumentError(absl::StrCat(options.prompts, " has ", texts.size(),
                                                   " prompts; --num-prompts is ", wanted));
  }
  return texts;
}

v1::ModelSpec SpecOf(const BenchOptions& options) {
  v1::ModelSpec spec;
  spec.set_chat_template("auto");
  spec.set_dtype("float32");
  if (!options.model.empty()) return spec;
  spec.mutable_init()->set_characters("0123456789+=:# ");
  spec.mutable_init()->set_hidden_size(static_cast<int32_t>(options.hidden_size));
  spec.mutable_init()->set_num_hidden_layers(static_cast<int32_t>(options.layers));
  spec.mutable_init()->set_num_attention_heads(
      static_cast<int32_t>(std::max<int64_t>(1, options.hidden_size / 64)));
  spec.mutable_init()->set_max_position_embeddings(512);
  spec.mutable_init()->set_tie_word_embeddings(false);
  return spec;
}

// A random model draws almost any token; with larger logits it has preferences, as a trained one.
void ScaleLogits(double scale, engine::CausalLM& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.parameters()) {
    if (name == "lm_head.weight") torch::Tensor(tensor).mul_(scale);
  }
}

absl::StatusOr<Subject> OpenSubject(const BenchOptions& options) {
  Subject subject;
  BATON_ASSIGN_OR_RETURN(subject.source,
                         policy::PolicySource::Open(SpecOf(options), options.model));
  BATON_ASSIGN_OR_RETURN(subject.model, subject.source->LoadModel(torch::kFloat32, torch::kCPU, 1));
  subject.load.samples = options.samples;
  subject.load.params.max_new_tokens = options.max_new_tokens;
  if (options.model.empty()) {
    ScaleLogits(options.logit_scale, *subject.model);  // And it never stops.
  } else {
    subject.load.params.stop_token_ids = subject.source->stop_token_ids();
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> texts, PromptTexts(options));
  for (const std::string& text : texts) {
    BATON_ASSIGN_OR_RETURN(const policy::Prompt prompt, subject.source->RenderPrompt({}, text));
    BATON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, subject.source->EncodePrompt(prompt, 0));
    subject.load.prompts.push_back(std::move(tokens));
  }
  return subject;
}

class SpeculationBench {
 public:
  SpeculationBench(const BenchOptions& options, Subject* subject)
      : options_(options),
        model_(*subject->model),
        load_(subject->load),
        vocab_size_(subject->model->config().vocab_size),
        full_(*std::max_element(options.running.begin(), options.running.end())) {}

  /// The epochs without drafts: what all other runs must repeat.
  void Record() {
    for (int e = 0; e < options_.epochs; ++e) {
      recorded_.push_back(RunEpoch(model_, load_, OptionsOf(e, full_, nullptr), nullptr));
      Add(absl::StrCat("entropy/epoch_", e + 1), MeanEntropy(recorded_.back()), "nats");
      Add(absl::StrCat("ngram_overlap/epoch_", e + 1),
          NgramOverlap(load_, recorded_, recorded_.size() - 1, 4), "share");
    }
  }

  void Measure(int64_t running) {
    std::printf("%lld at once\n", static_cast<long long>(running));
    std::fflush(stdout);
    std::vector<Measured> measured;
    bool same = true;
    for (double left = options_.seconds; left > 0 || measured.empty();) {
      std::vector<Way> methods = AllWays(running);
      std::vector<EpochRun*> runs;
      for (Way& method : methods) runs.push_back(method.run.get());
      left =
          TakeTurns(runs, {std::max(options_.turn_tokens, options_.turn_passes * running), left});
      measured.resize(methods.size());
      for (size_t i = 0; i < methods.size(); ++i) {
        same = same && IsPartOf(methods[i].run->epoch(), recorded_[1]);
        measured[i].Add(methods[i].name, *methods[i].run);
      }
    }
    AddRows(running, measured);
    Add(absl::StrCat("identical_tokens/", running), same ? 1 : 0, "");
    all_same_ = all_same_ && same;
  }

  void Replay() {
    for (const int64_t nodes : {8, 32}) {
      for (const NamedDraftMethod& named : AllDraftMethods()) {
        Add(absl::StrCat("replay/", named.name, "/", nodes, "/accepted_per_draft"),
            AcceptedPerDraft(*named.method, load_, recorded_, nodes), "tokens");
      }
    }
  }

  /// False: a run with drafts gave something else.
  bool AddTo(Report& report) const {
    for (const Row& row : rows_) report.Add(row.name, row.value, row.unit, row.note);
    if (!options_.skip_worst) {
      report.Add(Labelled("auto_over_off_worst_case"), worst_, "x", "aim: at least 0.98");
    }
    return all_same_;
  }

 private:
  static constexpr char kAuto[] = "generation_speedup";
  static constexpr char kNewJob[] = "new_job_speedup";

  // A way to generate epoch 2.
  struct Way {
    std::string name;  // of its row
    std::unique_ptr<engine::Drafter> drafter, timed;
    std::unique_ptr<EpochRun> run;
  };
  // The outcome of one way, over all epochs.
  struct Measured {
    std::string name;
    std::vector<EpochRun::Turn> turns;
    int64_t draft_passes = 0, draft_tokens = 0, accepted = 0;
    double draft_seconds = 0;

    void Add(const std::string& method, const EpochRun& run) {
      name = method;
      turns.insert(turns.end(), run.turns().begin(), run.turns().end());
      const engine::DraftStats drafts = run.drafts();
      draft_passes += drafts.passes;
      draft_tokens += drafts.rows;
      accepted += drafts.accepted;
      draft_seconds += drafts.draft_seconds;
    }
  };
  struct Row {
    std::string name;
    double value;
    std::string unit, note;
  };

  std::string Labelled(const std::string& name) const {
    return options_.label.empty() ? name : absl::StrCat(name, "/", options_.label);
  }
  void Add(const std::string& name, double value, const std::string& unit,
           const std::string& note = "") {
    rows_.push_back({Labelled(name), value, unit, note});
  }
  void AddSpeedup(const std::string& name, int64_t running, const Speedup& speedup) {
    Add(absl::StrCat(name, "/", running), speedup.cpu, "x",
        absl::StrFormat("%.3f, %.3f, %.3f; wall %.3f", speedup.low, speedup.median, speedup.high,
                        speedup.wall));
    Add(absl::StrCat(name, "_spread/", running), speedup.high - speedup.low, "x");
    const bool full = running == full_ && (name == kAuto || name == kNewJob);
    if (full || name.rfind("auto_over_off/", 0) == 0) worst_ = std::min(worst_, speedup.cpu);
  }
  // The first is without drafts.
  void AddRows(int64_t running, const std::vector<Measured>& measured) {
    const std::vector<EpochRun::Turn>& off = measured[0].turns;
    Add(absl::StrCat("tokens_per_second_off/", running),
        static_cast<double>(SumOf(off).tokens) / SumOf(off).cpu_seconds, "tokens/s");
    for (size_t i = 1; i < measured.size(); ++i) {
      const Measured& method = measured[i];
      AddSpeedup(method.name, running, SpeedupOf(method.turns, off));
      if (method.name != kAuto) continue;
      Add(absl::StrCat("accepted_per_step/", running),
          static_cast<double>(method.accepted) /
              static_cast<double>(std::max<int64_t>(1, method.draft_passes)),
          "tokens");
      Add(absl::StrCat("drafted_per_token/", running),
          static_cast<double>(method.draft_tokens) /
              static_cast<double>(SumOf(method.turns).tokens),
          "");
      Add(absl::StrCat("drafting/", running),
          method.draft_seconds / SumOf(method.turns).wall_seconds, "share");
    }
  }

  EpochOptions OptionsOf(int epoch, int64_t running, const engine::Drafter* drafter) const {
    EpochOptions options;
    options.epoch = static_cast<uint64_t>(epoch);
    options.running = running;
    options.draft_tokens = drafter == nullptr ? 0 : options_.draft_tokens;
    return options;
  }
  Way MakeWay(const std::string& name, int64_t running, std::unique_ptr<engine::Drafter> drafter) {
    Way method;
    method.name = name;
    method.drafter = std::move(drafter);
    engine::Drafter* heard = method.drafter.get();
    if (heard != nullptr && options_.cpu_clock) {
      method.timed = std::make_unique<CpuClockDrafter>(heard);
      heard = method.timed.get();
    }
    method.run = std::make_unique<EpochRun>(model_, load_, OptionsOf(1, running, heard), heard);
    return method;
  }

  // The first is without drafts.
  std::vector<Way> AllWays(int64_t running) {
    std::vector<Way> methods;
    const auto add = [&](const std::string& name, std::unique_ptr<engine::Drafter> drafter) {
      methods.push_back(MakeWay(name, running, std::move(drafter)));
    };
    add("off", nullptr);
    add("noise", nullptr);
    add(kAuto, DrafterOfEpochOne(running));
    add(kNewJob, DrafterWith(load_, {}));
    add("history_only_speedup", IsolatedDrafterWith(load_, ResponsesOf(recorded_[0])));
    add("ceiling", std::make_unique<OracleDrafter>(&recorded_[1], 64));
    if (options_.skip_worst) return methods;
    constexpr size_t kStretch = 4;
    const auto misled = [&](size_t random) {
      return DrafterWith(load_, MisleadingHistory(recorded_[1], {kStretch, random}, vocab_size_));
    };
    add("auto_over_off/cold_cache", IsolatedDrafterWith(load_, {}));
    add("auto_over_off/hostile_prefix", misled(SIZE_MAX));
    add("auto_over_off/hostile_stretches", misled(kStretch));
    return methods;
  }

  // A rollout's drafter that has generated epoch 1. If that takes long, it only hears of the rest.
  std::unique_ptr<rollout::TreeDrafter> DrafterOfEpochOne(int64_t running) {
    constexpr double kShare = 0.1;  // of --seconds
    auto drafter = DrafterWith(load_, {});
    CpuClockDrafter timed(drafter.get());
    engine::Drafter* heard = drafter.get();
    if (options_.cpu_clock) heard = &timed;
    Epoch epoch;
    {
      EpochRun run(model_, load_, OptionsOf(0, running, heard), heard);
      EpochRun* const only = &run;
      TakeTurns({&only, 1}, {options_.turn_tokens, kShare * options_.seconds});
      epoch = run.epoch();
    }
    all_same_ = all_same_ && IsPartOf(epoch, recorded_[0]);
    for (size_t i = 0; i < load_.responses(); ++i) {
      if (!epoch.responses[i].finish_reason.empty()) continue;
      drafter->Begin(i, load_.PromptOf(i), {});
      drafter->Append(i, recorded_[0].responses[i].tokens, {});
      drafter->End(i);
    }
    drafter->SetActorUpdates(2);
    return drafter;
  }

  const BenchOptions& options_;
  engine::CausalLM& model_;
  const EpochLoad& load_;
  const int64_t vocab_size_, full_;
  std::vector<Epoch> recorded_;
  std::vector<Row> rows_;
  double worst_ = HUGE_VAL;
  bool all_same_ = true;
};

int RunBench(const BenchOptions& options) {
  at::set_num_threads(1);
  auto subject = OpenSubject(options);
  if (!subject.ok()) {
    std::fprintf(stderr, "speculation_engine_bench: %s\n",
                 std::string(subject.status().message()).c_str());
    return 1;
  }
  std::printf("model of %lld parameters; %zu responses an epoch\n",
              static_cast<long long>(subject->model->config().NumParameters()),
              subject->load.responses());
  SpeculationBench bench(options, &*subject);
  bench.Record();
  for (const int64_t running : options.running) bench.Measure(running);
  if (!options.skip_replay) bench.Replay();
  Report report("speculation_engine");
  const bool same = bench.AddTo(report);
  report.Print();
  if (!same) {
    std::fprintf(stderr, "speculation_engine_bench: a run with drafts gave other responses\n");
  }
  const bool written = options.json.empty() || report.WriteJson(options.json);
  return same && written ? 0 : 1;
}

int Main(int argc, char** argv) {
  BenchOptions options;
  CLI::App app("Speculative rollout: what it gains at the level of the engine");
  app.add_option("--json", options.json, "Write the rows to this file");
  app.add_option("--label", options.label, "Ends the name of each row, e.g. early");
  app.add_option("--model", options.model, "A model's folder or a checkpoint's; else a random one");
  app.add_option("--hidden-size", options.hidden_size, "Of a random model")->capture_default_str();
  app.add_option("--layers", options.layers, "Of a random model")->capture_default_str();
  app.add_option("--logit-scale", options.logit_scale, "A random model's logits times this")
      ->capture_default_str();
  app.add_option("--prompts", options.prompts, "JSON lines with a prompt; else sums are made up");
  app.add_option("--digits", options.digits, "Of the numbers made up")
      ->check(CLI::Range(1, 18))
      ->capture_default_str();
  app.add_option("--num-prompts", options.num_prompts)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Responses to a prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-new-tokens", options.max_new_tokens)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--draft-tokens", options.draft_tokens, "That one pass may verify")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--running", options.running, "Responses at once; several, by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--turn-tokens", options.turn_tokens, "That each way makes in a turn, at least")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--turn-passes", options.turn_passes, "At least, of the way without drafts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "For each K, all ways together")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Recorded")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  app.add_flag("--cpu-clock", options.cpu_clock,
               "Drafters hear of the CPU time of passes: as on a machine that runs nothing else");
  app.add_flag("--skip-worst", options.skip_worst, "No cold caches and hostile histories");
  app.add_flag("--skip-replay", options.skip_replay, "No other ways to draft");
  app.add_flag("--quick", options.quick, "A tiny random model and few responses");
  CLI11_PARSE(app, argc, argv);
  if (options.quick) options.MakeQuick();
  return RunBench(options);
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  baton::bench::RestartAsWorker(argv);
  return baton::bench::Main(argc, argv);
}
