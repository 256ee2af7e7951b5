#include "workers/reward/command_reward.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/reply_line.h"

namespace baton::reward {
namespace {

using Json = nlohmann::json;

// As the data set has it: a text, or a list of messages.
Json PromptOf(const RewardInput& input) {
  if (input.messages.empty()) return input.prompt;
  Json messages = Json::array();
  for (const PromptMessage& message : input.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  return messages;
}

// The request's line, or nothing when `extra` is not JSON. `extra` goes as it is, since its numbers
// are to stay as they were written.
std::optional<std::string> RequestLine(uint64_t id, const RewardInput& input) {
  const std::string extra = input.extra.empty() ? "null" : input.extra;
  if (!Json::accept(extra)) return std::nullopt;
  const Json request = {{"id", id},
                        {"prompt", PromptOf(input)},
                        {"response", input.response},
                        {"prompt_suffix", input.prompt_suffix},
                        {"answer", input.answer},
                        {"source", input.source}};
  // No text of a model may stop this: bytes that are not UTF-8 become U+FFFD.
  std::string line = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  // A break of a line can only stand between two values.
  line.replace(
      line.size() - 1, 1,
      absl::StrCat(",\"extra\":", absl::StrReplaceAll(extra, {{"\n", " "}, {"\r", " "}}), "}"));
  return line;
}

std::string BadReply(absl::string_view what, const std::string& line) {
  return absl::StrCat("your command's reply ", what, ": ",
                      ReplaceInvalidUtf8(absl::string_view(line).substr(0, 300)));
}

// `line` is an object: the pool has seen its "id".
RewardResult ParseReply(const std::string& line) {
  RewardResult result;
  const Json json = ParseReplyLine(line);
  const auto fail = [&](std::string error, bool infra_failed = true) {
    RewardResult failed;
    failed.error = std::move(error);
    failed.infra_failed = infra_failed;
    return failed;
  };
  if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
    const auto infra = json.find("infra_failed");
    return fail(absl::StrCat("your command says: ",
                             error->is_string() ? error->get<std::string>() : error->dump()),
                infra != json.end() && infra->is_boolean() && infra->get<bool>());
  }
  bool has_reward = false;
  for (const auto& [key, value] : json.items()) {
    if (key == "id" || key == "error" || value.is_null()) continue;
    if (IsNotFinite(value)) {
      return fail(BadReply(absl::StrCat("has a \"", key, "\" that is not a finite number"), line));
    }
    if (!value.is_number() && !value.is_boolean()) {
      return fail(BadReply(absl::StrCat("has a \"", key, "\" that is not a number"), line));
    }
    const double number = value.is_boolean() ? value.get<bool>() : value.get<double>();
    if (key == "reward") {
      has_reward = true;
      result.reward = number;
    } else {
      result.scores[key] = number;
    }
  }
  if (!has_reward) return fail(BadReply("has no \"reward\"", line));
  return result;
}

class CommandReward : public RewardFunction {
 public:
  explicit CommandReward(std::unique_ptr<CommandPool> pool) : pool_(std::move(pool)) {}

  absl::StatusOr<RewardResult> Score(const RewardInput& input) override {
    BATON_ASSIGN_OR_RETURN(std::vector<RewardResult> results,
                           ScoreBatch(absl::MakeConstSpan(&input, 1)));
    return std::move(results[0]);
  }

  absl::StatusOr<std::vector<RewardResult>> ScoreBatch(
      absl::Span<const RewardInput> inputs) override {
    std::vector<RewardResult> results(inputs.size());
    std::vector<CommandPool::Exchange> exchanges;
    std::vector<size_t> places;  // of each exchange among the inputs
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint64_t id = pool_->NewId();
      auto line = RequestLine(id, inputs[i]);
      if (!line.has_value()) {
        results[i].error = "extra: it is not JSON";
        continue;
      }
      exchanges.push_back({id, *std::move(line), inputs[i].cancelled});
      places.push_back(i);
    }
    pool_->Run(absl::MakeSpan(exchanges));
    for (size_t i = 0; i < exchanges.size(); ++i) {
      const absl::StatusOr<std::string>& reply = exchanges[i].reply;
      if (absl::IsUnavailable(reply.status()) || absl::IsCancelled(reply.status())) {
        return reply.status();
      }
      if (reply.ok()) {
        results[places[i]] = ParseReply(*reply);
      } else {
        results[places[i]].error = std::string(reply.status().message());
        results[places[i]].infra_failed = true;
      }
    }
    return results;
  }

  void NoticeCancelled() override { pool_->NoticeCancelled(); }

 private:
  const std::unique_ptr<CommandPool> pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RewardFunction>> CreateCommandReward(CommandOptions options) {
  BATON_ASSIGN_OR_RETURN(auto pool, CommandPool::Create(std::move(options)));
  return std::unique_ptr<RewardFunction>(new CommandReward(std::move(pool)));
}

}  // namespace baton::reward
