// A digest of the events and effects of jobs' cores, which tells whether a change of their
// structure changed what they do.
//
// It is made of all events and all effects in their order, field by field, whatever the fields are
// called. `./dev turns` compares it with what is recorded.
#ifndef BATON_TESTS_SUPPORT_TURN_DIGEST_H_
#define BATON_TESTS_SUPPORT_TURN_DIGEST_H_

#include <cstdint>
#include <string>

#include "controller/core/job/events.h"

namespace baton::controller {

class TurnDigest {
 public:
  void Add(const std::string& job, const Event& event);
  void Add(const std::string& job, const Effects& effects);
  uint64_t value() const { return value_; }

 private:
  void Add(const std::string& bytes);

  uint64_t value_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_TURN_DIGEST_H_
