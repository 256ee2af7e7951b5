#ifndef BATON_CONTROLLER_CORE_CONDUCT_H_
#define BATON_CONTROLLER_CORE_CONDUCT_H_

#include <cstdint>

namespace baton::controller {

/// How a worker did for the job that gives it back.
enum class Conduct : uint8_t {
  kGood,
  kSilent,  ///< It let a deadline pass.
  kSlow,    ///< It was persistently slower than its peers.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_CONDUCT_H_
