// Loads of engine_bench: the addition example's model, generating and training.
//
// Operations. Let M be the elements of the body's matrices (q, k, v, o, gate, up, down, all
// layers), H = vocabulary * hidden those of the head, and A = 4 * layers * heads * head_dim what
// one row's attention costs per position it sees (a product with a key, one with a value). A row
// that sees c positions costs
//     forward   2 M + A c,  and 2 H if its next token is wanted
//     training  three times that: forward, and two products in the backward pass for each.
// Norms, rotations, softmax, activations and the optimizer are left out.
//
// Bytes. A generation step reads every parameter once (4 bytes each; the head is the embedding),
// and for each row the keys and values it sees: 2 * layers * kv_heads * head_dim * 4 * c.
#ifndef BATON_BENCH_ENGINE_ENGINE_LOADS_H_
#define BATON_BENCH_ENGINE_ENGINE_LOADS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sdk/common/schema/model_config.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/model.h"

namespace baton::bench {

/// As examples/addition trains: 15 characters, <pad> and <eos>; 334,000 parameters.
ModelConfig AdditionModel();

/// (out, in) of each product of a forward pass, as the engine fuses them.
std::vector<std::pair<int64_t, int64_t>> ProductShapes(const ModelConfig& config);

struct Load {
  double tokens = 0, seconds = 0;
  double flops = 0, bytes = 0;  ///< By the formulas above. `bytes` is 0 for training.
};

/// `steps` steps of a generator in which always `running` requests run: one that ends (after 45
/// tokens, prompt included) is followed by another. The first ones end at staggered times, so every
/// step holds requests of all ages. `tokens` are generated ones. An error ends the program.
Load Generate(engine::CausalLM& model, int64_t running, int64_t steps);

enum class Training { kSft, kRl };

/// `updates` updates on one batch of 64 (SFT) or 256 (RL: PPO's clipped loss) sequences of 45
/// tokens on average. `tokens` are prompts and responses, as the service counts them. An error ends
/// the program.
Load Train(engine::CausalLM& model, Training kind, int64_t updates);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_ENGINE_LOADS_H_
