#include "controller/runtime/payloads/batch_builder.h"

#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "controller/algorithms/compute_advantages.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/raw_values.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/schema_spec/spec_fields.h"

namespace baton::controller {
namespace {

using algorithms::Sample;

std::optional<double> ScoreOf(const TrajectoryInfo& info, const std::string& name) {
  const auto score = info.scores.find(name);
  if (score == info.scores.end()) return std::nullopt;
  return score->second;
}

uint64_t HashOf(const v1::Column& column) {
  // The type and the name count too, because they decide how a reader understands the column.
  const uint64_t what = XXH3_64bits_withSeed(column.name().data(), column.name().size(),
                                             static_cast<uint64_t>(column.dtype()));
  return XXH3_64bits_withSeed(column.data().data(), column.data().size(), what);
}

// Hashes are in this order.
std::vector<const v1::Column*> ByName(const v1::Trajectory& from) {
  std::vector<const v1::Column*> columns;
  for (const v1::Column& column : from.columns()) columns.push_back(&column);
  std::stable_sort(columns.begin(), columns.end(),
                   [](const v1::Column* a, const v1::Column* b) { return a->name() < b->name(); });
  return columns;
}

BuiltBatch Answer(const BuildBatch& ask) {
  BuiltBatch out;
  out.event.step = ask.step;
  out.event.incarnation = ask.incarnation;
  out.event.algorithm = ask.algorithm;
  return out;
}

}  // namespace

// The part of a payload that is kept once it was added.
struct BatchBuilder::Taken {
  BatchEntry entry;
  std::vector<uint64_t> hashes;  // of its columns
  std::vector<float> old_log_prob, rollout_log_prob, ref_log_prob, values, cost_values, advantage;

  Sample SampleOf(const TrajectoryInfo& info, const BuildBatch& ask,
                  const EstimatorSpec& spec) const;
};

Sample BatchBuilder::Taken::SampleOf(const TrajectoryInfo& info, const BuildBatch& ask,
                                     const EstimatorSpec& spec) const {
  Sample sample;
  sample.group = info.prompt_index;
  sample.length = info.tokens;
  sample.reward = ScoreOf(info, "reward").value_or(0);
  const bool recomputed = !old_log_prob.empty();  // by the actor
  sample.log_probs = recomputed ? old_log_prob : rollout_log_prob;
  if (recomputed) sample.rollout_log_probs = rollout_log_prob;
  sample.ref_log_probs = ref_log_prob;
  sample.values = values;
  sample.cost_values = cost_values;
  sample.token_advantages = advantage;
  sample.advantage = ScoreOf(info, "advantage");
  const auto baseline = ask.baselines.find(info.prompt_index);
  if (baseline != ask.baselines.end()) sample.reward_baseline = baseline->second;
  sample.cost = ScoreOf(info, "cost");
  if (spec.filter_metric != "reward") sample.filter_metric = ScoreOf(info, spec.filter_metric);
  sample.flawed = ScoreOf(info, "flawed").value_or(0) > 0.5;
  return sample;
}

BatchBuilder::BatchBuilder(const BuildBatch& ask, const EstimatorSpec& spec)
    : ask_(&ask), spec_(spec) {
  taken_.reserve(ask.trajectories.size());
}

BatchBuilder::~BatchBuilder() = default;
BatchBuilder::BatchBuilder(BatchBuilder&&) = default;

absl::StatusOr<BatchBuilder> BatchBuilder::Create(const v1::Dataflow& dataflow,
                                                  const BuildBatch& ask) {
  const v1::AdvantageNode& node = dataflow.advantage();
  BATON_ASSIGN_OR_RETURN(const Options options, ToOptions(node.options()));
  BATON_ASSIGN_OR_RETURN(const EstimatorSpec spec,
                         algorithms::MakeEstimatorSpec(node.estimator(), options));
  return BatchBuilder(ask, spec);
}

void BatchBuilder::Add(const v1::Trajectory& payload, std::weak_ptr<const PackedPayload> cached) {
  auto taken = std::make_unique<Taken>();
  taken->entry.logged = LoggedPayload(ask_->trajectories[taken_.size()]);
  taken->entry.cached = std::move(cached);
  if (const auto header = HeaderOf(payload); header.has_value()) {
    taken->entry.header = std::make_shared<const PackedPayload>(*header);
  }
  std::vector<std::string> names;
  for (const v1::Column* column : ByName(payload)) {
    names.push_back(column->name());
    taken->hashes.push_back(HashOf(*column));
  }
  if (!taken_.empty() && *taken_.back()->entry.columns == names) {
    taken->entry.columns = taken_.back()->entry.columns;
  } else {
    taken->entry.columns = std::make_shared<const std::vector<std::string>>(std::move(names));
  }
  for (const auto& [name, values] :
       std::initializer_list<std::pair<const char*, std::vector<float>*>>{
           {"old_log_prob", &taken->old_log_prob},
           {"rollout_log_prob", &taken->rollout_log_prob},
           {"ref_log_prob", &taken->ref_log_prob},
           {"values", &taken->values},
           {"cost_values", &taken->cost_values},
           {"advantage", &taken->advantage}}) {
    const v1::Column* const column = FindColumn(payload, name);
    if (column == nullptr || column->dtype() != v1::DATA_TYPE_FLOAT32) continue;
    *values = RawValues<float>(column->data());
  }
  taken_.push_back(std::move(taken));
}

absl::StatusOr<BuiltBatch> BatchBuilder::Finish() {
  const BuildBatch& ask = *ask_;
  algorithms::EstimatorState state = algorithms::InitialState(spec_);
  for (const auto& [name, value] : ask.algorithm) {
    if (name == "kl_coef") state.kl_coef = value;
    if (name == "log_lambda") state.log_lambda = value;
  }
  std::vector<Sample> samples;
  samples.reserve(taken_.size());
  for (size_t i = 0; i < taken_.size(); ++i) {
    samples.push_back(taken_[i]->SampleOf(ask.trajectories[i], ask, spec_));
  }
  BATON_ASSIGN_OR_RETURN(const algorithms::BatchAdvantages advantages,
                         algorithms::ComputeAdvantages(samples, spec_, state));
  BuiltBatch out = Answer(ask);
  out.event.metrics = advantages.metrics;
  out.event.algorithm = {{"kl_coef", advantages.state.kl_coef},
                         {"log_lambda", advantages.state.log_lambda}};
  out.entries.reserve(
      static_cast<size_t>(std::count(advantages.kept.begin(), advantages.kept.end(), true)));
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (!advantages.kept[i]) continue;
    const TrajectoryInfo& info = ask.trajectories[i];
    BatchEntry& entry = out.entries.emplace_back(std::move(taken_[i]->entry));
    v1::Trajectory trajectory;
    trajectory.set_step(static_cast<uint64_t>(ask.step));
    *trajectory.add_columns() =
        MakeColumn("advantages", advantages.per_token, advantages.AdvantagesOf(i));
    if (!advantages.returns.empty()) {
      *trajectory.add_columns() =
          MakeColumn("returns", /*per_token=*/true, advantages.ReturnsOf(i));
    }
    if (!advantages.cost_returns.empty()) {
      *trajectory.add_columns() =
          MakeColumn("cost_returns", /*per_token=*/true, advantages.CostReturnsOf(i));
    }
    for (const auto& [name, value] : info.scores) (*trajectory.mutable_scores())[name] = value;
    std::vector<uint64_t>& hashes = out.event.column_hashes[info.id];
    hashes = std::move(taken_[i]->hashes);
    for (const v1::Column* column : ByName(trajectory)) hashes.push_back(HashOf(*column));
    entry.added = std::make_shared<const PackedPayload>(trajectory);
  }
  out.event.size = static_cast<uint32_t>(out.entries.size());
  return out;
}

BuiltBatch MakePlainBatch(const BuildBatch& ask, SharedPayloads payloads) {
  BuiltBatch out = Answer(ask);
  for (auto& payload : payloads) {
    BatchEntry& entry = out.entries.emplace_back();
    entry.payload = std::move(payload);
    v1::Trajectory added;
    added.set_step(static_cast<uint64_t>(ask.step));
    entry.added = std::make_shared<const PackedPayload>(added);
  }
  out.event.size = static_cast<uint32_t>(out.entries.size());
  return out;
}

Pretraining::Pretraining(const v1::DataSpec& data, std::shared_ptr<const DataSet> texts,
                         int64_t step)
    : texts_(std::move(texts)),
      step_(step),
      count_(texts_->examples.empty() ? 0 : static_cast<uint64_t>(data.pretrain_batch_size())),
      order_(texts_->examples.size(), static_cast<uint64_t>(data.seed()), data.shuffle()) {}

bool Pretraining::AddSome(uint64_t most, BatchEntries* batch) {
  const uint64_t end = std::min(count_, next_ + most);
  for (; next_ < end; ++next_) {
    const uint64_t text_index = static_cast<uint64_t>(step_ - 1) * count_ + next_;
    const uint64_t index = order_.At(text_index);
    const Example& example = texts_->examples[index];
    v1::Trajectory text;
    text.set_trajectory_id(absl::StrCat("pretrain-", text_index));
    text.set_step(static_cast<uint64_t>(step_));
    text.set_purpose(v1::PURPOSE_TRAIN);
    text.set_prompt_id(index);
    SetPrompt(example, &text);
    SetResponse(example, &text);
    batch->emplace_back().payload = std::make_shared<const v1::Trajectory>(std::move(text));
  }
  return next_ == count_;
}

}  // namespace baton::controller
