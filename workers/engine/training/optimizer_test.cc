#include "workers/engine/training/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

AdamW::Parameters MakeParameters(torch::Dtype dtype) {
  torch::manual_seed(1);
  return {{"a", torch::randn({2, 3}, torch::kFloat64).to(dtype)},
          {"b", torch::randn({4}, torch::kFloat64).to(dtype)}};
}

AdamW Make(const AdamW::Parameters& parameters, const OptimizerSpec& spec) {
  auto optimizer = AdamW::Create(parameters, spec);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

std::vector<double> Flat(const AdamW::Parameters& parameters, bool gradients = false) {
  std::vector<double> values;
  for (const auto& named : parameters) {
    const torch::Tensor t =
        (gradients ? named.second.grad() : named.second.detach()).to(torch::kFloat64).contiguous();
    values.insert(values.end(), t.data_ptr<double>(), t.data_ptr<double>() + t.numel());
  }
  return values;
}

/// Gradients as autograd makes them: accumulated into what is there.
void Backward(const AdamW::Parameters& parameters, int round) {
  torch::manual_seed(100 + round);
  torch::Tensor total = torch::zeros({}, parameters[0].second.options());
  for (const auto& named : parameters) {
    total =
        total + (named.second * torch::randn_like(named.second)).sum() + named.second.pow(2).sum();
  }
  total.backward();
}

// One scalar at a time, as the paper has it.
struct SlowAdamW {
  OptimizerSpec spec;
  std::vector<double> p, m, v;
  size_t matrices = 0;  // The elements before this one are of matrices, the others of vectors.
  int t = 0;

  void Step(std::vector<double> g, double lr) {
    if (m.empty()) m.resize(p.size()), v.resize(p.size());
    double norm = 0;
    for (double x : g) norm += x * x;
    norm = std::sqrt(norm);
    if (spec.grad_clip > 0 && norm > spec.grad_clip) {
      for (double& x : g) x *= spec.grad_clip / (norm + 1e-6);
    }
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      if (i < matrices || spec.decay_norms_and_biases) p[i] -= lr * spec.weight_decay * p[i];
      m[i] = spec.beta1 * m[i] + (1 - spec.beta1) * g[i];
      v[i] = spec.beta2 * v[i] + (1 - spec.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(spec.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(spec.beta2, t));
      p[i] -= lr * m_hat / (std::sqrt(v_hat) + spec.eps);
    }
  }
};

TEST(AdamWTest, EqualsTheScalarDefinition) {
  for (const auto& [grad_clip, decays_all] :
       {std::make_pair(0.0, false), std::make_pair(0.5, true), std::make_pair(1e9, false)}) {
    OptimizerSpec spec;
    spec.decay_norms_and_biases = decays_all;
    spec.lr = 0.05;
    spec.beta1 = 0.8;
    spec.beta2 = 0.95;
    spec.weight_decay = 0.1;
    spec.grad_clip = grad_clip;
    spec.lr_schedule = "linear";
    spec.lr_warmup_steps = 2;
    spec.total_steps = 8;
    const AdamW::Parameters parameters = MakeParameters(torch::kFloat64);
    AdamW optimizer = Make(parameters, spec);
    SlowAdamW slow{spec, Flat(parameters), {}, {}, 6, 0};
    const double rates[] = {0.025, 0.05, 0.05, 0.05 * 5 / 6, 0.05 * 4 / 6};
    for (int round = 0; round < 5; ++round) {
      optimizer.ZeroGradients();
      Backward(parameters, round);
      const std::vector<double> gradients = Flat(parameters, true);
      const auto norm = optimizer.GradientNorm();
      ASSERT_TRUE(norm.ok()) << norm.status();
      double squares = 0;
      for (double g : gradients) squares += g * g;
      EXPECT_NEAR(*norm, std::sqrt(squares), 1e-9);
      const double lr = optimizer.schedule().At(round);
      EXPECT_NEAR(lr, rates[round], 1e-15);
      optimizer.Step(*norm, lr);
      slow.Step(gradients, rates[round]);
      const std::vector<double> now = Flat(parameters);
      for (size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(now[i], slow.p[i], 1e-12);
    }
    EXPECT_EQ(optimizer.step(), 5);
  }
}

TEST(AdamWTest, FirstStepByHand) {
  // m_hat = g and v_hat = g^2, so the first step is lr * sign(g) (to within eps).
  torch::Tensor p = torch::tensor({1.0, -2.0, 3.0}, torch::kFloat64);
  OptimizerSpec spec;
  spec.lr = 0.1;
  spec.weight_decay = 0;
  spec.grad_clip = 0;
  AdamW optimizer = Make({{"p", p}}, spec);
  optimizer.ZeroGradients();
  (p * torch::tensor({4.0, -0.5, 0.0}, torch::kFloat64)).sum().backward();
  optimizer.Step(*optimizer.GradientNorm(), spec.lr);
  EXPECT_NEAR(p[0].item<double>(), 0.9, 1e-8);
  EXPECT_NEAR(p[1].item<double>(), -1.9, 1e-8);
  EXPECT_EQ(p[2].item<double>(), 3.0);
}

// A zero gradient leaves the moments at 0, so that the decay alone moves a weight.
TEST(AdamWTest, NormsAndBiasesDecayOnlyWhereAsked) {
  for (const bool decays_all : {false, true}) {
    const torch::Tensor matrix = torch::full({2, 2}, 8.0, torch::kFloat64);
    const torch::Tensor row = torch::full({1, 2}, 8.0, torch::kFloat64);  // a scalar head
    const torch::Tensor norm = torch::full({2}, 8.0, torch::kFloat64);
    OptimizerSpec spec;
    spec.lr = 0.5;
    spec.weight_decay = 0.25;
    spec.decay_norms_and_biases = decays_all;
    AdamW optimizer = Make({{"m", matrix}, {"score", row}, {"norm", norm}}, spec);
    optimizer.ZeroGradients();
    optimizer.Step(0, spec.lr);
    optimizer.Step(0, spec.lr);
    EXPECT_EQ(matrix[1][1].item<double>(), 8 * 0.875 * 0.875);
    EXPECT_EQ(row[0][1].item<double>(), 8 * 0.875 * 0.875);
    EXPECT_EQ(norm[1].item<double>(), decays_all ? 8 * 0.875 * 0.875 : 8);
  }
}

// Against libtorch's own AdamW with two groups of parameters, as Megatron and Hugging Face make
// them: what decays, and what does not.
TEST(AdamWTest, EqualsLibtorchsParameterGroups) {
  OptimizerSpec spec;
  spec.lr = 0.05;
  spec.weight_decay = 0.1;
  spec.grad_clip = 0;
  const AdamW::Parameters parameters = MakeParameters(torch::kFloat64);
  std::vector<torch::Tensor> theirs;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& named : parameters) {
    theirs.push_back(named.second.detach().clone().set_requires_grad(true));
    const double decay = named.second.dim() > 1 ? spec.weight_decay : 0;
    groups.emplace_back(std::vector<torch::Tensor>{theirs.back()},
                        std::make_unique<torch::optim::AdamWOptions>(
                            torch::optim::AdamWOptions(spec.lr).weight_decay(decay)));
  }
  torch::optim::AdamW reference(groups, torch::optim::AdamWOptions(spec.lr));
  AdamW optimizer = Make(parameters, spec);
  for (int round = 0; round < 5; ++round) {
    optimizer.ZeroGradients();
    Backward(parameters, round);
    for (size_t i = 0; i < theirs.size(); ++i) {
      theirs[i].mutable_grad() = parameters[i].second.grad().clone();
    }
    optimizer.Step(*optimizer.GradientNorm(), spec.lr);
    reference.step();
    for (size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_TRUE(torch::allclose(parameters[i].second, theirs[i], 1e-12, 1e-14)) << i;
    }
  }
}

TEST(AdamWTest, GradientsAccumulateUntilCleared) {
  torch::Tensor p = torch::ones({2}, torch::kFloat32);
  AdamW optimizer = Make({{"p", p}}, OptimizerSpec());
  optimizer.ZeroGradients();
  (p * 3).sum().backward();
  (p * 3).sum().backward();
  EXPECT_NEAR(*optimizer.GradientNorm(), 6 * std::sqrt(2.0), 1e-6);
  optimizer.ZeroGradients();
  EXPECT_EQ(*optimizer.GradientNorm(), 0);
  // A gradient that someone detached is put back.
  p.mutable_grad() = torch::Tensor();
  optimizer.ZeroGradients();
  p.sum().backward();
  EXPECT_NEAR(*optimizer.GradientNorm(), std::sqrt(2.0), 1e-6);
}

TEST(AdamWTest, ANonFiniteGradientIsNamed) {
  const AdamW::Parameters parameters = MakeParameters(torch::kFloat32);
  AdamW optimizer = Make(parameters, OptimizerSpec());
  optimizer.ZeroGradients();
  (parameters[0].second.sum() +
   parameters[1].second.sum() * std::numeric_limits<double>::infinity())
      .backward();
  const auto norm = optimizer.GradientNorm();
  ASSERT_EQ(norm.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(norm.status().message()), HasSubstr("gradient of b is not finite"));
}

// A float32 sum of so many squares stops growing before its end.
TEST(AdamWTest, TheNormOfHalfABillionElementsIsExact) {
  const int64_t count = 500'000'000;
  const torch::Tensor element = torch::full({1}, 1e-3F);
  const torch::Tensor many = element.expand({count});  // of real size, but for the memory
  const double value = element.item<float>();
  const double exact = value * std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(std::sqrt(SquaredNorm(many).item<double>()) / exact, 1, 1e-9);
}

TEST(AdamWTest, TheNormOfAModelIsExact) {
  const int64_t count = int64_t{1} << 26;
  torch::Tensor p = torch::zeros({count}, torch::kFloat32);
  AdamW optimizer = Make({{"p", p}}, OptimizerSpec());
  optimizer.ZeroGradients();
  p.mutable_grad().fill_(1e-3F);
  const double exact = double{1e-3F} * std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(*optimizer.GradientNorm() / exact, 1, 1e-9);
}

std::string TempPath(const std::string& name) { return ::testing::TempDir() + name; }

void RunSteps(AdamW& optimizer, const AdamW::Parameters& parameters, int begin, int end) {
  for (int round = begin; round < end; ++round) {
    optimizer.ZeroGradients();
    Backward(parameters, round);
    optimizer.Step(*optimizer.GradientNorm(), optimizer.schedule().At(round));
  }
}

TEST(AdamWTest, ASavedOptimizerResumesBitwise) {
  OptimizerSpec spec;
  spec.lr = 0.01;
  spec.lr_schedule = "cosine";
  spec.total_steps = 10;
  const AdamW::Parameters straight = MakeParameters(torch::kFloat32);
  AdamW whole = Make(straight, spec);
  RunSteps(whole, straight, 0, 3);

  const std::string path = TempPath("adamw_resume.safetensors");
  ASSERT_TRUE(whole.Save(path).ok());
  AdamW::Parameters resumed;
  for (const auto& [name, p] : straight) resumed.emplace_back(name, p.detach().clone());
  RunSteps(whole, straight, 3, 6);

  AdamW second = Make(resumed, spec);
  ASSERT_TRUE(second.Load(path).ok());
  EXPECT_EQ(second.step(), 3);
  RunSteps(second, resumed, 3, 6);
  for (size_t i = 0; i < straight.size(); ++i) {
    const torch::Tensor &a = straight[i].second, &b = resumed[i].second;
    EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.numel() * sizeof(float)), 0);
  }
}

TEST(AdamWTest, AFileThatDoesNotFitChangesNothing) {
  const AdamW::Parameters parameters = MakeParameters(torch::kFloat32);
  AdamW optimizer = Make(parameters, OptimizerSpec());
  RunSteps(optimizer, parameters, 0, 2);
  const std::string path = TempPath("adamw_fit.safetensors");
  ASSERT_TRUE(optimizer.Save(path).ok());

  EXPECT_EQ(optimizer.Load(TempPath("adamw_absent.safetensors")).code(),
            absl::StatusCode::kNotFound);

  AdamW wide = Make({{"a", torch::zeros({2, 4})}, {"b", torch::zeros({4})}}, OptimizerSpec());
  EXPECT_THAT(std::string(wide.Load(path).message()), HasSubstr("exp_avg.a"));
  AdamW more =
      Make({{"a", torch::zeros({2, 3})}, {"b", torch::zeros({4})}, {"c", torch::zeros({1})}},
           OptimizerSpec());
  EXPECT_THAT(std::string(more.Load(path).message()), HasSubstr("exp_avg.c"));
  AdamW precise = Make(MakeParameters(torch::kFloat64), OptimizerSpec());
  EXPECT_THAT(std::string(precise.Load(path).message()), HasSubstr("F32"));
  for (AdamW* other : {&wide, &more, &precise}) EXPECT_EQ(other->step(), 0);

  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::string cut = TempPath("adamw_cut.safetensors");
  std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() - 5);
  EXPECT_EQ(optimizer.Load(cut).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(optimizer.step(), 2);
}

TEST(AdamWTest, AStateThatNoOptimizerHasIsRefusedAndChangesNothing) {
  const AdamW::Parameters parameters = {{"a", torch::ones({2})}};
  AdamW optimizer = Make(parameters, OptimizerSpec());
  RunSteps(optimizer, parameters, 0, 2);
  const std::string path = TempPath("adamw_state.safetensors");
  ASSERT_TRUE(optimizer.Save(path).ok());
  std::ifstream before(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(before)), {});

  const torch::Tensor moment = torch::full({2}, 0.5), step = torch::full({1}, 7, torch::kInt64);
  const auto load = [&](const torch::Tensor& avg, const torch::Tensor& square,
                        const torch::Tensor& steps) {
    const std::string bad = TempPath("adamw_bad.safetensors");
    const auto image = WeightsImage::Create(
        {{"exp_avg.a", avg}, {"exp_avg_sq.a", square}, {"step", steps}}, {}, {});
    EXPECT_TRUE(image.ok() && image->WriteFile(bad).ok());
    return std::string(optimizer.Load(bad).message());
  };
  EXPECT_THAT(load(moment, moment.to(torch::kHalf), step), HasSubstr("exp_avg_sq.a is F16"));
  EXPECT_THAT(load(moment, -moment, step), HasSubstr("exp_avg_sq.a has a negative square"));
  EXPECT_THAT(load(moment / 0, moment, step), HasSubstr("exp_avg.a is not finite"));
  EXPECT_THAT(load(moment, moment, -step), HasSubstr("step -7 is negative"));
  ASSERT_TRUE(optimizer.Save(path).ok());
  std::ifstream after(path, std::ios::binary);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(after)), {}), bytes);
  EXPECT_EQ(load(moment, moment, step), "");
  EXPECT_EQ(optimizer.step(), 7);
}

TEST(AdamWTest, BadOptionsAreAllNamed) {
  OptimizerSpec spec;
  spec.lr = -1;
  spec.beta1 = 1;
  spec.eps = 0;
  spec.grad_clip = -2;
  spec.lr_schedule = "step";
  const auto optimizer = AdamW::Create({{"p", torch::zeros({1}, torch::kBFloat16)}}, spec);
  ASSERT_EQ(optimizer.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"lr: -1", "beta1", "eps", "grad_clip", "'step'", "parameter p"}) {
    EXPECT_THAT(std::string(optimizer.status().message()), HasSubstr(name));
  }
}

}  // namespace
}  // namespace baton::engine
