#include "workers/main/judge_reward.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/generation/generator.h"
#include "workers/policy/policy_source.h"
#include "workers/reward/verdict.h"
#include "workers/scoring/judge_role.h"

namespace baton {
namespace {

constexpr int64_t kJudgeTokens = 256;  // as role judge

class JudgeReward : public reward::RewardFunction {
 public:
  static absl::StatusOr<std::unique_ptr<reward::RewardFunction>> Create(const v1::JudgeSpec& spec,
                                                                        const std::string& device) {
    auto judge = std::make_unique<JudgeReward>();
    reward::VerdictOptions verdict = {spec.template_(), spec.verdict(), {}, spec.neutral()};
    verdict.worth.insert(spec.verdicts().begin(), spec.verdicts().end());
    BATON_ASSIGN_OR_RETURN(judge->verdict_, reward::Verdict::Create(verdict));
    BATON_ASSIGN_OR_RETURN(judge->source_, policy::PolicySource::Open(spec.model(), ""));
    BATON_ASSIGN_OR_RETURN(judge->model_, judge->source_->LoadModel(judge->source_->dtype(),
                                                                    torch::Device(device), 0));
    BATON_ASSIGN_OR_RETURN(judge->generator_,
                           engine::Generator::Create(judge->model_.get(), nullptr, {}));
    judge->max_new_tokens_ = spec.has_max_new_tokens() ? spec.max_new_tokens() : kJudgeTokens;
    return std::unique_ptr<reward::RewardFunction>(std::move(judge));
  }

  absl::StatusOr<reward::RewardResult> Score(const reward::RewardInput& input) override {
    v1::Trajectory trajectory;
    trajectory.set_prompt_text(input.prompt);
    trajectory.set_response_text(input.response);
    trajectory.set_answer(input.answer);
    trajectory.set_prompt_suffix(input.prompt_suffix);
    absl::MutexLock lock(&mu_);
    const auto judgement = Judge(trajectory);
    // As in a job: a question that cannot be asked is worth as much as an unreadable verdict.
    const reward::Verdict::Reading reading =
        judgement.ok() ? verdict_->Read(*judgement) : verdict_->Unreadable();
    reward::RewardResult result;
    result.reward = reading.worth;
    result.scores["unreadable"] = reading.readable ? 0 : 1;
    return result;
  }

 private:
  absl::StatusOr<std::string> Judge(const v1::Trajectory& trajectory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    BATON_ASSIGN_OR_RETURN(const policy::Prompt question,
                           scoring::JudgeRole::Question(*source_, *verdict_, trajectory));
    engine::GenerateRequest request;
    request.id = ++asked_;
    BATON_ASSIGN_OR_RETURN(request.prompt, source_->EncodePrompt(question, 0));
    const int64_t room =
        source_->config().positions() - static_cast<int64_t>(request.prompt.size());
    if (room < 1) return absl::InvalidArgumentError("the question is too long for the judge");
    request.params.temperature = 0;
    request.params.max_new_tokens = std::min(max_new_tokens_, room);
    request.params.stop_token_ids = source_->stop_token_ids();
    BATON_RETURN_IF_ERROR(generator_->Add(std::move(request)));
    std::vector<int32_t> tokens;
    while (!generator_->idle()) {
      BATON_ASSIGN_OR_RETURN(const auto updates, generator_->Step());
      for (const engine::GenerateUpdate& update : updates) {
        tokens.insert(tokens.end(), update.new_tokens.begin(), update.new_tokens.end());
        BATON_RETURN_IF_ERROR(update.error);
      }
    }
    return source_->tokenizer().Decode(tokens);
  }

  std::unique_ptr<reward::Verdict> verdict_;
  std::unique_ptr<policy::PolicySource> source_;
  std::unique_ptr<engine::CausalLM> model_;
  int64_t max_new_tokens_ = kJudgeTokens;
  absl::Mutex mu_;
  std::unique_ptr<engine::Generator> generator_ ABSL_PT_GUARDED_BY(mu_);
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<reward::RewardFunction>> MakeJudgeReward(const v1::JudgeSpec& spec,
                                                                        const std::string& device) {
  auto judge = JudgeReward::Create(spec, device);
  if (!judge.ok()) return Annotate(judge.status(), "spec.judge");
  return judge;
}

}  // namespace baton
