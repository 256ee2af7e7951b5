// Options in typed tables: a row of a table says all that there is to say about one setting.
//
// The rows stand in .def files, one BATON_..._OPTION(...) each (the way of LLVM's .def files). A
// header makes of them the members of a struct, with their types and defaults; a source makes the
// table. Code that checks, applies or documents an option reads its row. `./dev docs` makes the
// files from the settings of job_spec.proto, for programs that link no protobuf.
#ifndef BATON_SDK_COMMON_SCHEMA_OPTIONS_H_
#define BATON_SDK_COMMON_SCHEMA_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sdk/common/base/bounds.h"

namespace baton {

/// The value of a setting, as a spec or a graph's option holds it.
using OptionValue = std::variant<bool, double, std::string>;
using Options = std::map<std::string, OptionValue>;

/// A mistake: the option (its path ends in it; empty: the name of the estimator or loss itself),
/// what is wrong, and what is right.
struct OptionProblem {
  std::string option;
  std::string message;
};

/// "a: …; b: …" as InvalidArgument, or OK when there are none.
absl::Status ToStatus(absl::Span<const OptionProblem> problems);

/// The values that an option may have. The functions below make one.
struct Limits {
  Bounds bounds;                           ///< For a number.
  std::vector<absl::string_view> choices;  ///< For a text; empty: any but the empty one.
};
Limits Anything();
Limits Between(double low, double high);
Limits AtLeast(double low);
Limits Above(double low);
Limits OneOf(std::vector<absl::string_view> choices);

/// One row of a table: an option, the member of Spec that it sets, what it may be. The member's
/// type is the option's, and the member's value in `Spec{}` the default.
template <class Spec>
struct OptionField {
  absl::string_view name;
  uint32_t users;  ///< A bit for each estimator or loss that has this option.
  std::variant<bool Spec::*, double Spec::*, std::string Spec::*, int64_t Spec::*> member;
  Limits limits;
  absl::string_view meaning;  ///< For docs/algorithms.md.
};

/// The problem of `value` for an option of the type of `like`; "": none.
std::string CheckValue(const OptionValue& like, const OptionValue& value, const Bounds& bounds,
                       absl::Span<const absl::string_view> choices);
/// "what it has" in a message about an option that does not exist.
std::string UnknownOption(absl::string_view user, std::vector<absl::string_view> known);

template <class Spec>
OptionValue ValueOf(const OptionField<Spec>& field, const Spec& spec) {
  return std::visit(
      [&](auto member) -> OptionValue {
        if constexpr (std::is_same_v<decltype(member), int64_t Spec::*>) {
          return static_cast<double>(spec.*member);
        } else {
          return spec.*member;
        }
      },
      field.member);
}

template <class Spec>
OptionValue DefaultOf(const OptionField<Spec>& field) {
  return ValueOf(field, Spec());
}

/// Problem of `value` as an option of a graph, or "".
template <class Spec>
std::string CheckOption(const OptionField<Spec>& field, const OptionValue& value) {
  return CheckValue(DefaultOf(field), value, field.limits.bounds, field.limits.choices);
}

/// `value` holds what the field's member holds.
template <class Spec>
void SetMember(const OptionField<Spec>& field, const OptionValue& value, Spec& spec) {
  std::visit(
      [&](auto member) {
        if constexpr (std::is_same_v<decltype(member), int64_t Spec::*>) {
          spec.*member = static_cast<int64_t>(std::get<double>(value));
        } else {
          using Member = std::decay_t<decltype(spec.*member)>;
          spec.*member = std::get<Member>(value);
        }
      },
      field.member);
}

/// The row called `name` that one of `users` has; null: there is none.
template <class Spec>
const OptionField<Spec>* FindOption(const std::vector<OptionField<Spec>>& table,
                                    absl::string_view name, uint32_t users = ~0u) {
  for (const auto& field : table) {
    if ((field.users & users) != 0 && field.name == name) return &field;
  }
  return nullptr;
}

/// Names of the options that one of `users` has, in the table's order.
template <class Spec>
std::vector<absl::string_view> OptionNames(const std::vector<OptionField<Spec>>& table,
                                           uint32_t users) {
  std::vector<absl::string_view> names;
  for (const auto& field : table) {
    if ((field.users & users) != 0) names.push_back(field.name);
  }
  return names;
}

/// Sets the members named by `options`; a mistake is added to `problems` and leaves its member as
/// it is. `user_name` (bit `user`): the loss or estimator that gets the options.
template <class Spec>
void ApplyOptions(const std::vector<OptionField<Spec>>& table, absl::string_view user_name,
                  uint32_t user, const Options& options, Spec& spec,
                  std::vector<OptionProblem>& problems) {
  for (const auto& [name, value] : options) {
    const OptionField<Spec>* field = FindOption(table, name, user);
    const std::string problem = field == nullptr
                                    ? UnknownOption(user_name, OptionNames(table, user))
                                    : CheckOption(*field, value);
    if (problem.empty()) {
      SetMember(*field, value, spec);
    } else {
      problems.push_back({name, problem});
    }
  }
}

/// Every member that is out of its limits. An empty text that is the default passes: it turns the
/// option off.
template <class Spec>
std::vector<OptionProblem> CheckMembers(const std::vector<OptionField<Spec>>& table,
                                        const Spec& spec) {
  std::vector<OptionProblem> problems;
  for (const auto& field : table) {
    const OptionValue value = ValueOf(field, spec);
    if (value == DefaultOf(field)) continue;
    std::string problem = CheckOption(field, value);
    if (!problem.empty()) problems.push_back({std::string(field.name), std::move(problem)});
  }
  return problems;
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_OPTIONS_H_
