// A worker that plays every role without a model: same protocol, same guarantees, no libtorch.
// Tests start several in one process; baton-fake-worker is one as a program.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_WORKER_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_WORKER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sdk/worker/worker.h"
#include "tests/fake_worker/faults.h"

namespace baton::fake {

struct FakeWorkerOptions {
  WorkerOptions worker;  ///< `controller` is required; `features` are filled in.
  /// Some of actor, rollout, reward, reference, critic, cost_critic, reward_model, cost, judge.
  std::vector<std::string> roles = {"actor", "rollout", "reward"};
  /// The place where versions are published (FakeRelay): an absolute folder, or any text for
  /// workers of one process. Empty: the controller's address, as such a text.
  std::string weights_place;
  absl::Duration token_delay;  ///< Per generated token; 0: a response is there at once.
  absl::Duration task_delay;   ///< Before every task but generate.
  int generate_credits = 128;
  int reward_credits = 256;  ///< And of every other method that scores.
  std::vector<Fault> faults;
  /// The action of a crash; null: the worker stops, as if its process had ended.
  std::function<void()> on_crash;
};

class FakeWorker {
 public:
  /// INVALID_ARGUMENT for an unknown role or a bad option.
  static absl::StatusOr<std::unique_ptr<FakeWorker>> Create(FakeWorkerOptions options);
  /// Stop.
  ~FakeWorker();

  absl::Status Run();  ///< Until Stop, on this thread …
  void Start();        ///< … or on one of its own.
  /// Leaves at once, as a killed process does: what ran is lost. Thread-safe.
  void Stop();

  /// Tasks of a method that began on this worker.
  int tasks(const std::string& method) const;
  Worker& worker();

 private:
  struct Impl;
  explicit FakeWorker(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_WORKER_H_
