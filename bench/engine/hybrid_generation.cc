#include "bench/engine/hybrid_generation.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/generation/generator.h"

namespace baton::bench {
namespace {

using engine::CausalLM;

/// The first rank of a group whose others never come: what it receives stays as it is.
class Alone : public engine::Communicator {
 public:
  explicit Alone(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::unique_ptr<engine::PendingCollective> StartAllReduce(torch::Tensor /*tensor*/,
                                                            engine::Reduction /*how*/) override {
    return nullptr;
  }
  void AllGather(torch::Tensor /*mine*/, torch::Tensor /*all*/) override {}
  void Broadcast(torch::Tensor /*tensor*/, int /*root*/) override {}
  engine::CollectiveBytes bytes() const override { return {}; }

 private:
  const int size_;
};

/// Sixteen sequences, to their ends.
absl::StatusOr<double> TokensPerSecond(CausalLM& model, int64_t tokens) {
  engine::GeneratorOptions options;
  options.kv_cache_bytes = int64_t{1} << 26;
  BATON_ASSIGN_OR_RETURN(const auto generator, engine::Generator::Create(&model, nullptr, options));
  for (uint64_t id = 0; id < 16; ++id) {
    engine::GenerateRequest request;
    request.id = id;
    request.prompt = {static_cast<int32_t>(id), 1, 2, 3};
    request.params.max_new_tokens = tokens;
    request.key = {1, 1, id, 1, 1};
    BATON_RETURN_IF_ERROR(generator->Add(std::move(request)));
  }
  BATON_RETURN_IF_ERROR(generator->Step().status());  // The prompts.
  const absl::Time start = absl::Now();
  const int64_t before = generator->stats().generated_tokens;
  while (!generator->idle()) BATON_RETURN_IF_ERROR(generator->Step().status());
  return static_cast<double>(generator->stats().generated_tokens - before) /
         absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

absl::Status MeasureGeneration(const ModelConfig& config, int64_t tokens, int repeats,
                               Report& report) {
  struct Model {
    std::unique_ptr<Alone> group;
    std::unique_ptr<CausalLM> slice, model;
    std::vector<double> speeds;
  };
  std::map<int, Model> models;
  for (int slices : {1, 2, 4, 8}) {
    Model& m = models[slices];
    m.group = std::make_unique<Alone>(slices);
    BATON_ASSIGN_OR_RETURN(m.slice, CausalLM::Create(config, torch::kFloat32, torch::kCPU,
                                                     slices > 1 ? m.group.get() : nullptr));
    m.slice->InitializeRandom(1);
    BATON_ASSIGN_OR_RETURN(m.model, CausalLM::Gather(*m.slice, m.group.get(), nullptr));
  }
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (auto& [slices, m] : models) {
      BATON_ASSIGN_OR_RETURN(const double speed, TokensPerSecond(*m.model, tokens));
      m.speeds.push_back(speed);
    }
  }
  const double whole = Percentile(models[1].speeds, 0.5);
  for (const auto& [slices, m] : models) {
    const double speed = Percentile(m.speeds, 0.5);
    const std::string prefix =
        absl::StrCat("generation/hidden_", config.hidden_size, "/slices_", slices, "/");
    report.Add(prefix + "tokens_per_second", speed, "tokens/s");
    if (slices > 1) report.Add(prefix + "over_whole", speed / whole, "");
  }
  return absl::OkStatus();
}

}  // namespace baton::bench
