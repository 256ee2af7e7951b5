// Whether rule numeric can compare with the answers of a data set.
#ifndef BATON_WORKERS_REWARD_NUMERIC_ANSWERS_H_
#define BATON_WORKERS_REWARD_NUMERIC_ANSWERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace baton::reward {

/// Counts the answers of a list of lines that are no numbers. One thread.
class NumericAnswers {
 public:
  /// A rule numeric reads the answers of lines from `sources` (none: of all lines). `field` names
  /// it: "spec.reward.rules[0]".
  void AddRule(std::string field, std::vector<std::string> sources);
  /// The answer of a line from `source`; `place` is "FILE:LINE".
  void Add(const std::string& answer, const std::string& source, const std::string& place);

  /// A rule's field and what is wrong with its answers: a larger share than `most` is no numbers.
  std::vector<std::pair<std::string, std::string>> Problems(double most) const;

 private:
  struct Answers {
    std::string field;
    std::vector<std::string> sources;
    uint64_t all = 0;
    uint64_t unreadable = 0;
    std::string first;  // "FILE:LINE: 'answer'"
  };

  std::vector<Answers> of_rules_;
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_NUMERIC_ANSWERS_H_
