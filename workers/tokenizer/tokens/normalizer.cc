#include "workers/tokenizer/tokens/normalizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/tokens/json_components.h"
#include "workers/tokenizer/tokens/nfc.h"

namespace baton::tokenizer {
namespace {

/// Bytes that NFC makes of one, at most (Unicode Standard Annex 15, section 14).
constexpr size_t kNfcGrowth = 3;

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const nlohmann::json& json) {
  Normalizer out;
  GrowthLimit growth;
  BATON_ASSIGN_OR_RETURN(const auto parts, FlattenSequence(json, "normalizers", "normalizer"));
  for (const auto& [at, part] : parts) {
    const std::string type = part->at("type").get<std::string>();
    Step step;
    if (type == "NFC") {
      step.kind = Kind::kNfc;
      BATON_RETURN_IF_ERROR(growth.AddChange(1, kNfcGrowth, at));
    } else if (type == "Prepend") {
      step.kind = Kind::kPrepend;
      BATON_ASSIGN_OR_RETURN(step.content, StringField(*part, "prepend", at));
      BATON_RETURN_IF_ERROR(growth.AddPrepend(step.content.size(), at));
    } else if (type == "Replace") {
      step.kind = Kind::kReplace;
      BATON_ASSIGN_OR_RETURN(step.pattern, LiteralPattern(*part, at));
      BATON_ASSIGN_OR_RETURN(step.content, StringField(*part, "content", at));
      BATON_RETURN_IF_ERROR(growth.AddChange(step.pattern.size(), step.content.size(), at));
    } else {
      return Unsupported(absl::StrCat(at, ".type"), absl::StrCat("'", type, "'"),
                         "null, NFC, Prepend, Replace, a Sequence of these");
    }
    out.steps_.push_back(std::move(step));
  }
  return out;
}

std::string Normalizer::Change(const Step& step, absl::string_view text) {
  return step.kind == Kind::kNfc ? NormalizeNfc(text)
                                 : absl::StrReplaceAll(text, {{step.pattern, step.content}});
}

std::string Normalizer::Normalize(absl::string_view text) const {
  std::vector<TextRange> none;
  return Normalize(text, /*prepends=*/true, &none);
}

std::string Normalizer::Normalize(absl::string_view text, bool prepends,
                                  std::vector<TextRange>* ranges) const {
  std::string current(text);
  for (const Step& step : steps_) {
    std::string next;
    if (step.kind == Kind::kPrepend) {
      if (!prepends || current.empty()) continue;
      next = step.content + current;
      // A prepended text belongs to the range that it stands before: a token may begin with it.
      for (TextRange& range : *ranges) {
        range = {range.begin == 0 ? 0 : range.begin + step.content.size(),
                 range.end + step.content.size()};
      }
    } else {
      const absl::string_view all = current;
      size_t done = 0;
      for (TextRange& range : *ranges) {
        next += Change(step, all.substr(done, range.begin - done));
        const size_t begin = next.size();
        next += Change(step, all.substr(range.begin, range.end - range.begin));
        done = range.end;
        range = {begin, next.size()};
      }
      next += Change(step, all.substr(done));
    }
    current = std::move(next);
  }
  return current;
}

}  // namespace baton::tokenizer
