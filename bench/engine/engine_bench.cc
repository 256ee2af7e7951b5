// The engine's speed as a share of the machine's: `./dev bench engine [--quick] [--json FILE]`.
//
// One compute thread and a worker's environment (workers/main/compute_environment.h). Each repeat
// measures the limits (engine_limits.h) and the loads (engine_loads.h, with the formulas of
// operations and bytes) one after the other; a fraction is of the limit of the same repeat:
//     matmul_fraction = operations per second / matmul_gflops
//     memcpy_fraction = bytes per second / memcpy_gb_per_second
// memcpy_gb_per_second is of buffers beyond the caches, counts bytes read and written, and a model
// of 1.3 MB stays in the caches. Rows are medians; the notes give the smallest and the largest.
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/engine/engine_limits.h"
#include "bench/engine/engine_loads.h"
#include "bench/support/report.h"
#include "bench/support/worker_environment.h"

namespace baton::bench {
namespace {

void PrintEnvironment() {
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS",
                           "OPENBLAS_CORETYPE", "MALLOC_CONF", "MALLOC_MMAP_THRESHOLD_"}) {
    const char* value = std::getenv(name);
    std::printf("%s=%s ", name, value != nullptr ? value : "(unset)");
  }
  using CoreName = char* (*)();
  const auto core = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  std::printf("\nBLAS kernels: %s\n", core != nullptr ? core() : "not OpenBLAS");
}

void AddLoad(const std::string& name, const Load& load, double gflops, double gb, Series& series) {
  series.Add(name + "_tokens_per_second", load.tokens / load.seconds, "tokens/s");
  series.Add(name + "_matmul_fraction", load.flops * 1e-9 / load.seconds / gflops, "");
  if (load.bytes > 0) {
    series.Add(name + "_memcpy_fraction", load.bytes * 1e-9 / load.seconds / gb, "");
  }
}

void Repeat(engine::CausalLM& model, bool quick, Series& series) {
  const double seconds = quick ? 0.05 : 0.3;
  const double gflops = MatmulGflops(seconds);
  const double gb = MemcpyGbPerSecond(seconds);
  series.Add("matmul_gflops", gflops, "GFLOP/s");
  series.Add("memcpy_gb_per_second", gb, "GB/s");
  const auto shapes = ProductShapes(model.config());
  for (const int64_t running : {1, 8, 32, 64}) {
    series.Add(absl::StrCat("matmul_model_", running, "_rows_gflops"),
               ShapesGflops(running, shapes, seconds / 3), "GFLOP/s");
    const int64_t steps = (quick ? 2000 : 12'000) / (running + 4);
    AddLoad(absl::StrCat("generation_", running), Generate(model, running, steps), gflops, gb,
            series);
  }
  series.Add("matmul_model_4096_rows_gflops", ShapesGflops(4096, shapes, seconds), "GFLOP/s");
  AddLoad("training_sft", Train(model, Training::kSft, quick ? 2 : 10), gflops, gb, series);
  AddLoad("training_rl", Train(model, Training::kRl, quick ? 1 : 3), gflops, gb, series);
  model.SetDeterministic(true);
  AddLoad("training_rl_deterministic", Train(model, Training::kRl, quick ? 1 : 3), gflops, gb,
          series);
  model.SetDeterministic(false);
}

int RunBench(const std::string& json, bool quick) {
  at::set_num_threads(1);
  PrintEnvironment();
  auto model = engine::CausalLM::Create(AdditionModel(), torch::kFloat32, torch::kCPU);
  if (!model.ok()) {
    std::fprintf(stderr, "engine_bench: %s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  (*model)->InitializeRandom(1);
  std::printf("model of %lld parameters\n",
              static_cast<long long>((*model)->config().NumParameters()));
  Series series;
  const int repeats = quick ? 3 : 9;
  for (int i = 0; i < repeats; ++i) Repeat(**model, quick, series);
  Report report("engine");
  series.AddTo(report);
  report.Print();
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  std::string json;
  bool quick = false;
  CLI::App app("Measures the engine on one thread, beside what the machine can do at most.");
  app.add_option("--json", json, "Write the rows here");
  app.add_flag("--quick", quick, "Fewer and shorter repetitions");
  CLI11_PARSE(app, argc, argv);
  baton::bench::RestartAsWorker(argv);
  return baton::bench::RunBench(json, quick);
}
