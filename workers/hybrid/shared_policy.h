// The generator of a policy that this process trains, lent by its role actor to its role rollout.
#ifndef BATON_WORKERS_HYBRID_SHARED_POLICY_H_
#define BATON_WORKERS_HYBRID_SHARED_POLICY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "workers/engine/generator.h"

namespace baton::hybrid {

/// Steps a generator that belongs to another. Calls come in the order that counts, from any thread,
/// under the lock of SharedPolicy: they return at once.
class GeneratorUser {
 public:
  virtual ~GeneratorUser() = default;

  /// From here on, once what runs has ended, it is this one's to step, and samples `version`. The
  /// same generator may be attached again, of another version.
  virtual void Attach(engine::Generator* generator, uint64_t version) = 0;

  /// Ends all it was given before with `why`, leaves the generator idle and no version held, then
  /// calls `done` on a thread of its own: it touches the generator no more.
  virtual void Detach(const absl::Status& why, std::function<void()> done) = 0;
};

/// One per process; both roles know it. Roles come and go in any order, each on its own thread: the
/// generator goes to the rollout of the job whose actor lends it, as soon as both are there.
/// Thread-safe.
class SharedPolicy {
 public:
  /// Role actor: `generator` has weights of `version`. It lives, and no one else touches it, until
  /// TakeBack returns. Lent already: the version is taken.
  void Lend(const std::string& job, engine::Generator* generator, uint64_t version);

  /// Role actor: returns when the generator is not in use any more. What was being generated has
  /// ended with `why`. Nothing lent: does nothing.
  void TakeBack(const absl::Status& why);

  /// Role rollout: `user` generates for `job`, until Leave returns. One at a time.
  void Enter(const std::string& job, GeneratorUser* user);

  /// Role rollout: the user may go. What it generated has ended with `why`; what is lent stays
  /// lent. Not entered: does nothing.
  void Leave(const absl::Status& why);

 private:
  void Attach() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Detach(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool NobodyDetaches() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return detaching_ == 0; }

  absl::Mutex mu_;
  std::string lender_ ABSL_GUARDED_BY(mu_);                      ///< The job.
  engine::Generator* generator_ ABSL_GUARDED_BY(mu_) = nullptr;  ///< Null: nothing is lent.
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  std::string borrower_ ABSL_GUARDED_BY(mu_);  ///< The job.
  GeneratorUser* user_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool attached_ ABSL_GUARDED_BY(mu_) = false;  ///< `user_` has `generator_`.
  int detaching_ ABSL_GUARDED_BY(mu_) = 0;      ///< Users that are not done with it.
};

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_SHARED_POLICY_H_
