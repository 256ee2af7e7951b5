// The scores of fake models: pure functions of what they read.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_SCORES_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_SCORES_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::fake {

/// Numbers in [low, low + 1] for every response token, each from `seed`, the prompt's tokens and
/// the response's up to it; `with_token`: and itself. (One per character without tokens.)
std::vector<float> TokenScores(uint64_t seed, const v1::Trajectory& trajectory, float low,
                               bool with_token);

/// A learned reward in [0, 1] by one of several models.
double LearnedScore(absl::string_view model, absl::string_view response_text);

/// A result of one float32 column per response token.
v1::TaskResult ColumnResult(const std::string& name, const std::vector<float>& values);

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_SCORES_H_
