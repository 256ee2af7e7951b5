// Open calls, with the tokens that opened them.
#ifndef BATON_CONTROLLER_API_OPEN_STREAMS_H_
#define BATON_CONTROLLER_API_OPEN_STREAMS_H_

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "controller/access/token_table.h"
#include "grpcpp/server_context.h"

namespace baton::api {

/// Ends the open calls of a token within a period after it is revoked or expires. Thread-safe. A
/// thread of its own checks the tokens, from the first call with a token on.
class OpenStreams {
 public:
  /// Ends a call with the status, as far as its peer still reads. Called again every period while
  /// the place is held; must not block.
  using Cut = std::function<void(const absl::Status& status)>;
  /// Hold it while the call is open; its destruction removes the entry. It may outlive the
  /// OpenStreams.
  using Place = std::shared_ptr<const void>;

  explicit OpenStreams(std::shared_ptr<const access::TokenTable> tokens,
                       absl::Duration period = absl::Milliseconds(500));
  ~OpenStreams();

  /// Null: the caller's token cannot end. `cut` may be called once more while the place is
  /// destroyed, so it must not own anything that is destroyed with the place.
  [[nodiscard]] Place Add(const access::Caller& caller, Cut cut);
  /// For a call that is ended by its cancellation. `context` must be valid while the place is held.
  [[nodiscard]] Place AddCall(const access::Caller& caller, grpc::CallbackServerContext* context);

 private:
  struct Entry {
    access::Caller caller;
    Cut cut;
  };
  struct State {
    absl::Mutex mu;
    bool stopping ABSL_GUARDED_BY(mu) = false;
    uint64_t next ABSL_GUARDED_BY(mu) = 0;
    std::map<uint64_t, std::shared_ptr<const Entry>> entries ABSL_GUARDED_BY(mu);
  };
  void Watch();

  const std::shared_ptr<const access::TokenTable> tokens_;
  const absl::Duration period_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  absl::Mutex thread_mu_;
  std::thread thread_ ABSL_GUARDED_BY(thread_mu_);
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_OPEN_STREAMS_H_
