// The problems of a job's spec, in the order in which they were found.
#ifndef BATON_SDK_COMMON_MESSAGES_VIOLATIONS_H_
#define BATON_SDK_COMMON_MESSAGES_VIOLATIONS_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "baton/v1/error.pb.h"

namespace baton {

class Violations {
 public:
  /// `field`: its path below the spec, e.g. "rollout.n"; `description`: what is wrong with it and
  /// what to do, e.g. "0 is not in [1, 1024]".
  void Add(absl::string_view field, absl::string_view description) {
    v1::FieldViolation& violation = list_.emplace_back();
    violation.set_field(absl::StrCat("spec.", field));
    violation.set_description(std::string(description));
  }

  /// Something is wrong with `field`, or with what is below it.
  bool Mentions(absl::string_view field) const {
    return std::any_of(list_.begin(), list_.end(), [&](const v1::FieldViolation& violation) {
      absl::string_view rest = violation.field();
      return absl::ConsumePrefix(&rest, "spec.") && absl::ConsumePrefix(&rest, field) &&
             (rest.empty() || rest[0] == '.' || rest[0] == '[');
    });
  }

  size_t size() const { return list_.size(); }
  const std::vector<v1::FieldViolation>& list() const { return list_; }
  /// The list; this object is empty afterwards.
  std::vector<v1::FieldViolation> Take() { return std::exchange(list_, {}); }

 private:
  std::vector<v1::FieldViolation> list_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_MESSAGES_VIOLATIONS_H_
