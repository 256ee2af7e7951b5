// Options looked up by name in a typed table, all mistakes reported at once.
#ifndef BATON_SDK_BASE_OPTIONS_H_
#define BATON_SDK_BASE_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

/// What a graph's option may hold.
using OptionValue = std::variant<bool, double, std::string>;
using Options = std::map<std::string, OptionValue>;

/// One mistake: which option (its path ends in it; empty: the name of the estimator or loss
/// itself), and what is wrong and what is right.
struct OptionProblem {
  std::string option;
  std::string message;
};

/// "a: …; b: …" as InvalidArgument, or OK when there are none.
absl::Status ToStatus(absl::Span<const OptionProblem> problems);

/// A number's bounds. NaN and infinities never pass.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;  ///< `low` itself is out.
};

/// One row of a table: an option, the member of Spec that it sets, what it may be.
template <class Spec>
struct OptionField {
  absl::string_view name;
  uint32_t users;  ///< A bit for each estimator or loss that has this option.
  std::variant<bool Spec::*, double Spec::*, std::string Spec::*> member;
  Bounds bounds;                           ///< Of a number.
  std::vector<absl::string_view> choices;  ///< Of a text; empty: any but the empty one.
};

/// Problem of `value` for an option of this kind, or "".
std::string CheckNumber(const OptionValue& value, const Bounds& bounds);
std::string CheckText(const OptionValue& value, absl::Span<const absl::string_view> choices);
std::string CheckFlag(const OptionValue& value);
/// "what it has" in a message about an option that does not exist.
std::string UnknownOption(absl::string_view user, std::vector<absl::string_view> known);

/// Sets the members named by `options`; what is wrong is added to `problems` and leaves its member
/// as it is. `user_name` (bit `user`) is who is to understand the options.
template <class Spec>
void ApplyOptions(absl::Span<const OptionField<Spec>> table, absl::string_view user_name,
                  uint32_t user, const Options& options, Spec& spec,
                  std::vector<OptionProblem>& problems) {
  std::vector<absl::string_view> known;
  for (const auto& field : table) {
    if ((field.users & user) != 0) known.push_back(field.name);
  }
  for (const auto& [name, value] : options) {
    const OptionField<Spec>* field = nullptr;
    for (const auto& f : table) {
      if ((f.users & user) != 0 && f.name == absl::string_view(name)) field = &f;
    }
    std::string problem;
    if (field == nullptr) {
      problem = UnknownOption(user_name, known);
    } else if (const auto* flag = std::get_if<bool Spec::*>(&field->member)) {
      problem = CheckFlag(value);
      if (problem.empty()) spec.*(*flag) = std::get<bool>(value);
    } else if (const auto* number = std::get_if<double Spec::*>(&field->member)) {
      problem = CheckNumber(value, field->bounds);
      if (problem.empty()) spec.*(*number) = std::get<double>(value);
    } else {
      problem = CheckText(value, field->choices);
      if (problem.empty()) spec.*(std::get<2>(field->member)) = std::get<std::string>(value);
    }
    if (!problem.empty()) problems.push_back({name, problem});
  }
}

}  // namespace baton

#endif  // BATON_SDK_BASE_OPTIONS_H_
