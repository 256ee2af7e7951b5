// The generator of a policy that this process trains, lent by its role actor to its role rollout.
#ifndef BATON_WORKERS_HYBRID_SHARED_POLICY_H_
#define BATON_WORKERS_HYBRID_SHARED_POLICY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "workers/engine/generation/generator.h"

namespace baton::hybrid {

/// Runs a generator that another object owns. SharedPolicy makes these calls under its lock, from
/// any thread, in the order in which they must take effect. So they must return at once.
class GeneratorUser {
 public:
  virtual ~GeneratorUser() = default;

  /// Gives `generator` to this user, which may step it once its current work has ended, and samples
  /// `version`. The same generator may be attached again with another version.
  virtual void Attach(engine::Generator* generator, uint64_t version) = 0;

  /// Ends all requests of this user with `why`, leaves the generator idle, and drops its version.
  /// Then calls `done` on a thread of its own; afterwards the user does not touch the generator.
  virtual void Detach(const absl::Status& why, std::function<void()> done) = 0;
};

/// One per process, shared by both roles. Roles come and go in any order, each on its own thread.
/// As soon as the actor of a job lends a generator and the job's rollout has entered, the rollout
/// gets the generator. Thread-safe.
class SharedPolicy {
 public:
  /// Role actor: `generator` has the weights of `version`. Until TakeBack returns, the generator
  /// must live and the actor must not touch it. If it is lent already, only the version changes.
  void Lend(const std::string& job, engine::Generator* generator, uint64_t version);

  /// Role actor: ends running generation with `why`, and returns when the rollout no longer uses
  /// the generator. Does nothing if nothing is lent.
  void TakeBack(const absl::Status& why);

  /// Role rollout: `user` generates for `job` until Leave returns. One user at a time.
  void Enter(const std::string& job, GeneratorUser* user);

  /// Role rollout: ends the user's generation with `why`; afterwards the user may be destroyed. A
  /// lent generator stays lent. Does nothing if no user has entered.
  void Leave(const absl::Status& why);

 private:
  void Attach() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Detach(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool NobodyDetaches() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return detaching_ == 0; }

  absl::Mutex mu_;
  std::string lender_ ABSL_GUARDED_BY(mu_);                      ///< The actor's job.
  engine::Generator* generator_ ABSL_GUARDED_BY(mu_) = nullptr;  ///< Null: nothing is lent.
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  std::string borrower_ ABSL_GUARDED_BY(mu_);  ///< The rollout's job.
  GeneratorUser* user_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool attached_ ABSL_GUARDED_BY(mu_) = false;  ///< `user_` has `generator_`.
  int detaching_ ABSL_GUARDED_BY(mu_) = 0;      ///< Users that still have to call `done` of Detach.
};

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_SHARED_POLICY_H_
