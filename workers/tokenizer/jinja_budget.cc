#include "workers/tokenizer/jinja_budget.h"

#include "workers/tokenizer/jinja_value.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr uint64_t kMaxSteps = 1000000;
constexpr size_t kBytesPerStep = 64;

thread_local Budget* innermost_budget = nullptr;

}  // namespace

Budget::Budget() : outer_(innermost_budget) { innermost_budget = this; }
Budget::~Budget() { innermost_budget = outer_; }

void Budget::Spend(uint64_t steps) {
  if (innermost_budget == nullptr) return;
  innermost_budget->steps_ += steps;
  if (innermost_budget->steps_ > kMaxSteps) {
    throw Error{Error::Kind::kLimit, "the template takes more than a million steps"};
  }
}

void Budget::CheckText(size_t bytes) {
  if (bytes > kMaxBytes) {
    throw Error{Error::Kind::kLimit, "the template makes more than 16 MiB of text"};
  }
}

void Budget::SpendText(size_t bytes) {
  CheckText(bytes);
  Spend(bytes / kBytesPerStep);
}

}  // namespace baton::tokenizer::jinja
