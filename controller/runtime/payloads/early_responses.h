// Reports on generations and scores that are received before recovery: before a restarted
// controller has restored its trajectories.
//
// A worker sends the tokens so far once, and its results until they are acknowledged; both may come
// while the data files are still being read. They wait here, within bounds, because a worker may
// name any number of tasks before it is known which of them are wanted. Every result waits here,
// with or without a payload, and failures too.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_EARLY_RESPONSES_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_EARLY_RESPONSES_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "baton/v1/worker_service.pb.h"
#include "controller/core/job/task.h"
#include "controller/runtime/payloads/partial_response.h"

namespace baton::controller {

class EarlyResponses {
 public:
  struct Bounds {
    size_t tokens = size_t{1} << 24;        ///< In pieces: 200 MB with their log-probs.
    size_t result_bytes = size_t{1} << 28;  ///< In results, counted as message sizes.
  };
  struct Result {
    std::string worker;
    TaskRef ref;
    v1::TaskResult result;
  };
  using Task = std::pair<std::string, TaskRef>;  // who runs it

  explicit EarlyResponses(Bounds bounds) : bounds_(bounds) {}
  EarlyResponses() : EarlyResponses(Bounds()) {}

  bool empty() const { return pieces_.empty() && results_.empty(); }
  /// The pieces of a task so far. The caller adds `more` tokens to them. Null: there is no room for
  /// them.
  PartialResponse* RoomFor(const Task& task, size_t more);
  /// Adds a result, the last in order; the newest copy of a result counts. One that finds no room
  /// becomes a failure, RESOURCE_EXHAUSTED: its task is tried again once the trajectories are
  /// restored.
  void Add(Result result);

  std::map<Task, PartialResponse> TakePieces();
  std::vector<Result> TakeResults();

 private:
  const Bounds bounds_;
  std::map<Task, PartialResponse> pieces_;
  std::vector<Result> results_;
  size_t result_bytes_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_EARLY_RESPONSES_H_
