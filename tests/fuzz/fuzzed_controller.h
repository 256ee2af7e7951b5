// A controller for fuzz targets: its jobs and queue as they are shipped, on one thread, with
// workers, users, disks and time as a fuzzer's bytes decide.
//
// Workers answer late, twice, wrongly or never, say what was not asked, and speak on streams that
// they have left. The store and the disk fill up and lose what was not synced. After every turn the
// rules of the cores are checked; a broken one ends the process with its name.
#ifndef BATON_TESTS_FUZZ_FUZZED_CONTROLLER_H_
#define BATON_TESTS_FUZZ_FUZZED_CONTROLLER_H_

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/ports/fake_job_files.h"
#include "controller/ports/single_thread.h"
#include "controller/runtime/cluster/cluster_runtime.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/store/memory_store.h"

namespace baton::controller {

/// Ends the process with the rule's name when it is broken.
void Require(bool holds, const char* rule);

/// A small job named `projects/p/jobs/{id}`, as the controller accepts it.
v1::Job FuzzedSpec(const std::string& id, bool sft, FuzzedDataProvider& input);

class FuzzedController : private TurnObserver {
 public:
  explicit FuzzedController(FuzzedDataProvider* input);
  ~FuzzedController() override;

  void Submit(const v1::Job& job);
  /// The bytes choose what happens.
  void Happen();
  /// The controller dies, with the commits that a power cut may take. The next one goes on.
  void Restart();

  store::MemoryStore& store() { return store_; }
  /// Rows were changed from outside: a job may be quarantined now.
  void SetTampered() { tampered_ = true; }

 private:
  class Stream;
  struct Peer {
    std::string worker;
    std::shared_ptr<Stream> stream;
    std::unique_ptr<WorkerSession> session;
  };
  struct Asked {
    std::string worker;
    v1::Task task;
    bool answered = false;
  };
  struct Watched {  // of a job, by this controller
    const JobCore* core = nullptr;
    v1::Job::State before = v1::Job::STATE_UNSPECIFIED;
    bool may_revive = false;
    int64_t revision = 0;
    uint64_t policy_version = 0, incarnation = 0;
  };

  void OnResult(const JobCore&, const std::string&, const TaskRef&, const v1::TaskResult&) override;
  void OnEvent(const JobCore& core, const Event& event) override;
  void OnTurn(const JobCore& core, const Effects& effects) override;
  void OnEffect(const JobCore& core, const Effect& effect) override;
  void OnCluster(const ClusterEffects& effects) override;
  void See(const JobCore& core, const BuildBatch& batch);
  void CheckRow(const JobCore& core, Watched& watched);
  void Check();

  void Start();
  void Stop();
  void Pass(absl::Duration time, bool heartbeats);
  void GoWell(int turns);
  void Attach(const std::string& worker, bool well);
  void Leave(size_t peer);
  Peer* Open(const std::string& worker);
  void Hear(const std::string& worker, const v1::ControllerMessage& message);
  void Say(Peer& peer);
  void Steer();
  void HappenToDisks();
  v1::WorkerMessage Hello(const std::string& worker, bool well);
  v1::TaskResult Result(const v1::Task& task, int how);
  std::string SomeToken();
  TaskRef SomeRef();
  bool Rarely() { return input_->ConsumeIntegralInRange(0, 7) == 0; }

  FuzzedDataProvider* const input_;
  SingleThread thread_;
  store::MemoryStore store_;
  FakeJobFiles files_;
  RuntimeContext context_;
  JobTable jobs_;
  std::unique_ptr<ClusterRuntime> cluster_;
  std::map<std::string, Watched> watched_;
  std::vector<Peer> peers_;   // the newest last
  std::vector<Asked> asked_;  // of workers, the newest last
  std::map<std::string, std::set<std::pair<std::string, std::string>>> held_;  // worker: job, role
  bool tampered_ = false, refuses_ = false;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_FUZZ_FUZZED_CONTROLLER_H_
