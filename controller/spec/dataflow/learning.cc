#include "controller/spec/dataflow/learning.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/message_differencer.h"

namespace baton::controller {
namespace {

using Metrics = std::map<std::string, double>;

// Names in LearningRow.symptoms. They are stored: never rename one.
constexpr absl::string_view kNoUpdate = "no_update";
constexpr absl::string_view kAllRejected = "all_rejected";
constexpr absl::string_view kZeroAdvantages = "zero_advantages";
constexpr absl::string_view kConstantReward = "constant_reward";
constexpr absl::string_view kLowEntropyName = "low_entropy";
constexpr absl::string_view kTruncated = "truncated";
constexpr absl::string_view kSkipped = "skipped";
constexpr absl::string_view kSymptoms[] = {kNoUpdate,       kAllRejected,    kZeroAdvantages,
                                           kConstantReward, kLowEntropyName, kTruncated,
                                           kSkipped};

std::optional<double> ValueIn(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  return found->second;
}

bool AllEqual(const Metrics& metrics, const std::string& name) {
  const auto low = ValueIn(metrics, name + "/min"), high = ValueIn(metrics, name + "/max");
  return low.has_value() && high.has_value() && *low == *high;
}

// "step 7", or "steps 5 to 7".
std::string StepRange(int64_t first, int64_t last) {
  return first == last ? absl::StrCat("step ", last) : absl::StrCat("steps ", first, " to ", last);
}

std::string CountOf(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// The actor was given a batch, but no token of the policy was left for its loss: rollout_rs, the
// veto or masks removed all of them. (An update whose steps were all skipped fails instead.)
bool AllRejected(const StepOutcome& outcome) {
  return outcome.actor_learns && ValueIn(outcome.metrics, "actor/optimizer_steps") == 0;
}

// The symptoms of one step. Of the first four, only the first that fits: each explains the next.
std::vector<absl::string_view> SymptomsOf(const v1::JobSpec& spec, const StepOutcome& outcome) {
  std::vector<absl::string_view> out;
  const Metrics& metrics = outcome.metrics;
  if (spec.kind() == v1::JOB_KIND_RL) {
    if (outcome.actor_learns && !outcome.actor_updated) {
      out.push_back(kNoUpdate);
    } else if (AllRejected(outcome)) {
      out.push_back(kAllRejected);
    } else if (outcome.actor_learns && AllEqual(metrics, "critic/advantages") &&
               ValueIn(metrics, "critic/advantages/max") == 0) {
      out.push_back(kZeroAdvantages);
    } else if (AllEqual(metrics, "critic/score")) {
      out.push_back(kConstantReward);
    }
    const auto entropy = ValueIn(metrics, "actor/entropy");
    if (entropy.has_value() && *entropy < kLowEntropy) out.push_back(kLowEntropyName);
    const auto cut = ValueIn(metrics, "response_length/clip_ratio");
    if (cut.has_value() && *cut >= 1) out.push_back(kTruncated);
  }
  const bool skipped = absl::c_any_of(metrics, [](const auto& metric) {
    return absl::EndsWith(metric.first, "/skipped_steps") && metric.second > 0;
  });
  if (skipped) out.push_back(kSkipped);
  return out;
}

bool IsIdle(absl::string_view symptom) {
  return symptom == kNoUpdate || symptom == kAllRejected || symptom == kZeroAdvantages;
}

// Explains why no token of the newest step was left, with advice.
std::string WhyRejected(const v1::JobSpec& spec, const Metrics& metrics) {
  if (!ValueIn(metrics, "rollout_corr/rollout_rs_masked_fraction") &&
      !ValueIn(metrics, "rollout_corr/rollout_is_veto_fraction")) {
    return "the loss masks left no token of any response; read some responses with `baton samples`";
  }
  std::string out =
      "rollout_rs or rollout_token_veto_threshold rejected every token, so the policy is far from "
      "the distribution that the responses were sampled from (see metrics rollout_corr/…; "
      "rollout_rs_mean, rollout_rs_max and rollout_rs_min are of what is compared with "
      "rollout_rs_threshold); ";
  // The ratio is that of the truncated distribution: if tokens were cut it is below 1 even for the
  // same weights, and the product over a response is still lower.
  std::vector<absl::string_view> cuts;
  if (spec.rollout().top_k() > 0) cuts.push_back("rollout.top_k");
  if (spec.rollout().has_top_p() && spec.rollout().top_p() < 1) cuts.push_back("rollout.top_p");
  if (!cuts.empty()) {
    const std::string names = absl::StrJoin(cuts, " and ");
    absl::StrAppend(&out, names, cuts.size() == 1 ? " moves" : " move",
                    " that distribution away from the policy even where the weights are the same: "
                    "leave out ",
                    names, ", ");
  }
  absl::StrAppend(&out, "widen the thresholds in algorithm.loss, or lower actor.lr");
  return out;
}

// Explains why all groups of the newest step are zero-advantage, with advice.
std::string EqualRewards(const v1::JobSpec& spec, const Metrics& metrics) {
  const bool constant = AllEqual(metrics, "critic/score");
  std::string out = "all rewards of each group were equal";
  if (spec.rollout().n() == 1) {
    return absl::StrCat(out,
                        ", because rollout.n is 1 and a single response has nothing to be compared "
                        "with; set rollout.n to 4 or more");
  }
  if (constant) {
    return absl::StrCat(
        out, " (every response had reward ", *ValueIn(metrics, "critic/score/max"),
        "); read some responses with `baton samples`: if the reward should differ, correct it (a "
        "rule's "
        "`extract` or `pattern` may never match), else the task is too easy or too hard");
  }
  return absl::StrCat(out,
                      "; the task is too easy or too hard for the policy, or its answers to one "
                      "prompt are all the same: change the data, or raise rollout.n or "
                      "rollout.temperature");
}

std::string SkippedText(const Metrics& metrics) {
  double skipped = 0;
  for (const auto& [name, value] : metrics) {
    if (absl::EndsWith(name, "/skipped_steps")) skipped += value;
  }
  return CountOf(std::llround(skipped), "optimizer update");
}

// The warning about a symptom that has lasted from step `first` to this one.
std::string WarningOf(const v1::JobSpec& spec, absl::string_view symptom, int64_t first,
                      const StepOutcome& outcome) {
  const std::string steps = StepRange(first, outcome.step);
  const Metrics& metrics = outcome.metrics;
  if (symptom == kNoUpdate) {
    return absl::StrCat(steps, " made no update: ", EqualRewards(spec, metrics));
  }
  if (symptom == kAllRejected) {
    return absl::StrCat(steps, " made no update: ", WhyRejected(spec, metrics));
  }
  if (symptom == kZeroAdvantages) {
    return absl::StrCat(steps, " had nothing to learn from: every advantage was 0",
                        AllEqual(metrics, "critic/score")
                            ? absl::StrCat(", and ", EqualRewards(spec, metrics))
                            : std::string());
  }
  if (symptom == kConstantReward) {
    return absl::StrCat(
        "in ", steps, " every response had the same reward (",
        *ValueIn(metrics, "critic/score/max"),
        "); read some responses with `baton samples`: a reward that never differs teaches "
        "nothing");
  }
  if (symptom == kLowEntropyName) {
    return absl::StrCat(
        "the policy hardly varies its answers any more: its entropy was below ", kLowEntropy,
        " nats a token in ", steps, " (", *ValueIn(metrics, "actor/entropy"),
        " in the last), so the responses to one prompt are nearly the same; unless the reward is "
        "as good as you want it, go back to an earlier checkpoint with a lower actor.lr or a "
        "higher algorithm.entropy_coeff");
  }
  if (symptom == kTruncated) {
    return absl::StrCat("in ", steps, " every response was cut at data.max_response_length (",
                        spec.data().max_response_length(),
                        " tokens), and none ended by itself; raise it, give rollout.stop, or check "
                        "model.chat_template");
  }
  return absl::StrCat(steps, " skipped ", SkippedText(metrics),
                      ": the loss or its gradient was not a finite number; `baton logs` has the "
                      "reasons; lower actor.lr if it goes on");
}

std::string SummaryOf(const v1::JobSpec& spec, absl::string_view symptom, int64_t count,
                      int64_t steps) {
  const std::string of = absl::StrCat(count, " of ", CountOf(steps, "step"));
  if (symptom == kNoUpdate) {
    return absl::StrCat(of, " made no update: all rewards of each group were equal");
  }
  if (symptom == kAllRejected) {
    return absl::StrCat(of, " made no update: every token was rejected or masked");
  }
  if (symptom == kZeroAdvantages) {
    return absl::StrCat(of, " had nothing to learn from: every advantage was 0");
  }
  if (symptom == kConstantReward) {
    return absl::StrCat("in ", of, " every response had the same reward");
  }
  if (symptom == kLowEntropyName) {
    return absl::StrCat("in ", of, " the policy hardly varied its answers: entropy below ",
                        kLowEntropy, " nats a token");
  }
  if (symptom == kTruncated) {
    return absl::StrCat("in ", of, " every response was cut at data.max_response_length (",
                        spec.data().max_response_length(), " tokens)");
  }
  return absl::StrCat(of, " skipped optimizer updates: the loss or its gradient was not finite");
}

// Counts one symptom; true: a warning is due.
bool CountSymptom(bool shown, int64_t patience, store::v1::SymptomRow* row) {
  if (!shown) {
    row->set_run(0);
    // The symptom must be absent for a while before it can begin again.
    if (row->open() && row->gone() + 1 >= kStepsToWarn) row->set_open(false);
    row->set_gone(row->gone() + 1);
    return false;
  }
  row->set_gone(0);
  row->set_run(row->run() + 1);
  row->set_steps(row->steps() + 1);
  if (row->open() || row->run() < patience) return false;
  row->set_open(true);
  if (row->warnings() >= kMostWarnings) return false;
  row->set_warnings(row->warnings() + 1);
  return true;
}

bool IsBetter(double value, double than, bool lower, double by) {
  return lower ? value < than - by : value > than + by;
}

// A measurement for trainer.early_stop.
void NoteStop(const v1::EarlyStopSpec& spec, int64_t step, double value,
              store::v1::LearningRow* row) {
  const bool lower = LowerIsBetter(spec.metric(), spec.mode());
  if (spec.has_target() && (lower ? value <= spec.target() : value >= spec.target())) {
    row->set_stop_reason(absl::StrCat(spec.metric(), " is ", value, " after step ", step,
                                      ", and trainer.early_stop.target is ", spec.target()));
    return;
  }
  if (!row->has_stop_best() || IsBetter(value, row->stop_best(), lower, spec.min_delta())) {
    row->set_stop_best(value);
    row->set_stop_best_step(step);
    row->set_stop_misses(0);
    return;
  }
  row->set_stop_misses(row->stop_misses() + 1);
  if (row->stop_misses() < spec.patience()) return;
  row->set_stop_reason(absl::StrCat(spec.metric(), " has not become better than ", row->stop_best(),
                                    " (step ", row->stop_best_step(), ") in ",
                                    CountOf(row->stop_misses(), "measurement"), "; after step ",
                                    step, " it is ", value));
}

// A metric's value, if it is measured here; warns once if it should be measured but is not.
std::optional<double> Measured(const std::string& setting, const std::string& metric,
                               const Metrics& metrics, bool evaluation, LearningNews* news,
                               store::v1::LearningRow* row) {
  const auto value = ValueIn(metrics, metric);
  if (value.has_value() && std::isfinite(*value)) return value;
  const bool due = absl::StartsWith(metric, "val") == evaluation;
  if (!due || value.has_value()) return std::nullopt;
  auto& missed = *row->mutable_missing();
  if (absl::c_find(missed, metric) != missed.end()) return std::nullopt;
  *missed.Add() = metric;
  std::vector<std::string> names;
  for (const auto& [name, unused] : metrics) {
    if (!evaluation || absl::StartsWith(name, "val")) names.push_back(name);
  }
  news->warnings.push_back(
      absl::StrCat(setting, ": ", evaluation ? "the evaluation" : "the step", " has not measured '",
                   metric, "', so it has no effect; measured were ", absl::StrJoin(names, ", ")));
  return std::nullopt;
}

// The settings that decide what a metric measures. Settings that only bound time, memory or the
// size of a batch are left out, because values under other bounds can be compared.
v1::JobSpec WhatIsMeasured(const v1::JobSpec& spec, absl::string_view metric) {
  const bool evaluation = absl::StartsWith(metric, "val");
  v1::JobSpec out;
  v1::DataSpec& data = *out.mutable_data() = spec.data();
  data.clear_train_batch_size();
  data.clear_gen_batch_size();
  v1::RolloutSpec& rollout = *out.mutable_rollout() = spec.rollout();
  rollout.clear_max_num_seqs();
  rollout.clear_kv_cache_bytes();
  rollout.clear_tensor_model_parallel_size();
  rollout.clear_deterministic();
  rollout.clear_speculation();
  v1::RewardSpec& reward = *out.mutable_reward() = spec.reward();
  reward.clear_command_processes();
  reward.clear_timeout_seconds();
  reward.clear_startup_seconds();
  reward.clear_max_error_rate();
  *out.mutable_judge() = spec.judge();
  if (evaluation) {
    rollout.clear_n();
    rollout.clear_temperature();
    rollout.clear_top_p();
    rollout.clear_top_k();
  } else {
    data.clear_val_files();
    data.clear_val_max_samples();
    rollout.clear_val();
    *out.mutable_algorithm() = spec.algorithm();
  }
  return out;
}

bool MeasuresAnother(absl::string_view metric, const v1::JobSpec& before,
                     const v1::JobSpec& after) {
  return !google::protobuf::util::MessageDifferencer::Equals(WhatIsMeasured(before, metric),
                                                             WhatIsMeasured(after, metric));
}

}  // namespace

LearningNews NoteStep(const v1::JobSpec& spec, const StepOutcome& outcome,
                      store::v1::LearningRow* row) {
  LearningNews news;
  const std::vector<absl::string_view> shown = SymptomsOf(spec, outcome);
  for (const absl::string_view symptom : kSymptoms) {
    const bool here = absl::c_find(shown, symptom) != shown.end();
    if (!here && !row->symptoms().contains(std::string(symptom))) continue;
    store::v1::SymptomRow& counted = (*row->mutable_symptoms())[std::string(symptom)];
    const int64_t patience = symptom == kSkipped ? 1 : kStepsToWarn;
    if (!CountSymptom(here, patience, &counted)) continue;
    news.warnings.push_back(WarningOf(spec, symptom, outcome.step - counted.run() + 1, outcome));
  }
  const bool idle = absl::c_any_of(shown, IsIdle);
  row->set_idle_run(idle ? row->idle_run() + 1 : 0);
  const int64_t limit = spec.trainer().fail_after_idle_steps();
  if (limit > 0 && row->idle_run() >= limit) {
    news.failure = absl::FailedPreconditionError(
        absl::StrCat(CountOf(row->idle_run(), "step"), " in a row, ",
                     StepRange(outcome.step - row->idle_run() + 1, outcome.step),
                     ", had nothing to learn from (trainer.fail_after_idle_steps: ", limit,
                     "), the last because ",
                     AllRejected(outcome) ? WhyRejected(spec, outcome.metrics)
                                          : EqualRewards(spec, outcome.metrics)));
  }
  return news;
}

LearningNews NoteValues(const v1::JobSpec& spec, int64_t step, const Metrics& metrics,
                        bool evaluation, store::v1::LearningRow* row) {
  LearningNews news;
  const v1::TrainerSpec& trainer = spec.trainer();
  if (!trainer.keep_best().empty()) {
    const auto value =
        Measured("trainer.keep_best", trainer.keep_best(), metrics, evaluation, &news, row);
    const bool lower = LowerIsBetter(trainer.keep_best(), trainer.keep_best_mode());
    if (value.has_value() && (!row->has_best() || IsBetter(*value, row->best(), lower, 0))) {
      row->set_best(*value);
      row->set_best_step(step);
    }
  }
  if (trainer.has_early_stop() && row->stop_reason().empty()) {
    const v1::EarlyStopSpec& early = trainer.early_stop();
    const auto value =
        Measured("trainer.early_stop.metric", early.metric(), metrics, evaluation, &news, row);
    if (value.has_value()) NoteStop(early, step, *value, row);
  }
  return news;
}

std::vector<std::string> LearningSummary(const v1::JobSpec& spec, int64_t steps,
                                         const store::v1::LearningRow& row) {
  std::vector<std::string> out;
  for (const absl::string_view symptom : kSymptoms) {
    const auto found = row.symptoms().find(std::string(symptom));
    if (found == row.symptoms().end()) continue;
    const int64_t count = found->second.steps();
    if (count == 0 || (found->second.warnings() == 0 && count * 10 < steps)) continue;
    out.push_back(SummaryOf(spec, symptom, count, steps));
  }
  return out;
}

void BeginAnewWith(const v1::JobSpec& before, const v1::JobSpec& after,
                   store::v1::LearningRow* row) {
  const v1::TrainerSpec &was = before.trainer(), &is = after.trainer();
  if (was.keep_best() != is.keep_best() || was.keep_best_mode() != is.keep_best_mode() ||
      MeasuresAnother(is.keep_best(), before, after)) {
    row->clear_best();
    row->clear_best_step();
    row->clear_missing();
  }
  const v1::EarlyStopSpec &stopped = was.early_stop(), &stops = is.early_stop();
  if (stopped.metric() != stops.metric() || stopped.mode() != stops.mode() ||
      MeasuresAnother(stops.metric(), before, after)) {
    row->clear_stop_best();
    row->clear_stop_best_step();
    row->clear_stop_misses();
    row->clear_missing();
  }
}

void ForgetEnding(bool has_best_checkpoint, store::v1::LearningRow* row) {
  row->clear_stop_reason();
  row->clear_stop_misses();
  row->clear_idle_run();
  if (has_best_checkpoint) return;
  row->clear_best();
  row->clear_best_step();
}

bool LowerIsBetter(absl::string_view metric, absl::string_view mode) {
  if (!mode.empty()) return mode == "min";
  const std::vector<absl::string_view> parts = absl::StrSplit(metric, '/');
  const std::vector<absl::string_view> words = absl::StrSplit(parts.back(), absl::ByAnyChar("_-."));
  return absl::c_any_of(words, [](absl::string_view word) {
    return word == "loss" || word == "error" || word == "errors" || word == "kl" ||
           word == "cost" || word == "costs" || word == "perplexity" || word == "ppl";
  });
}

}  // namespace baton::controller
