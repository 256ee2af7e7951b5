#include "bench/engine/engine_limits.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace baton::bench {
namespace {

// How often `f` runs in a second, over at least `seconds`; the first run does not count.
template <typename F>
double RunsPerSecond(double seconds, F f) {
  using Clock = std::chrono::steady_clock;
  f();
  const auto start = Clock::now();
  double passed = 0;
  int64_t runs = 0;
  do {
    f();
    ++runs;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (passed < seconds);
  return static_cast<double>(runs) / passed;
}

}  // namespace

double MatmulGflops(double seconds) {
  const torch::NoGradGuard no_grad;
  double best = 0;
  for (const int64_t n : {256, 512, 1024}) {
    const torch::Tensor a = torch::randn({n, n}), b = torch::randn({n, n});
    torch::Tensor c = torch::empty({n, n});
    const double runs = RunsPerSecond(seconds / 3, [&] { torch::mm_out(c, a, b); });
    best = std::max(best, runs * 2e-9 * static_cast<double>(n * n * n));
  }
  return best;
}

double ShapesGflops(int64_t rows, const std::vector<std::pair<int64_t, int64_t>>& shapes,
                    double seconds) {
  const torch::NoGradGuard no_grad;
  struct Product {
    torch::Tensor x, weight, y;
  };
  std::vector<Product> products;
  double flops = 0;
  for (const auto& [out, in] : shapes) {
    products.push_back(
        {torch::randn({rows, in}), torch::randn({out, in}).t(), torch::empty({rows, out})});
    flops += 2.0 * static_cast<double>(rows * out * in);
  }
  const double runs = RunsPerSecond(seconds, [&] {
    for (Product& p : products) torch::mm_out(p.y, p.x, p.weight);
  });
  return runs * flops * 1e-9;
}

double MemcpyGbPerSecond(double seconds) {
  constexpr size_t kBytes = size_t{1} << 27;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 0);
  const double runs = RunsPerSecond(seconds, [&] {
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");  // someone may look: the copy must happen
  });
  return runs * 2 * kBytes * 1e-9;
}

}  // namespace baton::bench
