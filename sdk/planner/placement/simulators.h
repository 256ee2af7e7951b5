// The time and memory of a role's methods, as rooflines: training and scoring are compute-bound,
// generation is bound by memory. Every formula is in docs/placement.md with its source; nothing
// here is fitted to a result.
#ifndef BATON_SDK_PLANNER_PLACEMENT_SIMULATORS_H_
#define BATON_SDK_PLANNER_PLACEMENT_SIMULATORS_H_

#include <algorithm>
#include <cstdint>

#include "sdk/common/parallel/rank_layout.h"
#include "sdk/planner/placement/device_catalogue.h"
#include "sdk/planner/placement/model_cost.h"

namespace baton::placement {

/// The share of peak FLOP/s that large matrix products reach within a device. Megatron-LM
/// (2104.04473, table 1) reports 44 to 52 % of an A100's peak with all communication; this is
/// without.
constexpr double kComputeEfficiency = 0.5;
/// The share of peak memory bandwidth that decoding reaches.
constexpr double kMemoryEfficiency = 0.7;
/// The share of a link's bandwidth that a ring of large messages reaches (nccl-tests: 230 of 300
/// GB/s).
constexpr double kLinkEfficiency = 0.77;
/// Seconds that a collective takes however small its message, within a node and between nodes.
constexpr double kNodeLatency = 15e-6;
constexpr double kNetworkLatency = 50e-6;
/// The share of a device's memory that roles may fill: the rest is for the runtime and for
/// fragmentation.
constexpr double kUsableMemory = 0.9;

/// Multipliers of the simulators' seconds, from a job's own recordings (calibration.h).
struct Calibration {
  double training = 1;
  double scoring = 1;
  double generation = 1;
};

/// One iteration. All sequences are as long as they may be.
struct Workload {
  int64_t generated = 1024;  ///< Responses that are generated and scored.
  int64_t sequences = 1024;  ///< Responses that are trained with.
  int64_t prompt_tokens = 1024;
  int64_t response_tokens = 1024;
  int64_t mini_batch = 128;  ///< Sequences per optimizer update.
  int64_t epochs = 1;
  double bytes = 2;  ///< Bytes of a weight: 2 (bfloat16) or 4 (float32).
  /// The backward pass computes the layers' inner values again; else all layers keep theirs.
  bool recomputes = true;
  int64_t micro_batch_tokens = 0;  ///< For training and scoring; at least one sequence.

  /// Tokens that go through the model at once in training and scoring.
  double rows() const { return std::max(tokens(), static_cast<double>(micro_batch_tokens)); }
  double tokens() const { return static_cast<double>(prompt_tokens + response_tokens); }
  int64_t updates() const { return epochs * ((sequences + mini_batch - 1) / mini_batch); }
};

struct Setting {
  Device device;
  Workload workload;
  Calibration calibration;
};

/// Bytes on one device.
struct Memory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  ///< While the role works; the others stay.

  double resident() const { return weights + gradients + optimizer; }
};

/// Training: weights (2 bytes, or 4), gradients (4), and float32 master weights and two moments
/// divided over the data ranks (12 / d; without master weights 8 / d): the distributed optimizer
/// of Megatron-LM, 6 + 12 / d bytes a parameter. Activations (2205.05198) of a micro-batch: with
/// full recomputation the inputs of the layers of a stage for each micro-batch in flight and the
/// inner values of one layer, else the inner values of all its layers; and float32 logits with
/// their gradient.
Memory TrainingMemory(const Setting& s, const PlannedModel& model, const RankLayout& layout);
/// Scoring: weights, the inner values of one layer, and float32 logits where there is a head.
Memory ScoringMemory(const Setting& s, const PlannedModel& model, const RankLayout& layout);

/// Seconds of all updates of one iteration: forward, recomputation and backward (4 forwards, 3
/// without recomputation) of each data rank's share; tensor-parallel all-reduces (6 a layer); the
/// pipeline's bubble, (m + p - 1) / m of 1F1B; reduce-scatter of float32 gradients and all-gather
/// of weights. No overlap of communication and computation is assumed.
double TrainingSeconds(const Setting& s, const PlannedModel& model, const RankLayout& layout);

/// Seconds of one forward pass over all sequences.
double ScoringSeconds(const Setting& s, const PlannedModel& model, const RankLayout& layout);

struct Generation {
  bool fits = false;
  double seconds = 0;          ///< All of it.
  double reshard_seconds = 0;  ///< From the training layout: (d_g - 1) / (t p) M bytes a rank.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double step_seconds = 0;  ///< One token of every running sequence.
  int64_t waves = 0;        ///< Times a replica fills its KV cache.
  double sequences = 0;     ///< Sequences that run at once on a replica.
  double extra_bytes = 0;   ///< A generation shard's weights beyond the training shard.
  double kv_bytes = 0;      ///< On one device.
};

/// Bytes that generation needs on a device at least: the larger shard and one whole sequence.
double GenerationMinimum(const Setting& s, const PlannedModel& model, const RankLayout& layout);

/// `free_bytes`: of a device, beside all resident state (the training shard of these weights
/// among it). Sequences that do not fit at once are generated in equal waves. Never longer with
/// more free bytes.
Generation SimulateGeneration(const Setting& s, const PlannedModel& model, const RankLayout& layout,
                              double free_bytes);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_SIMULATORS_H_
