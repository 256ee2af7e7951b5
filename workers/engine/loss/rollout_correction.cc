#include "workers/engine/loss/rollout_correction.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/exceptions.h"

namespace baton::engine {
namespace {

constexpr double kMaxCorrectionLog = 20;

double Bounded(double log) { return std::clamp(log, -kMaxCorrectionLog, kMaxCorrectionLog); }

/// The numbers of a sequence that metrics and the aggregation need. Ranks exchange these numbers,
/// and not their sums: each rank then adds up the same numbers in the same order, so the totals do
/// not depend on how the batch was divided. Doubles alone, 0 for the sequences of others.
struct SequenceNumbers {
  double tokens = 0;      ///< Unmasked, of the policy.
  double kept = 0;        ///< Those of `tokens` that are kept.
  double weight_sum = 0;  ///< Sum of truncated weights over tokens, as all up to `low`.
  double weight_squares = 0;
  double truncated = 0;  ///< At or above the threshold.
  double high = 0;       ///< Above it.
  double low = 0;        ///< Below its inverse.
  double highest = 0;    ///< Before the threshold.
  double lowest = 0;
  double rs_sum = 0;  ///< Sum over tokens of the value that rollout_rs compares.
  double rs_highest = 0;
  double rs_lowest = 0;
  double out_of_bounds = 0;  ///< Tokens that rollout_rs rejects.
  double catastrophic = 0;   ///< Tokens below the threshold of the veto.
};
constexpr size_t kNumbers = sizeof(SequenceNumbers) / sizeof(double);
static_assert(sizeof(SequenceNumbers) % sizeof(double) == 0 &&
                  std::is_trivially_copyable_v<SequenceNumbers>,
              "ranks exchange SequenceNumbers as doubles alone");

/// The log-ratios of a sequence's unmasked tokens.
struct LogRatios {
  std::vector<int64_t> at;  ///< Index of the response token.
  std::vector<double> d;
  double sum = 0;
};

LogRatios LogRatiosOf(const TrainSequence& s) {
  LogRatios out;
  for (int64_t r = 0; r < s.response_length(); ++r) {
    if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
    out.at.push_back(r);
    out.d.push_back(static_cast<double>(s.old_log_probs[r]) - s.behaviour_log_probs[r]);
    out.sum += out.d.back();
  }
  return out;
}

void WeighTokens(const LogRatios& ratios, const TrainSequence& s, const LossSpec& loss,
                 SequenceCorrection& correction, SequenceNumbers& numbers) {
  const double threshold = loss.rollout_is_threshold, log_threshold = std::log(threshold);
  correction.weights.assign(static_cast<size_t>(s.response_length()), 0);
  numbers.lowest = std::numeric_limits<double>::infinity();
  for (size_t m = 0; m < ratios.d.size(); ++m) {
    const double log = loss.rollout_is == "sequence" ? ratios.sum : ratios.d[m];
    const double ratio = std::exp(Bounded(log));
    const double weight = std::min(ratio, threshold);
    correction.weights[static_cast<size_t>(ratios.at[m])] = weight;
    numbers.weight_sum += weight;
    numbers.weight_squares += weight * weight;
    numbers.truncated += ratio >= threshold ? 1 : 0;
    numbers.high += log > log_threshold ? 1 : 0;
    numbers.low += log < -log_threshold ? 1 : 0;
    numbers.highest = std::max(numbers.highest, ratio);
    numbers.lowest = std::min(numbers.lowest, ratio);
  }
}

/// Whether rollout_rs keeps each of the tokens. There is at least one.
std::vector<bool> KeptByBounds(const LogRatios& ratios, const LossSpec& loss,
                               SequenceNumbers& numbers) {
  const size_t tokens = ratios.d.size();
  std::vector<double> x = ratios.d;
  const bool by_ratio = RejectsByRatio(loss);
  if (!by_ratio) {
    for (double& value : x) value = std::expm1(Bounded(value)) - Bounded(value);
  }
  const auto all = [&](double value) { x.assign(tokens, value); };
  if (loss.rollout_rs == "sequence") all(ratios.sum);
  if (loss.rollout_rs == "geometric") all(ratios.sum / static_cast<double>(tokens));
  if (loss.rollout_rs == "seq_max_k3") all(*std::max_element(x.begin(), x.end()));
  if (loss.rollout_rs == "seq_mean_k3") {
    double sum = 0;
    for (const double value : x) sum += value;
    all(sum / static_cast<double>(tokens));
  }
  const double upper = by_ratio ? std::log(loss.rollout_rs_threshold) : loss.rollout_rs_threshold;
  const double lower = by_ratio ? std::log(LowestKeptRatio(loss)) : 0;
  std::vector<bool> kept;
  numbers.rs_lowest = std::numeric_limits<double>::infinity();
  for (const double value : x) {
    const double shown = by_ratio ? std::exp(Bounded(value)) : value;
    numbers.rs_sum += shown;
    numbers.rs_highest = std::max(numbers.rs_highest, shown);
    numbers.rs_lowest = std::min(numbers.rs_lowest, shown);
    kept.push_back(value <= upper && value >= lower);
  }
  return kept;
}

void Reject(const LogRatios& ratios, const TrainSequence& s, const LossSpec& loss,
            SequenceCorrection& correction, SequenceNumbers& numbers) {
  const size_t tokens = ratios.d.size();
  std::vector<bool> kept(tokens, true);
  if (!loss.rollout_rs.empty()) kept = KeptByBounds(ratios, loss, numbers);
  numbers.out_of_bounds = static_cast<double>(std::count(kept.begin(), kept.end(), false));
  if (loss.rollout_token_veto_threshold > 0) {
    const double least = std::log(loss.rollout_token_veto_threshold);
    numbers.catastrophic = static_cast<double>(
        std::count_if(ratios.d.begin(), ratios.d.end(), [&](double d) { return d < least; }));
    if (numbers.catastrophic > 0) kept.assign(tokens, false);
  }
  correction.kept.assign(static_cast<size_t>(s.response_length()), 0);
  for (size_t m = 0; m < tokens; ++m) {
    correction.kept[static_cast<size_t>(ratios.at[m])] = kept[m] ? 1 : 0;
  }
  numbers.kept = static_cast<double>(std::count(kept.begin(), kept.end(), true));
}

/// Sums over the sequences of the batch that have unmasked tokens of the policy.
struct Totals {
  SequenceNumbers sums;  ///< But the highest and the lowest.
  double sequences = 0, any_high = 0, any_low = 0, any_out_of_bounds = 0, vetoed = 0;
  double weight_of_sequences = 0;  ///< Sum of each sequence's mean weight.
};

Totals TotalsOf(absl::Span<const SequenceNumbers> all) {
  Totals out;
  out.sums.lowest = out.sums.rs_lowest = std::numeric_limits<double>::infinity();
  for (const SequenceNumbers& n : all) {
    if (n.tokens == 0) continue;
    out.sequences += 1;
    out.sums.tokens += n.tokens;
    out.sums.weight_sum += n.weight_sum;
    out.sums.weight_squares += n.weight_squares;
    out.sums.truncated += n.truncated;
    out.sums.high += n.high;
    out.sums.low += n.low;
    out.sums.highest = std::max(out.sums.highest, n.highest);
    out.sums.lowest = std::min(out.sums.lowest, n.lowest);
    out.sums.rs_sum += n.rs_sum;
    out.sums.rs_highest = std::max(out.sums.rs_highest, n.rs_highest);
    out.sums.rs_lowest = std::min(out.sums.rs_lowest, n.rs_lowest);
    out.sums.out_of_bounds += n.out_of_bounds;
    out.sums.catastrophic += n.catastrophic;
    out.any_high += n.high > 0 ? 1 : 0;
    out.any_low += n.low > 0 ? 1 : 0;
    out.any_out_of_bounds += n.out_of_bounds > 0 ? 1 : 0;
    out.vetoed += n.catastrophic > 0 ? 1 : 0;
    out.weight_of_sequences += n.weight_sum / n.tokens;
  }
  return out;
}

/// The divisor of rollout_is_batch_normalize; 1 if all weights are nearly 0.
double MeanWeight(const Totals& totals, const LossSpec& loss) {
  const double mean = loss.rollout_is == "sequence" ? totals.weight_of_sequences / totals.sequences
                                                    : totals.sums.weight_sum / totals.sums.tokens;
  return mean > 1e-8 ? mean : 1;
}

void AddCorrectionMetrics(const Totals& totals, const LossSpec& loss,
                          std::map<std::string, double>& metrics) {
  const double tokens = totals.sums.tokens, sequences = totals.sequences;
  const auto set = [&](const char* name, double value) {
    metrics[std::string("rollout_corr/rollout_") + name] = value;
  };
  if (!loss.rollout_is.empty()) {
    const double mean = totals.sums.weight_sum / tokens;
    const double square = totals.sums.weight_squares / tokens;
    const bool by_sequence = loss.rollout_is == "sequence";
    set("is_mean", mean);
    set("is_std", std::sqrt(std::max(0.0, square - mean * mean)));
    set("is_max", totals.sums.highest);
    set("is_min", totals.sums.lowest);
    set("is_ratio_fraction_high",
        by_sequence ? totals.any_high / sequences : totals.sums.high / tokens);
    set("is_ratio_fraction_low",
        by_sequence ? totals.any_low / sequences : totals.sums.low / tokens);
    set("is_truncated", totals.sums.truncated / tokens);
    set("is_eff_sample_size", square > 0 ? mean * mean / square : 0);
    if (loss.rollout_is_batch_normalize) set("is_batch_norm_factor", MeanWeight(totals, loss));
  }
  if (!loss.rollout_rs.empty()) {
    set("rs_mean", totals.sums.rs_sum / tokens);
    set("rs_max", totals.sums.rs_highest);
    set("rs_min", totals.sums.rs_lowest);
    set("rs_masked_fraction", totals.sums.out_of_bounds / tokens);
    set("rs_seq_masked_fraction", totals.any_out_of_bounds / sequences);
  }
  if (loss.rollout_token_veto_threshold > 0) {
    set("is_veto_fraction", totals.vetoed / sequences);
    set("is_catastrophic_token_fraction", totals.sums.catastrophic / tokens);
  }
}

/// Adds what the other ranks know. (A sum with zeros is exact.)
absl::Status Exchange(std::vector<SequenceNumbers>& numbers, RankAgreement& ranks) {
  try {
    return ranks.SumUnlessFailed(
        absl::OkStatus(),
        absl::MakeSpan(reinterpret_cast<double*>(numbers.data()), numbers.size() * kNumbers));
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

}  // namespace

absl::StatusOr<RolloutCorrection> CorrectRollout(absl::Span<const TrainSequence> batch,
                                                 absl::Span<const int64_t> share,
                                                 const LossSpec& loss, RankAgreement& ranks) {
  RolloutCorrection out;
  if (RolloutCorrections(loss).empty()) return out;
  const bool rejects = !loss.rollout_rs.empty() || loss.rollout_token_veto_threshold > 0;
  out.sequences.resize(batch.size());
  std::vector<SequenceNumbers> numbers(batch.size());
  for (const int64_t index : share) {
    const size_t i = static_cast<size_t>(index);
    const TrainSequence& s = batch[i];
    if (s.pretraining) continue;
    const LogRatios ratios = LogRatiosOf(s);
    if (ratios.d.empty()) continue;
    numbers[i].tokens = numbers[i].kept = static_cast<double>(ratios.d.size());
    if (!loss.rollout_is.empty()) WeighTokens(ratios, s, loss, out.sequences[i], numbers[i]);
    if (rejects) Reject(ratios, s, loss, out.sequences[i], numbers[i]);
  }
  BATON_RETURN_IF_ERROR(Exchange(numbers, ranks));
  for (size_t i = 0; i < batch.size(); ++i) {
    out.counts.push_back(batch[i].pretraining ? batch[i].CountUnmasked()
                                              : static_cast<int64_t>(numbers[i].kept));
  }
  const Totals totals = TotalsOf(numbers);
  if (totals.sequences == 0) return out;  // pretraining text alone
  AddCorrectionMetrics(totals, loss, out.metrics);
  if (loss.rollout_is_batch_normalize && !loss.rollout_is.empty()) {
    const double mean = MeanWeight(totals, loss);
    for (SequenceCorrection& sequence : out.sequences) {
      for (double& weight : sequence.weights) weight /= mean;
    }
  }
  return out;
}

void DropRejected(absl::Span<const SequenceCorrection> sequences, PackedRows& packed) {
  std::vector<int64_t> rows, sequence_index, response_index;
  for (size_t m = 0; m < packed.sequence_index.size(); ++m) {
    const std::vector<uint8_t>& kept =
        sequences[static_cast<size_t>(packed.sequence_index[m])].kept;
    if (!kept.empty() && kept[static_cast<size_t>(packed.response_index[m])] == 0) continue;
    rows.push_back(static_cast<int64_t>(m));
    sequence_index.push_back(packed.sequence_index[m]);
    response_index.push_back(packed.response_index[m]);
  }
  if (rows.size() == packed.sequence_index.size()) return;
  const torch::Tensor chosen = ToTensor(rows);
  packed.prediction_rows = packed.prediction_rows.index_select(0, chosen);
  packed.targets = packed.targets.index_select(0, chosen);
  packed.sequence_index = std::move(sequence_index);
  packed.response_index = std::move(response_index);
}

}  // namespace baton::engine
