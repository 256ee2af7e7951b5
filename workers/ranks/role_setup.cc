#include "workers/ranks/role_setup.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::ranks {

bool SameTokens(const tokenizer::Tokenizer& a, const tokenizer::Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (int32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.TokenBytes(id) != b.TokenBytes(id) || a.IsSpecial(id) != b.IsSpecial(id)) return false;
  }
  return true;
}

absl::Status Meet(const v1::Task& task, const TaskContext& context, const ModelRoleOptions& options,
                  std::unique_ptr<Ranks>* ranks, std::unique_ptr<ScoreLoop>* loop) {
  BATON_ASSIGN_OR_RETURN(
      *ranks, Ranks::Join(task, options.group_host, [&context] { return context.cancelled(); }));
  BATON_ASSIGN_OR_RETURN(auto control, (*ranks)->JoinControl());
  *loop = std::make_unique<ScoreLoop>(std::move(control));
  return absl::OkStatus();
}

absl::Status CheckReadsPolicyTokens(const v1::AssignRole& assign, const policy::PolicySource& model,
                                    absl::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto policy,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  if (SameTokens(policy->tokenizer(), model.tokenizer()) &&
      policy->tokenizer().vocab_size() <= model.config().vocab_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key,
                   ": its tokenizer is not that of spec.model, whose tokens it has to read; "
                   "name a model with the same tokenizer"));
}

}  // namespace baton::ranks
