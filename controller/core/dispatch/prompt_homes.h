// Which worker had a prompt last: it may know from earlier responses how the next ones go on.
#ifndef BATON_CONTROLLER_CORE_DISPATCH_PROMPT_HOMES_H_
#define BATON_CONTROLLER_CORE_DISPATCH_PROMPT_HOMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace baton::controller {

class PromptHomes {
 public:
  /// `group`: PromptKey of a trajectory.
  void Note(uint64_t group, const std::string& worker) {
    if (homes_.size() >= kMost) homes_.clear();  // they are found again
    homes_[group] = worker;
  }
  /// "": it is not known. The worker may have left since.
  std::string Of(uint64_t group) const {
    const auto home = homes_.find(group);
    return home == homes_.end() ? std::string() : home->second;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  std::map<uint64_t, std::string> homes_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DISPATCH_PROMPT_HOMES_H_
