#include "controller/spec/settings/step_size.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {
namespace {

constexpr char kLarger[] =
    "; lower one of them, or ask for a larger limit (baton project set, or the controller's flag)";

// A product and how it was made.
struct Product {
  int64_t value = 1;
  std::string text;

  void Times(int64_t factor, absl::string_view name) {
    value = Multiply(value, factor);
    absl::StrAppend(&text, text.empty() ? "" : " x ", name);
  }
  static int64_t Multiply(int64_t a, int64_t b) {
    a = std::max<int64_t>(a, 0);
    b = std::max<int64_t>(b, 0);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return b > 0 && a > kMost / b ? kMost : a * b;
  }
};

// 67108864 -> "67,108,864".
std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string TooLarge(const Product& product, absl::string_view of, int64_t limit) {
  return absl::StrCat(product.text, " = ", Grouped(product.value), " ", of, ", at most ",
                      Grouped(limit), kLarger);
}

std::string TokensTooLarge(const v1::DataSpec& data, Product product, absl::string_view of,
                           const StepLimits& limits) {
  const int64_t longest = int64_t{data.max_prompt_length()} + data.max_response_length();
  product.Times(longest, "(spec.data.max_prompt_length + spec.data.max_response_length)");
  return product.value <= limits.tokens ? "" : TooLarge(product, of, limits.tokens);
}

Product ResponsesOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  const v1::DataSpec& data = effective.data();
  const v1::AlgorithmSpec& algorithm = effective.algorithm();
  Product product;
  product.Times(static_cast<int64_t>(GenBatchSize(effective)),
                data.gen_batch_size() > 0 && data.gen_batch_size() != data.train_batch_size()
                    ? "spec.data.gen_batch_size"
                    : "spec.data.train_batch_size");
  const auto& generate = dataflow.generate();
  const bool baseline = std::any_of(generate.begin(), generate.end(),
                                    [](const auto& node) { return node.purpose() == "baseline"; });
  product.Times(int64_t{effective.rollout().n()} + (baseline ? 1 : 0),
                baseline ? "(spec.rollout.n + a baseline)" : "spec.rollout.n");
  if (algorithm.dynamic_sampling()) {
    product.Times(algorithm.max_num_gen_batches(), "spec.algorithm.max_num_gen_batches");
  }
  return product;
}

}  // namespace

int64_t LeastBatchEntryBytes(const v1::Dataflow& dataflow) {
  // Numbers, finish reason and place of the response; hashes of its three columns and of
  // advantages.
  int64_t bytes = 100;
  for (const v1::ScoreNode& node : dataflow.score()) {
    bytes += 12 + static_cast<int64_t>(node.out().size());  // a score's name and number, or …
  }
  return bytes;
}

std::vector<v1::FieldViolation> CheckStepSize(const v1::JobSpec& effective,
                                              const v1::Dataflow& dataflow,
                                              const StepLimits& limits) {
  Violations out;
  int64_t workers = 0;
  std::string asked;
  for (const auto& [role, count] : WorkersOf(effective, dataflow)) {
    workers += std::max(count, 0);
    absl::StrAppend(&asked, asked.empty() ? "" : " + ", count, " of role ", role);
  }
  if (workers > kMaxJobWorkers) {
    out.Add("resources", absl::StrCat(asked, " = ", Grouped(workers), " workers, at most ",
                                      Grouped(kMaxJobWorkers)));
  }
  if (effective.kind() != v1::JOB_KIND_RL) return out.Take();  // a step has at most 65,536 examples
  const Product responses = ResponsesOf(effective, dataflow);
  if (responses.value > limits.responses) {
    out.Add("data.train_batch_size", TooLarge(responses, "responses of a step", limits.responses));
    return out.Take();
  }
  Product bytes = responses;
  bytes.Times(LeastBatchEntryBytes(dataflow), "the bytes of a response in the row of its batch");
  if (const int64_t most = kMaxBatchRowBytes; bytes.value > most) {
    out.Add("data.train_batch_size",
            absl::StrCat(bytes.text, " = ", Grouped(bytes.value), " bytes, at most ", Grouped(most),
                         " can be stored; lower one of them"));
    return out.Take();
  }
  const std::string tokens =
      TokensTooLarge(effective.data(), responses, "tokens of a step", limits);
  if (!tokens.empty()) out.Add("data.max_response_length", tokens);
  return out.Take();
}

std::string EvaluationTooLarge(const v1::JobSpec& effective, uint64_t examples,
                               const StepLimits& limits) {
  if (effective.kind() != v1::JOB_KIND_RL) return "";
  const auto most = static_cast<uint64_t>(std::max(effective.data().val_max_samples(), 0));
  const bool cut = most > 0 && most < examples;
  Product responses;
  responses.Times(static_cast<int64_t>(cut ? most : examples),
                  cut ? "spec.data.val_max_samples" : "examples of spec.data.val_files");
  responses.Times(effective.rollout().val().n(), "spec.rollout.val.n");
  if (responses.value > limits.responses) {
    return absl::StrCat(TooLarge(responses, "responses of an evaluation", limits.responses),
                        "; spec.data.val_max_samples takes fewer examples");
  }
  return TokensTooLarge(effective.data(), responses, "tokens of an evaluation", limits);
}

}  // namespace baton::controller
