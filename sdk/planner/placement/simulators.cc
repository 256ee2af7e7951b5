#include "sdk/planner/placement/simulators.h"

#include <algorithm>
#include <cmath>

namespace baton::placement {
namespace {

double Real(int64_t value) { return static_cast<double>(value); }

double Flops(const Setting& s) {
  const double peak = s.workload.bytes > 2 ? s.device.fp32_flops : s.device.bf16_flops;
  return peak * kComputeEfficiency;
}

double NodeLink(const Setting& s) { return s.device.node_bandwidth * kLinkEfficiency; }
double NetworkLink(const Setting& s) { return s.device.network_bandwidth * kLinkEfficiency; }

// Sequences of one data rank; the slowest counts.
double Share(int64_t sequences, int64_t ranks) { return Real((sequences + ranks - 1) / ranks); }

// One all-reduce among tensor ranks, which are neighbours in a node: a ring moves 2 (t - 1) / t.
double TensorAllReduce(const Setting& s, int tensor, double bytes) {
  if (tensor == 1) return 0;
  return kNodeLatency + 2 * Real(tensor - 1) / Real(tensor) * bytes / NodeLink(s);
}

// A ring among the d ranks that hold the same shard, `moved` bytes out of each. Between nodes the
// rings of one node share its network: min(devices per node, p t) of them.
double DataRing(const Setting& s, const RankLayout& l, double moved) {
  if (l.data == 1) return 0;
  const double within = moved / NodeLink(s);
  if (l.world_size() <= s.device.devices_per_node) return kNodeLatency + within;
  const double rings = std::min(s.device.devices_per_node, l.pipeline * l.tensor);
  return kNetworkLatency + std::max(within, moved * rings / NetworkLink(s));
}

// A tensor `bytes` from each stage to the next; each tensor rank sends its part.
double StageTransfer(const Setting& s, int pipeline, int tensor, double bytes) {
  if (pipeline == 1) return 0;
  const bool crosses = pipeline * tensor > s.device.devices_per_node;
  return crosses ? kNetworkLatency + bytes / NetworkLink(s)
                 : kNodeLatency + bytes / Real(tensor) / NodeLink(s);
}

double ShardParameters(const PlannedModel& model, const RankLayout& l) {
  return Real(ParameterCount(model)) / Real(l.pipeline * l.tensor);
}

// Inner values of one layer of a micro-batch: s h (10 + 24 / t) bytes in 16 bit (2205.05198), the
// quadratic ones never stored.
double LayerBytes(const Setting& s, const PlannedModel& model, int tensor) {
  return s.workload.rows() * Real(model.hidden_size) * (10 + 24.0 / tensor) * s.workload.bytes / 2;
}

double LogitBytes(const Setting& s, const PlannedModel& model, int tensor) {
  if (model.scalar_head) return 0;
  return s.workload.rows() * Real(model.vocab_size) * 4 / tensor;
}

// Micro-batches of one sequence through the pipeline: `passes` forwards' worth of products and
// `reduces` all-reduces a layer, `transfers` between stages. The last stage, which has the head, is
// the slowest, and all keep its pace.
double PipelineSeconds(const Setting& s, const PlannedModel& model, const RankLayout& l,
                       double micro_batches, double passes, double reduces, double transfers) {
  const double tokens = s.workload.tokens();
  const double hidden_bytes = tokens * Real(model.hidden_size) * s.workload.bytes;
  const double head = HeadFlops(model, tokens);
  const double stage = (ForwardFlops(model, tokens) - head) / Real(l.pipeline) + head;
  const double products = passes * stage / Real(l.tensor) / Flops(s);
  const double tensor = Real(model.num_hidden_layers) / Real(l.pipeline) * reduces *
                        TensorAllReduce(s, l.tensor, hidden_bytes);
  const double transfer = transfers * StageTransfer(s, l.pipeline, l.tensor, hidden_bytes);
  return (micro_batches + Real(l.pipeline - 1)) * (products + tensor + transfer);
}

// The part of its shard that a generation rank lacks: (d_g - 1) / (p t) of the weights. Micro-data
// groups are neighbours within a tensor group unless stages are joined as well.
double ReshardSeconds(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  const int groups = l.micro_data();
  if (groups == 1) return 0;
  const double bytes = Real(groups - 1) * ShardParameters(model, l) * s.workload.bytes;
  const int span = l.pipeline == l.generation_pipeline ? l.tensor : l.pipeline * l.tensor;
  if (span <= s.device.devices_per_node) return kNodeLatency + bytes / NodeLink(s);
  return kNetworkLatency + bytes * Real(s.device.devices_per_node) / NetworkLink(s);
}

}  // namespace

Memory TrainingMemory(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  const double parameters = ShardParameters(model, l);
  const double in_flight = std::min(Share(s.workload.mini_batch, l.data), Real(l.pipeline));
  Memory m;
  m.weights = parameters * s.workload.bytes;
  m.gradients = parameters * 4;
  m.optimizer = parameters * (s.workload.bytes > 2 ? 8.0 : 12.0) / Real(l.data);
  const double layers = Real(model.num_hidden_layers) / Real(l.pipeline) * in_flight;
  const double inputs = layers * s.workload.rows() * Real(model.hidden_size) * s.workload.bytes;
  const double inner = LayerBytes(s, model, l.tensor);
  m.activations = s.workload.recomputes ? inputs + inner : layers * inner;
  m.activations += 2 * LogitBytes(s, model, l.tensor);
  return m;
}

Memory ScoringMemory(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  Memory m;
  m.weights = ShardParameters(model, l) * s.workload.bytes;
  m.activations = LayerBytes(s, model, l.tensor) + LogitBytes(s, model, l.tensor);
  return m;
}

double TrainingSeconds(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  const double share = Share(std::min(s.workload.mini_batch, s.workload.sequences), l.data);
  const double work = PipelineSeconds(s, model, l, share, s.workload.recomputes ? 4 : 3,
                                      s.workload.recomputes ? 6 : 4, 2);
  const double moved = ShardParameters(model, l) * Real(l.data - 1) / Real(l.data);
  const double exchange = DataRing(s, l, moved * 4) + DataRing(s, l, moved * s.workload.bytes);
  return s.calibration.training * Real(s.workload.updates()) * (work + exchange);
}

double ScoringSeconds(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  return s.calibration.scoring *
         PipelineSeconds(s, model, l, Share(s.workload.generated, l.data), 1, 2, 1);
}

double GenerationMinimum(const Setting& s, const PlannedModel& model, const RankLayout& l) {
  const double shards = Real(l.generation_pipeline * l.generation_tensor);
  const double larger = Real(l.micro_data() - 1) * ShardParameters(model, l);
  return larger * s.workload.bytes +
         KvBytes(model, s.workload.bytes) * s.workload.tokens() / shards;
}

Generation SimulateGeneration(const Setting& s, const PlannedModel& model, const RankLayout& l,
                              double free_bytes) {
  const Workload& w = s.workload;
  const int tensor = l.generation_tensor, pipeline = l.generation_pipeline;
  const double ranks = Real(tensor * pipeline);
  Generation g;
  g.extra_bytes = Real(l.micro_data() - 1) * ShardParameters(model, l) * w.bytes;
  const double kv_token = KvBytes(model, w.bytes) / ranks;
  const double fit = std::floor((free_bytes - g.extra_bytes) / (kv_token * w.tokens()));
  if (fit < 1) return g;
  g.fits = true;
  const double all = Share(w.generated, l.data * l.micro_data());
  g.waves = static_cast<int64_t>(std::ceil(all / fit));
  g.sequences = all / Real(g.waves);
  g.kv_bytes = std::min(fit, std::ceil(g.sequences)) * kv_token * w.tokens();

  const double prompt = Real(w.prompt_tokens), response = Real(w.response_tokens);
  const double context = prompt + response / 2;
  const double layers = Real(model.num_hidden_layers);
  const double token_bytes = Real(model.hidden_size) * w.bytes;
  // One token of each running sequence: weights of every stage are read one after the other, the
  // caches of all stages at the same time.
  const double read =
      (Real(ParameterCount(model)) * w.bytes / Real(tensor) + g.sequences * context * kv_token) /
      (s.device.memory_bandwidth * kMemoryEfficiency);
  const double compute = g.sequences * DecodeFlops(model, context) / ranks / Flops(s);
  g.step_seconds = std::max(read, compute) +
                   layers * 2 * TensorAllReduce(s, tensor, g.sequences * token_bytes) +
                   Real(pipeline) * StageTransfer(s, pipeline, tensor, g.sequences * token_bytes);
  g.decode_seconds = Real(g.waves) * response * g.step_seconds;
  g.prefill_seconds =
      all * (ForwardFlops(model, prompt) / ranks / Flops(s) +
             layers / Real(pipeline) * 2 * TensorAllReduce(s, tensor, prompt * token_bytes) +
             StageTransfer(s, pipeline, tensor, prompt * token_bytes));
  g.reshard_seconds = ReshardSeconds(s, model, l);
  const double factor = s.calibration.generation;
  g.step_seconds *= factor;
  g.decode_seconds *= factor;
  g.prefill_seconds *= factor;
  g.seconds = g.reshard_seconds + g.prefill_seconds + g.decode_seconds;
  return g;
}

}  // namespace baton::placement
