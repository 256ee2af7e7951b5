#include "workers/reward/numeric_answers.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"
#include "workers/reward/numbers/read_number.h"

namespace baton::reward {
namespace {

constexpr size_t kAnswerShown = 100;  // bytes

bool IsNumber(const std::string& answer) {
  const NumberReading::Kind kind = ReadWholeNumber(answer, {}).kind;
  return kind == NumberReading::Kind::kNumber || kind == NumberReading::Kind::kRange;
}

}  // namespace

void NumericAnswers::AddRule(std::string field, std::vector<std::string> sources) {
  Answers& answers = of_rules_.emplace_back();
  answers.field = std::move(field);
  answers.sources = std::move(sources);
}

void NumericAnswers::Add(const std::string& answer, const std::string& source,
                         const std::string& place) {
  for (Answers& answers : of_rules_) {
    const std::vector<std::string>& sources = answers.sources;
    if (!sources.empty() && std::find(sources.begin(), sources.end(), source) == sources.end()) {
      continue;
    }
    ++answers.all;
    if (IsNumber(answer) || answers.unreadable++ > 0) continue;
    answers.first = absl::StrCat(place, ": '", CutText(answer, kAnswerShown), "'");
  }
}

std::vector<std::pair<std::string, std::string>> NumericAnswers::Problems(double most) const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Answers& answers : of_rules_) {
    if (static_cast<double>(answers.unreadable) <= most * static_cast<double>(answers.all)) {
      continue;
    }
    out.emplace_back(
        answers.field,
        absl::StrCat("type numeric: ", answers.unreadable, " of ", answers.all,
                     " answers are not one number, and responses to these lines get no reward; the "
                     "first is ",
                     answers.first, ": write the number alone as the answer (docs/numeric.md)"));
  }
  return out;
}

}  // namespace baton::reward
