#include "workers/engine/loss/micro_batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::engine {
namespace {

absl::Status TooLong(int64_t index, int64_t length, int64_t max_token_len) {
  return absl::InvalidArgumentError(
      absl::StrCat("max_token_len: ", max_token_len, " cannot hold sequence ", index,
                   ", which has ", length, " rows; raise max_token_len or shorten the sequence"));
}

}  // namespace

torch::Tensor ToTensor(const std::vector<int64_t>& values) {
  return torch::tensor(at::ArrayRef<int64_t>(values), torch::kInt64);
}

int64_t TrainSequence::CountUnmasked() const {
  if (loss_mask.empty()) return response_length();
  return std::count_if(loss_mask.begin(), loss_mask.end(), [](uint8_t m) { return m != 0; });
}

int64_t InputLength(const TrainSequence& sequence) {
  return std::max<int64_t>(0, sequence.length() - 1);
}

absl::Status ValidateSequences(absl::Span<const TrainSequence> sequences,
                               const ModelConfig& config) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TrainSequence& s = sequences[i];
    const int64_t size = s.length();
    if (s.prompt_length < 1 || s.prompt_length > size) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", i, ": prompt_length ",
                                                     s.prompt_length, " is not in [1, ", size,
                                                     "] (its number of tokens)"));
    }
    if (InputLength(s) > config.positions()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", i, ": prompt and response of ",
                                                     size, " tokens exceed the model's ",
                                                     config.positions(), " positions"));
    }
    for (int64_t t = 0; t < static_cast<int64_t>(s.tokens.size()); ++t) {
      if (s.tokens[t] < 0 || s.tokens[t] >= config.vocab_size) {
        return absl::InvalidArgumentError(
            absl::StrCat("sequence ", i, ", position ", t, ": token ", s.tokens[t],
                         " is outside the model's vocabulary of ", config.vocab_size));
      }
    }
    if (!s.loss_mask.empty() && static_cast<int64_t>(s.loss_mask.size()) != s.response_length()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", i, ": loss_mask has ", s.loss_mask.size(),
                       " entries for a response of ", s.response_length(), " tokens"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPresent(absl::Span<const TrainSequence> sequences,
                          absl::Span<const int64_t> indices) {
  for (int64_t index : indices) {
    if (!sequences[index].remote()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", index, " is of this rank's share, and its tokens are not here"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> PlanMicroBatches(
    absl::Span<const int64_t> lengths, int64_t max_token_len) {
  const int64_t budget = max_token_len > 0 ? max_token_len : std::numeric_limits<int64_t>::max();
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<int64_t>> plan;
  int64_t longest = 0;  // of the open micro-batch, its first item.
  for (int64_t index : order) {
    if (lengths[index] == 0) break;
    if (lengths[index] > budget) {
      return TooLong(index, lengths[index], max_token_len);
    }
    if (plan.empty() || longest > budget / static_cast<int64_t>(plan.back().size() + 1)) {
      plan.emplace_back();
      longest = lengths[index];
    }
    plan.back().push_back(index);
  }
  return plan;
}

SequenceCost CostOf(const ModelConfig& config) {
  const double q = static_cast<double>(config.num_attention_heads * config.head_dim);
  const double kv = static_cast<double>(config.num_key_value_heads * config.head_dim);
  const double hidden = static_cast<double>(config.hidden_size);
  const double layers = static_cast<double>(config.num_hidden_layers);
  const double products =
      hidden * (2 * q + 2 * kv + 3 * static_cast<double>(config.intermediate_size));
  return {layers * products + hidden * static_cast<double>(config.vocab_size), layers * q};
}

absl::StatusOr<std::vector<std::vector<int64_t>>> PlanBalancedMicroBatches(
    absl::Span<const int64_t> lengths, const SequenceCost& cost, int64_t max_token_len) {
  const int64_t budget = max_token_len > 0 ? max_token_len : std::numeric_limits<int64_t>::max();
  std::vector<int64_t> items;
  std::vector<double> costs;
  int64_t rows = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0) continue;
    if (lengths[i] > budget) {
      return TooLong(static_cast<int64_t>(i), lengths[i], max_token_len);
    }
    items.push_back(static_cast<int64_t>(i));
    costs.push_back(cost.Of(lengths[i]));
    rows += lengths[i];
  }
  std::vector<std::vector<int64_t>> plan;
  if (items.empty()) return plan;
  // With as many parts as items each is alone and fits.
  for (int64_t parts = (rows - 1) / budget + 1;; ++parts) {
    plan = BalanceByCost(costs, static_cast<int>(parts));
    bool fits = true;
    for (std::vector<int64_t>& part : plan) {
      int64_t part_rows = 0;
      for (int64_t& item : part) {
        item = items[item];
        part_rows += lengths[item];
      }
      fits = fits && part_rows <= budget;
    }
    if (fits) break;
  }
  plan.erase(
      std::remove_if(plan.begin(), plan.end(), [](const auto& part) { return part.empty(); }),
      plan.end());
  std::sort(plan.begin(), plan.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  return plan;
}

size_t MiniBatchEnd(absl::Span<const TrainSequence> batch, size_t begin, size_t size) {
  size_t end = begin;
  for (size_t taken = 0; end < batch.size() && taken < size; ++end) {
    taken += batch[end].pretraining ? 0 : 1;
  }
  size_t next = end;
  while (next < batch.size() && batch[next].pretraining) ++next;
  return next == batch.size() ? next : end;
}

std::vector<TrainSequence> SpreadPretraining(std::vector<TrainSequence> batch, size_t size) {
  std::vector<TrainSequence> texts, policy;
  for (TrainSequence& s : batch) (s.pretraining ? texts : policy).push_back(std::move(s));
  if (size == 0) size = std::max<size_t>(1, policy.size());
  const size_t mini_batches = std::max<size_t>(1, (policy.size() + size - 1) / size);
  batch.clear();
  size_t text = 0;
  for (size_t m = 0; m < mini_batches; ++m) {
    for (; text < texts.size() && text * mini_batches / texts.size() == m; ++text) {
      batch.push_back(std::move(texts[text]));
    }
    for (size_t i = m * size; i < std::min(policy.size(), (m + 1) * size); ++i) {
      batch.push_back(std::move(policy[i]));
    }
  }
  return batch;
}

PackedRows PackRows(absl::Span<const TrainSequence> batch, absl::Span<const int64_t> indices,
                    ResponseRows which) {
  PackedRows packed;
  std::vector<int64_t> tokens, rows, targets;
  for (int64_t index : indices) {
    const TrainSequence& s = batch[index];
    const int64_t offset = static_cast<int64_t>(tokens.size());
    const int64_t length = InputLength(s);
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.begin() + length);
    packed.lengths.push_back(length);
    packed.prompt_lengths.push_back(s.prompt_length);
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (which == ResponseRows::kUnmasked && !s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
      rows.push_back(offset + s.prompt_length - 1 + r);
      targets.push_back(s.tokens[s.prompt_length + r]);
      packed.sequence_index.push_back(index);
      packed.response_index.push_back(r);
    }
  }
  packed.tokens = ToTensor(tokens);
  packed.prediction_rows = ToTensor(rows);
  packed.targets = ToTensor(targets);
  return packed;
}

}  // namespace baton::engine
