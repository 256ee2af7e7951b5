// What the lines of a list of data files have and lack, for the people who wrote them.
#ifndef BATON_SDK_COMMON_DATA_SET_LINE_COUNTS_H_
#define BATON_SDK_COMMON_DATA_SET_LINE_COUNTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "sdk/common/data_set/data_set.h"

namespace baton {

/// Counts the lines of one list. One thread.
class LineCounts {
 public:
  /// `options` must outlive it.
  explicit LineCounts(const DataSetOptions& options);

  /// Counts a line that became `example`; `place` is "FILE:LINE". INVALID_ARGUMENT: a judge quotes
  /// its answer, and it has none.
  absl::Status Add(const Example& example, const std::string& line, const std::string& place);
  /// Notes the keys of a line that it does not use.
  void AddKeys(const std::string& line);

  /// One sentence each: a rule that compares with answers and a key that the spec names, which no
  /// line has.
  std::vector<std::string> Problems() const;

  /// Lines without an answer that a part of the job gets.
  const UnansweredLines& unanswered() const { return unanswered_; }
  /// Unused keys, by their first line: "solution", "reward_model.style". At most 32.
  const std::vector<std::string>& unused_keys() const { return unused_keys_; }

 private:
  // Of options_.answer_uses[i].
  struct Answers {
    uint64_t lines = 0;
    uint64_t unanswered = 0;
    std::string first;  // the first line without an answer
  };
  std::string NoneAnswered(const AnswerUse& use, const Answers& answers) const;
  void AddNamedKey(const char* field, const std::string& key, uint64_t having,
                   std::vector<std::string>* out) const;

  const DataSetOptions& options_;
  uint64_t lines_ = 0;
  uint64_t with_answer_ = 0, with_source_ = 0, with_extra_ = 0;
  std::string first_;  // line
  std::vector<Answers> answers_;
  UnansweredLines unanswered_;
  std::vector<std::string> unused_keys_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_LINE_COUNTS_H_
