// The speedup of training on several ranks over one process, and the memory of a rank: `./dev bench
// parallel [--quick] [--json F]`.
//
// Every layout trains the same model on the same batches, each rank a process with one compute
// thread, over Gloo on the loopback interface. An update is one optimizer step on one batch.
//     tokens_per_second   prompts and responses of the batches over the time between two barriers;
//                         the median of the repeats, in which layouts take turns
//     efficiency          that over (ranks x one process's). Of apart2, two processes that know
//                         nothing of each other, it is what the machine leaves to any two: their
//                         tokens_per_second are added up
//     over_apart2         tokens_per_second over those of apart2: what working together costs
//     received_bytes      of one rank per update, counted at the transport
//     imbalance           largest over mean cost of a data rank's part
//     overlapped          share of gradient buckets whose sum started before backward ended
// Four ranks, tp2 dp2, also say the most bytes of tensors that one of them holds at once, of any:
//     held_bytes                   between steps: its slices, its part of the moments
//     update_peak_bytes            while it trains
//     publish_gathered_peak_bytes  while it publishes a version gathered on every rank, as it was
//                                  done before ranks wrote their boxes into the relay's memory
//     publish_peak_bytes           while it publishes a version as it does now
// More ranks than cores measure the machine, not the engine: compare with "cores" of the report.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "bench/engine/tensor_memory.h"
#include "bench/support/child_process.h"
#include "bench/support/report.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/test_folder.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/training/sharded_adamw.h"
#include "workers/engine/training/trainer.h"
#include "workers/main/compute_environment.h"
#include "workers/parallel/rank_groups.h"
#include "workers/policy/weights_publisher.h"

namespace baton::bench {
namespace {

using engine::TrainSequence;
using parallel::GroupAddress;
using parallel::RankGroups;

struct Work {
  std::string name;
  ModelConfig config;
  int sequences, updates;
};

ModelConfig Model(int64_t vocab, int64_t hidden, int64_t intermediate, int64_t layers) {
  ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_hidden_layers = layers;
  config.num_attention_heads = config.num_key_value_heads = 4;
  config.head_dim = hidden / 4;
  config.max_position_embeddings = 512;
  config.tie_word_embeddings = true;
  return config;
}

/// The addition example's model, and one whose products are worth dividing.
Work MakeWork(const std::string& name, bool quick) {
  if (name == "small") return {name, Model(17, 96, 256, 3), 64, quick ? 2 : 10};
  return {name, Model(4096, 256, 704, 4), 16, quick ? 1 : 3};
}

/// Lengths with a long tail.
std::vector<TrainSequence> MakeBatch(const Work& work, int update) {
  std::mt19937 rng(static_cast<uint32_t>(update));
  std::lognormal_distribution<double> length(work.name == "small" ? 3.3 : 4.3, 0.6);
  std::vector<TrainSequence> batch(work.sequences);
  for (TrainSequence& s : batch) {
    s.prompt_length = 10;
    const int response = std::min(400, 1 + static_cast<int>(length(rng)));
    for (int64_t t = 0; t < s.prompt_length + response; ++t) {
      s.tokens.push_back(static_cast<int32_t>(rng() % work.config.vocab_size));
    }
  }
  return batch;
}

void Barrier(RankGroups& groups) {
  const torch::Tensor token = torch::zeros({1});
  if (groups.data_group() != nullptr) groups.data_group()->AllReduce(token);
  if (groups.tensor_group() != nullptr) groups.tensor_group()->AllReduce(token);
}

/// One rank: says what it measured in a line on standard output.
absl::Status RunRank(const GroupAddress& address, const Work& work) {
  BATON_ASSIGN_OR_RETURN(const auto groups, RankGroups::Join(address));
  BATON_ASSIGN_OR_RETURN(auto model, engine::CausalLM::Create(work.config, torch::kFloat32,
                                                              torch::kCPU, groups->tensor_group()));
  model->InitializeRandom(1);
  BATON_ASSIGN_OR_RETURN(auto trainer,
                         engine::Trainer::Create(model.get(), {}, groups->data_group()));
  BATON_RETURN_IF_ERROR(trainer->Update(MakeBatch(work, 0), {}, {}).status());
  const auto* sharded = dynamic_cast<const engine::ShardedAdamW*>(&trainer->optimizer());
  const int64_t early_before = sharded != nullptr ? sharded->overlapped_buckets() : 0;
  double tokens = 0, imbalance = 0;
  Barrier(*groups);
  const int64_t received_before = groups->bytes().received;
  const absl::Time start = absl::Now();
  for (int update = 1; update <= work.updates; ++update) {
    BATON_ASSIGN_OR_RETURN(auto metrics, trainer->Update(MakeBatch(work, update), {}, {}));
    tokens += metrics["perf/total_num_tokens"];
    imbalance += metrics.count("perf/imbalance") > 0 ? metrics["perf/imbalance"] : 1;
  }
  const double received = static_cast<double>(groups->bytes().received - received_before);
  Barrier(*groups);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  double overlapped = 0;
  if (sharded != nullptr && sharded->buckets() > 0) {
    overlapped = static_cast<double>(sharded->overlapped_buckets() - early_before) /
                 static_cast<double>(sharded->buckets() * work.updates);
  }
  std::printf("tokens_per_second=%.9g received_bytes=%.9g imbalance=%.9g overlapped=%.9g\n",
              tokens / seconds, received / work.updates, imbalance / work.updates, overlapped);
  return absl::OkStatus();
}

/// Every rank copies the whole model, and the first writes it: what publishing was before.
absl::Status PublishGathered(const engine::CausalLM& model, torch::Dtype dtype, uint8_t* memory) {
  BATON_ASSIGN_OR_RETURN(const engine::NamedTensors whole, engine::WholeParameters(model));
  BATON_ASSIGN_OR_RETURN(const auto image, engine::WeightsImage::Create(whole, dtype));
  if (memory == nullptr) return absl::OkStatus();
  return image.CopyTo({memory, static_cast<size_t>(image.size_bytes())});
}

/// One rank of a job that trains a step and publishes it to the relay at `address_of_relay`: says
/// its memory in a line.
absl::Status RunMemoryRank(const GroupAddress& address, const Work& work,
                           const std::string& address_of_relay) {
  CountTensorMemory();
  BATON_ASSIGN_OR_RETURN(const auto groups, RankGroups::Join(address));
  BATON_ASSIGN_OR_RETURN(auto model, engine::CausalLM::Create(work.config, torch::kFloat32,
                                                              torch::kCPU, groups->tensor_group()));
  model->InitializeRandom(1);
  BATON_ASSIGN_OR_RETURN(auto trainer,
                         engine::Trainer::Create(model.get(), {}, groups->data_group()));
  ResetPeakTensorBytes();
  BATON_RETURN_IF_ERROR(trainer->Update(MakeBatch(work, 0), {}, {}).status());
  const int64_t update_peak = PeakTensorBytes();
  const bool writes = address.rank < address.tp;
  constexpr torch::Dtype kPublished = torch::kBFloat16;
  Barrier(*groups);  // the transport lets go of what it has sent
  const int64_t held = TensorBytes();

  ResetPeakTensorBytes();
  if (writes) {
    BATON_ASSIGN_OR_RETURN(const auto layout, engine::ModelLayout(*model, kPublished));
    // Not a tensor: what the relay's memory is.
    std::vector<uint8_t> memory(address.rank == 0 ? static_cast<size_t>(layout.file_size()) : 0);
    BATON_RETURN_IF_ERROR(
        PublishGathered(*model, kPublished, address.rank == 0 ? memory.data() : nullptr));
  }
  const int64_t gathered_peak = PeakTensorBytes();
  Barrier(*groups);

  ResetPeakTensorBytes();
  if (writes) {
    BATON_ASSIGN_OR_RETURN(const auto relay,
                           policy::WeightsRelay::Create({address_of_relay}, "bench"));
    policy::WeightsPublisher publisher(relay.get(), model.get(), kPublished);
    BATON_RETURN_IF_ERROR(publisher.Publish({"job", 1, true, ""}, absl::Notification()));
  }
  const int64_t published_peak = PeakTensorBytes();
  Barrier(*groups);
  std::printf(
      "held_bytes=%lld update_peak_bytes=%lld publish_gathered_peak_bytes=%lld "
      "publish_peak_bytes=%lld\n",
      static_cast<long long>(held), static_cast<long long>(update_peak),
      static_cast<long long>(gathered_peak), static_cast<long long>(published_peak));
  return absl::OkStatus();
}

struct Layout {
  int tp, dp;
  int apart = 1;  ///< Groups that run at once.
  int processes() const { return tp * dp * apart; }
  std::string Name() const {
    if (apart > 1) return absl::StrCat("apart", apart);
    if (tp * dp == 1) return "one_process";
    return absl::StrCat(tp > 1 ? absl::StrCat("tp", tp) : "", dp > 1 ? absl::StrCat("dp", dp) : "");
  }
};

constexpr const char* kMeasured[] = {"tokens_per_second", "received_bytes", "imbalance",
                                     "overlapped"};

/// Where ranks of this program meet and write.
struct Place {
  std::string store;
  std::string folder;
};

using Ranks = std::vector<std::unique_ptr<ChildProcess>>;

/// The ranks of a layout, once all have ended; empty: one failed (said on standard error).
Ranks RunRanks(const Layout& layout, const std::string& work, bool quick, const Place& place,
               int group_epoch, const std::vector<std::string>& more = {}) {
  Ranks ranks;
  const int group_size = layout.tp * layout.dp;
  for (int process = 0; process < layout.processes(); ++process) {
    std::vector<std::string> arguments = {"parallel_bench",
                                          "--rank",
                                          absl::StrCat(process % group_size),
                                          "--tp",
                                          absl::StrCat(layout.tp),
                                          "--dp",
                                          absl::StrCat(layout.dp),
                                          "--store",
                                          place.store,
                                          "--group-epoch",
                                          absl::StrCat(group_epoch),
                                          "--work",
                                          work};
    if (quick) arguments.push_back("--quick");
    arguments.insert(arguments.end(), more.begin(), more.end());
    ranks.push_back(std::make_unique<ChildProcess>(
        arguments, absl::StrCat(place.folder, "/", group_epoch, "_", process)));
  }
  for (const auto& rank : ranks) {
    if (rank->Wait(absl::Minutes(5)) != 0) {
      std::fprintf(stderr, "%s", rank->Log().c_str());
      return {};
    }
  }
  return ranks;
}

double Said(const ChildProcess& rank, const char* name) {
  return std::atof(rank.WaitForLog(absl::StrCat(name, "="), absl::Seconds(1)).c_str());
}

/// The measurements of rank 0 of each group, speeds added up; empty: a rank failed.
std::map<std::string, double> RunLayout(const Layout& layout, const std::string& work, bool quick,
                                        const Place& place, int group_epoch) {
  const Ranks ranks = RunRanks(layout, work, quick, place, group_epoch);
  if (ranks.empty()) return {};
  std::map<std::string, double> measured;
  for (const char* name : kMeasured) measured[name] = Said(*ranks[0], name);
  const int group_size = layout.tp * layout.dp;
  for (int first = group_size; first < layout.processes(); first += group_size) {
    measured["tokens_per_second"] += Said(*ranks[first], "tokens_per_second");
  }
  return measured;
}

/// The memory of the rank that holds most. False: a rank failed.
bool AddMemoryRows(const std::string& work, bool quick, const Place& place, int group_epoch,
                   Report& report) {
  const Layout layout = {2, 2};
  const ChildProcess relay({"baton-relay", "--listen", "127.0.0.1:0", "--shm-dir", place.folder},
                           absl::StrCat(place.folder, "/relay_", group_epoch));
  const std::string address = relay.WaitForLog("listening on ", absl::Seconds(30));
  const Ranks ranks = RunRanks(layout, work, quick, place, group_epoch, {"--publish-to", address});
  if (ranks.empty()) return false;
  const std::string prefix = absl::StrCat(work, "/", layout.Name(), "/");
  for (const char* name :
       {"held_bytes", "update_peak_bytes", "publish_gathered_peak_bytes", "publish_peak_bytes"}) {
    double most = 0;
    for (const auto& rank : ranks) most = std::max(most, Said(*rank, name));
    report.Add(prefix + name, most, "bytes");
  }
  return true;
}

using Values = std::map<std::string, std::map<std::string, std::vector<double>>>;

/// `values`: of each layout's name and row, one per repeat.
void AddRows(const std::string& work, const std::vector<Layout>& layouts, Values& values,
             Report& report) {
  const auto median = [&](const std::string& layout, const char* row) {
    return Percentile(values[layout][row], 0.5);
  };
  for (const Layout& layout : layouts) {
    const std::string name = layout.Name(), prefix = absl::StrCat(work, "/", name, "/");
    const double speed = median(name, "tokens_per_second");
    const std::vector<double>& speeds = values[name]["tokens_per_second"];
    report.Add(prefix + "tokens_per_second", speed, "tokens/s",
               absl::StrCat(Percentile(speeds, 0), " to ", Percentile(speeds, 1)));
    if (layout.processes() == 1) continue;
    const double one = median("one_process", "tokens_per_second");
    report.Add(prefix + "efficiency", speed / (layout.processes() * one), "");
    if (layout.apart > 1) continue;
    report.Add(prefix + "over_apart2", speed / median("apart2", "tokens_per_second"), "");
    report.Add(prefix + "received_bytes", median(name, "received_bytes"), "bytes");
    if (layout.dp == 1) continue;
    report.Add(prefix + "imbalance", median(name, "imbalance"), "");
    report.Add(prefix + "overlapped", median(name, "overlapped"), "");
  }
}

int RunBench(const std::string& json, bool quick) {
  for (const std::string& entry : ComputeEnvironment()) {  // For the ranks.
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    setenv(parts.first.c_str(), parts.second.c_str(), 1);
  }
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  const TestFolder folder;
  const auto server = parallel::StoreServer::Start("127.0.0.1");
  if (!server.ok()) {
    std::fprintf(stderr, "parallel_bench: no store\n");
    return 1;
  }
  const Place place = {(*server)->address(), folder.path()};
  const std::vector<Layout> layouts = {{1, 1}, {1, 1, 2}, {1, 2}, {2, 1}};
  Report report("parallel");
  int group_epoch = 0;
  bool failed = false;
  for (const std::string work : {"small", "medium"}) {
    Values values;
    for (int repeat = 0; repeat < (quick ? 1 : 5); ++repeat) {
      for (const Layout& layout : layouts) {
        const auto measured = RunLayout(layout, work, quick, place, ++group_epoch);
        failed = failed || measured.empty();
        for (const auto& [name, value] : measured) values[layout.Name()][name].push_back(value);
      }
    }
    if (!failed) AddRows(work, layouts, values, report);
    failed = failed || !AddMemoryRows(work, quick, place, ++group_epoch, report);
  }
  report.Print();
  return failed || (!json.empty() && !report.WriteJson(json)) ? 1 : 0;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  std::string json, work, publish_to;
  bool quick = false;
  int rank = -1;
  baton::parallel::GroupAddress address;
  CLI::App app("Measures training on several ranks over one process.");
  app.add_option("--json", json, "Write the rows here");
  app.add_flag("--quick", quick, "One short repetition");
  // A rank, started by this program itself.
  app.add_option("--rank", rank)->group("");
  app.add_option("--tp", address.tp)->group("");
  app.add_option("--dp", address.dp)->group("");
  app.add_option("--store", address.store)->group("");
  app.add_option("--group-epoch", address.group_epoch)->group("");
  app.add_option("--work", work)->group("");
  app.add_option("--publish-to", publish_to)->group("");
  CLI11_PARSE(app, argc, argv);
  if (rank < 0) return baton::bench::RunBench(json, quick);
  torch::set_num_threads(1);
  address.rank = rank;
  const baton::bench::Work made = baton::bench::MakeWork(work, quick);
  const absl::Status status = publish_to.empty()
                                  ? baton::bench::RunRank(address, made)
                                  : baton::bench::RunMemoryRank(address, made, publish_to);
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
