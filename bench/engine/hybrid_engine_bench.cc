// The cost of going from training to generation on the same ranks: `./dev bench hybrid_engine
// [--quick] [--json F]`.
//
// Eight ranks, each a process with one compute thread, over Gloo on the loopback interface. For
// each layout (p-t-d of training, p_g-t_g-d_g-d of generation) three methods, which take turns:
//     gather_all  every rank gathers the whole model from all ranks, each of which trained an equal
//                 part of every tensor (as by DeepSpeed's ZeRO stage 3)
//     gather_tp   every rank gathers the whole model from the ranks of its copy
//     hybrid      the hybrid engine: its generation slice, within the micro-DP group
// What is gathered under the first two is memory of its own, given back after generation.
//
// M are the bytes of the parameters that tensor ranks divide. Figures of a rank:
//     received_bytes        payloads counted at the transport; the mean over the ranks
//     bytes_over_formula    that over the formula of sdk/common/parallel/transition.h
//     socket_over_payload   what its TCP connections received, headers included, over the payload
//     peak_parameter_bytes  what it has gathered, the largest of the ranks; peak_over_formula
//     redundant_bytes       trained parameters beside that, by the memory that tensors share
//     replicated_*          the same of parameters that every tensor rank holds whole (norms)
//     training_parameter_bytes  what it holds when it trains again
//     transition_peak_bytes the most tensor memory it held on the way (staging included, the KV
//                           cache apart), as the allocator counts it
//     seconds               between two barriers; median of the repeats; of hybrid also
//                           seconds_back, until it trains again
// generation/*: hybrid_generation.h.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "bench/engine/hybrid_generation.h"
#include "bench/engine/socket_bytes.h"
#include "bench/engine/tensor_memory.h"
#include "bench/support/child_process.h"
#include "bench/support/report.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/sdk/transition.h"
#include "workers/hybrid/hybrid_engine.h"
#include "workers/main/compute_environment.h"

namespace baton::bench {
namespace {

using engine::CausalLM;
using engine::Communicator;
using torch::Tensor;

constexpr int kRanks = 8;

std::vector<RankLayout> Layouts(bool quick) {
  if (quick) return {{1, 4, 2, 1, 2}};
  return {{1, 8, 1, 1, 1}, {1, 8, 1, 1, 2}, {1, 4, 2, 1, 1}, {1, 4, 2, 1, 2}, {1, 2, 4, 1, 1}};
}

/// 6.8 million parameters, of which 3,328 are norms.
ModelConfig Model(bool quick) {
  ModelConfig config;
  config.vocab_size = quick ? 256 : 2048;
  config.hidden_size = quick ? 64 : 256;
  config.intermediate_size = 4 * config.hidden_size;
  config.num_hidden_layers = quick ? 2 : 6;
  config.num_attention_heads = config.num_key_value_heads = 8;
  config.head_dim = config.hidden_size / 8;
  config.max_position_embeddings = 512;
  config.tie_word_embeddings = true;
  return config;
}

/// Layers as wide as those of models of a billion parameters, but two of them.
ModelConfig WideModel() {
  ModelConfig config = Model(false);
  config.hidden_size = 2048;
  config.head_dim = 256;
  config.intermediate_size = 4096;
  config.num_hidden_layers = 2;
  return config;
}

/// Tensors that are divided, and those that are not.
struct Tensors {
  std::vector<Tensor> divided, whole;
};

/// One rank's tensors under one method, and the method's costs.
struct Outcome {
  Tensors training, gathered;
  double divided_received = 0, whole_received = 0, socket_received = 0;
  double peak_bytes = 0, seconds = 0, seconds_back = 0;
};

/// One rank under one layout.
class Rank {
 public:
  /// `model`: the whole one, of which the tensor group's ranks train a slice each.
  static absl::StatusOr<std::unique_ptr<Rank>> Join(const parallel::GroupAddress& address,
                                                    const RankLayout& layout, CausalLM* model) {
    auto rank = std::unique_ptr<Rank>(new Rank(layout, model));
    BATON_ASSIGN_OR_RETURN(rank->groups_, parallel::RankGroups::Join(address));
    std::vector<int> all;
    for (int r = 0; r < kRanks; ++r) all.push_back(r);
    BATON_ASSIGN_OR_RETURN(rank->world_, rank->groups_->NewGroup("world", all));
    BATON_ASSIGN_OR_RETURN(auto hybrid, hybrid::JoinHybridGroups(*rank->groups_, layout));
    BATON_ASSIGN_OR_RETURN(rank->slice_,
                           CausalLM::Create(model->config(), model->dtype(), model->device(),
                                            rank->groups_->tensor_group()));
    rank->slice_->InitializeRandom(1);
    hybrid::HybridOptions options;
    options.generator.kv_cache_bytes = int64_t{1} << 20;
    BATON_ASSIGN_OR_RETURN(rank->engine_,
                           hybrid::HybridEngine::Create(rank->slice_.get(), layout, address.rank,
                                                        std::move(hybrid), std::move(options)));
    return rank;
  }

  absl::StatusOr<Outcome> Run(TransitionMethod method) {
    Outcome outcome;
    outcome.training = method == TransitionMethod::kGatherAll ? FlatParts() : Slices(*slice_);
    Barrier();
    const int64_t held_before = TensorBytes();
    ResetPeakTensorBytes();
    const absl::Time start = absl::Now();
    const int64_t socket_before = SocketBytesReceived();
    const int64_t before = groups_->bytes().received;
    if (method == TransitionMethod::kHybrid) {
      BATON_RETURN_IF_ERROR(engine_->ToGeneration());
    } else {
      outcome.gathered.divided = Gather(method, outcome.training.divided, false);
    }
    const int64_t between = groups_->bytes().received;
    if (method != TransitionMethod::kHybrid) {
      outcome.gathered.whole = Gather(method, outcome.training.whole, true);
    }
    outcome.divided_received = static_cast<double>(between - before);
    outcome.whole_received = static_cast<double>(groups_->bytes().received - between);
    outcome.socket_received = static_cast<double>(SocketBytesReceived() - socket_before);
    outcome.peak_bytes =
        static_cast<double>(PeakTensorBytes() - held_before - engine_->memory().kv_cache_bytes +
                            hybrid::StorageBytes(outcome.training.divided) +
                            hybrid::StorageBytes(outcome.training.whole));
    Barrier();
    outcome.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    if (method == TransitionMethod::kHybrid) {
      outcome.gathered = Slices(*engine_->generation_model());
    }
    BATON_RETURN_IF_ERROR(Verify(method, outcome.gathered));
    return outcome;
  }

  /// Gives back what was gathered; `outcome.gathered` is then empty.
  absl::Status Finish(TransitionMethod method, Outcome& outcome) {
    outcome.gathered = {};
    Barrier();
    const absl::Time start = absl::Now();
    if (method == TransitionMethod::kHybrid) BATON_RETURN_IF_ERROR(engine_->ToTraining());
    outcome.seconds_back = absl::ToDoubleSeconds(absl::Now() - start);
    return absl::OkStatus();
  }
  /// Bytes of divided and whole parameters together, while training.
  int64_t training_bytes(TransitionMethod method, const Outcome& outcome) const {
    if (method == TransitionMethod::kHybrid) return engine_->memory().parameter_bytes();
    return hybrid::StorageBytes(outcome.training.divided) +
           hybrid::StorageBytes(outcome.training.whole);
  }

  Communicator& world() { return *world_; }
  hybrid::DividedBytes model_bytes() const {
    return hybrid::ModelBytes(hybrid::DivideModel(*slice_, layout_));
  }

 private:
  Rank(const RankLayout& layout, CausalLM* model) : layout_(layout), whole_(model) {}

  void Barrier() { world_->AllReduce(torch::zeros({1})); }

  /// [begin, end) of `tensor` as one row, that rank `rank` trains under gather_all.
  static Tensor Part(const Tensor& flat, int rank) {
    const int64_t n = flat.numel();
    return flat.narrow(0, n * rank / kRanks, n * (rank + 1) / kRanks - n * rank / kRanks);
  }

  Tensors FlatParts() const {
    Tensors parts;
    for (size_t i = 0; i < whole_->parameters().size(); ++i) {
      const Tensor flat = whole_->parameters()[i].second.reshape({-1});
      (slice_->shards()[i].whole() ? parts.whole : parts.divided)
          .push_back(Part(flat, world_->rank()).clone());
    }
    return parts;
  }

  static Tensors Slices(const CausalLM& model) {
    Tensors slices;
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      (model.shards()[i].whole() ? slices.whole : slices.divided)
          .push_back(model.parameters()[i].second);
    }
    return slices;
  }

  /// The whole tensors, of the class that `whole` says, from `mine`.
  std::vector<Tensor> Gather(TransitionMethod method, const std::vector<Tensor>& mine, bool whole) {
    std::vector<Tensor> gathered;
    for (size_t i = 0; i < slice_->shards().size(); ++i) {
      const engine::ParameterShard& shard = slice_->shards()[i];
      if (shard.whole() != whole) continue;
      const Tensor& part = mine[gathered.size()];
      if (method == TransitionMethod::kGatherTensor) {
        gathered.push_back(
            engine::GatherWhole(part, shard, slice_->config(), *slice_->tensor_group()));
        continue;
      }
      Tensor all = torch::empty(shard.shape, part.options());
      const Tensor flat = all.view({-1});
      Part(flat, world_->rank()).copy_(part);
      for (int r = 0; r < kRanks; ++r) world_->Broadcast(Part(flat, r), r);
      gathered.push_back(std::move(all));
    }
    return gathered;
  }

  /// Checks that `gathered` is bitwise the whole model.
  absl::Status Verify(TransitionMethod method, const Tensors& gathered) const {
    const CausalLM& model =
        method == TransitionMethod::kHybrid ? *engine_->generation_model() : *whole_;
    size_t divided = 0, whole = 0;
    for (size_t i = 0; i < model.shards().size(); ++i) {
      const engine::ParameterShard& shard = model.shards()[i];
      const auto tensor_is_whole = [&] {
        for (const engine::ParameterShard& s : slice_->shards()) {
          if (s.name == shard.name) return s.whole();
        }
        return false;
      };
      const Tensor& got = tensor_is_whole() ? gathered.whole[whole++] : gathered.divided[divided++];
      for (const auto& [name, expected] : whole_->parameters()) {
        if (name == shard.name && !torch::equal(engine::SliceOf(expected, shard.box), got)) {
          return absl::InternalError(absl::StrCat(name, " was gathered wrongly"));
        }
      }
    }
    return absl::OkStatus();
  }

  const RankLayout layout_;
  CausalLM* const whole_;
  std::unique_ptr<parallel::RankGroups> groups_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<CausalLM> slice_;
  std::unique_ptr<hybrid::HybridEngine> engine_;
};

/// Bytes of `training` that are not memory of `gathered`.
double Beside(const std::vector<Tensor>& training, const std::vector<Tensor>& gathered) {
  std::vector<Tensor> all = training;
  all.insert(all.end(), gathered.begin(), gathered.end());
  return static_cast<double>(hybrid::StorageBytes(all) - hybrid::StorageBytes(gathered));
}

/// Figures of a rank by name; and how each is combined over ranks: mean, or the largest.
struct Measured {
  std::vector<std::pair<std::string, double>> mean, most;
};

Measured MeasuredOf(const Outcome& outcome) {
  const auto bytes = [](const std::vector<Tensor>& tensors) {
    return static_cast<double>(hybrid::StorageBytes(tensors));
  };
  const Tensors &training = outcome.training, &gathered = outcome.gathered;
  return {{{"received", outcome.divided_received},
           {"replicated_received", outcome.whole_received},
           {"socket_received", outcome.socket_received}},
          {{"peak", bytes(gathered.divided)},
           {"redundant", Beside(training.divided, gathered.divided)},
           {"replicated_peak", bytes(gathered.whole)},
           {"replicated_redundant", Beside(training.whole, gathered.whole)},
           {"transition_peak", outcome.peak_bytes},
           {"seconds", outcome.seconds}}};
}

/// Over the ranks; rank 0 prints PREFIX/NAME/REPEAT=VALUE lines.
void Print(Communicator& world, const Measured& measured, const std::string& prefix, int repeat) {
  const auto print = [&](const std::vector<std::pair<std::string, double>>& named, bool mean) {
    Tensor values = torch::empty({static_cast<int64_t>(named.size())}, torch::kFloat64);
    for (size_t i = 0; i < named.size(); ++i) {
      values[static_cast<int64_t>(i)] = mean ? named[i].second / world.size() : named[i].second;
    }
    world.AllReduce(values, mean ? engine::Reduction::kSum : engine::Reduction::kMax);
    for (size_t i = 0; i < named.size() && world.rank() == 0; ++i) {
      std::printf("%s/%s/%d=%.17g\n", prefix.c_str(), named[i].first.c_str(), repeat,
                  values[static_cast<int64_t>(i)].item<double>());
    }
  };
  print(measured.mean, true);
  print(measured.most, false);
}

/// One rank, through all layouts. Rank 0 says what was measured on standard output.
absl::Status RunRank(parallel::GroupAddress address, bool quick, int repeats) {
  BATON_ASSIGN_OR_RETURN(const auto whole,
                         CausalLM::Create(Model(quick), torch::kFloat32, torch::kCPU));
  whole->InitializeRandom(1);
  for (const RankLayout& layout : Layouts(quick)) {
    ++address.group_epoch;
    address.tp = layout.tensor;
    address.dp = layout.data;
    BATON_ASSIGN_OR_RETURN(const auto rank, Rank::Join(address, layout, whole.get()));
    const std::string name = LayoutName(layout);
    if (address.rank == 0) {
      std::printf("%s/M=%lld\n", name.c_str(), static_cast<long long>(rank->model_bytes().divided));
    }
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (TransitionMethod method : kTransitionMethods) {
        BATON_ASSIGN_OR_RETURN(Outcome outcome, rank->Run(method));
        Measured measured = MeasuredOf(outcome);
        BATON_RETURN_IF_ERROR(rank->Finish(method, outcome));
        measured.most.emplace_back("training",
                                   static_cast<double>(rank->training_bytes(method, outcome)));
        measured.most.emplace_back("seconds_back", outcome.seconds_back);
        Print(rank->world(), measured, absl::StrCat(name, "/", TransitionMethodName(method)),
              repeat);
      }
    }
  }
  return absl::OkStatus();
}

/// The rows of one layout and method from what rank 0 said.
void AddRows(const std::map<std::string, double>& said, const RankLayout& layout,
             TransitionMethod method, int repeats, Report& report) {
  const std::string prefix =
      absl::StrCat(LayoutName(layout), "/", TransitionMethodName(method), "/");
  const double bytes = said.at(LayoutName(layout) + "/M");
  const auto median = [&](const char* name) {
    std::vector<double> values;
    for (int r = 0; r < repeats; ++r) values.push_back(said.at(absl::StrCat(prefix, name, "/", r)));
    return Percentile(values, 0.5);
  };
  const TransitionFractions formula = TransitionFormula(layout, method);
  const double received = median("received"), replicated = median("replicated_received");
  report.Add(prefix + "bytes_over_formula", received / (formula.received * bytes), "");
  report.Add(prefix + "received_bytes", received, "bytes", absl::StrCat(received / bytes, " M"));
  report.Add(prefix + "socket_over_payload", median("socket_received") / (received + replicated),
             "");
  const double peak = median("peak");
  report.Add(prefix + "peak_parameter_bytes", peak, "bytes", absl::StrCat(peak / bytes, " M"));
  report.Add(prefix + "peak_over_formula", peak / (formula.peak * bytes), "");
  const double redundant = median("redundant");
  report.Add(prefix + "redundant_bytes", redundant, "bytes", absl::StrCat(redundant / bytes, " M"));
  report.Add(prefix + "replicated_received_bytes", replicated, "bytes");
  report.Add(prefix + "replicated_peak_bytes", median("replicated_peak"), "bytes");
  report.Add(prefix + "replicated_redundant_bytes", median("replicated_redundant"), "bytes");
  report.Add(prefix + "training_parameter_bytes", median("training"), "bytes");
  const double held = peak + redundant + median("replicated_peak") + median("replicated_redundant");
  report.Add(prefix + "transition_peak_bytes", median("transition_peak"), "bytes",
             absl::StrCat(median("transition_peak") / held, " of what it then holds"));
  report.Add(prefix + "seconds", median("seconds"), "s");
  if (method == TransitionMethod::kHybrid) {
    report.Add(prefix + "seconds_back", median("seconds_back"), "s");
  }
}

/// The output of rank 0; empty: a rank failed (said on standard error).
std::map<std::string, double> RunRanks(const std::string& store, bool quick, int repeats) {
  const TestFolder folder;
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::string> arguments = {
        "hybrid_engine_bench", "--rank", absl::StrCat(rank), "--store", store, "--repeats",
        absl::StrCat(repeats)};
    if (quick) arguments.push_back("--quick");
    ranks.push_back(
        std::make_unique<ChildProcess>(arguments, folder.path(absl::StrCat("rank", rank))));
  }
  std::map<std::string, double> said;
  bool failed = false;
  for (const auto& rank : ranks) {
    if (rank->Wait(absl::Minutes(5)) == 0) continue;
    failed = true;
    std::fprintf(stderr, "%s", rank->Log().c_str());
  }
  for (const auto& line : absl::StrSplit(ranks[0]->Log(), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, '=');
    said[parts.first] = std::atof(parts.second.c_str());
  }
  return failed ? std::map<std::string, double>() : said;
}

int RunBench(const std::string& json, bool quick, int repeats) {
  for (const std::string& entry : ComputeEnvironment()) {  // For the ranks.
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    setenv(parts.first.c_str(), parts.second.c_str(), 1);
  }
  const auto server = parallel::StoreServer::Start("127.0.0.1");
  if (!server.ok()) {
    std::fprintf(stderr, "hybrid_engine_bench: %s\n", server.status().ToString().c_str());
    return 1;
  }
  const std::map<std::string, double> said = RunRanks((*server)->address(), quick, repeats);
  if (said.empty()) return 1;
  Report report("hybrid_engine");
  for (const RankLayout& layout : Layouts(quick)) {
    report.Add(LayoutName(layout) + "/M", said.at(LayoutName(layout) + "/M"), "bytes");
    for (TransitionMethod method : kTransitionMethods) {
      AddRows(said, layout, method, repeats, report);
    }
  }
  torch::set_num_threads(1);
  absl::Status status = MeasureGeneration(Model(quick), 32, repeats, report);
  if (!quick) status.Update(MeasureGeneration(WideModel(), 8, 3, report));
  if (!status.ok()) {
    std::fprintf(stderr, "hybrid_engine_bench: %s\n", status.ToString().c_str());
    return 1;
  }
  report.Print();
  return !json.empty() && !report.WriteJson(json) ? 1 : 0;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  std::string json;
  bool quick = false;
  int rank = -1, repeats = 0;
  baton::parallel::GroupAddress address;
  CLI::App app("Measures three ways from training to generation on the same ranks.");
  app.add_option("--json", json, "Write the rows here");
  app.add_flag("--quick", quick, "One layout of a small model, once");
  // A rank, started by this program itself.
  app.add_option("--rank", rank)->group("");
  app.add_option("--store", address.store)->group("");
  app.add_option("--repeats", repeats)->group("");
  CLI11_PARSE(app, argc, argv);
  if (repeats == 0) repeats = quick ? 1 : 5;
  if (rank < 0) return baton::bench::RunBench(json, quick, repeats);
  baton::bench::CountTensorMemory();
  torch::set_num_threads(1);
  address.rank = rank;
  const absl::Status status = baton::bench::RunRank(address, quick, repeats);
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
