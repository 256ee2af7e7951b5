// A whole service in one process: controller, gRPC server, fake workers. For end-to-end tests.
#ifndef BATON_TESTS_END_TO_END_IN_PROCESS_CLUSTER_TESTING_H_
#define BATON_TESTS_END_TO_END_IN_PROCESS_CLUSTER_TESTING_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/api/api_server.h"
#include "controller/runtime/controller/controller.h"
#include "controller/store/sqlite_store.h"
#include "tests/end_to_end/in_process/client_testing.h"
#include "tests/fake_worker/fake_worker.h"

namespace baton::testing {

class TestCluster : public TestClient {
 public:
  using ChangeController = std::function<void(controller::ControllerOptions&)>;

  explicit TestCluster(absl::Duration lease = absl::Seconds(5), ChangeController change = nullptr)
      : lease_(lease), change_(std::move(change)) {
    StartController();
  }
  ~TestCluster() {
    workers_.clear();
    StopController();
  }

  void StartController() {
    const std::string data_root = moved_.empty() ? folder() : moved_;
    auto store = store::SqliteStore::Open(data_root + "/baton.db");
    controller::ControllerOptions options;
    options.data_root = data_root;
    options.store = *std::move(store);
    options.cluster.lease = lease_;
    options.cluster.heartbeat_interval = lease_ / 5;
    options.tick = absl::Milliseconds(20);
    if (change_) change_(options);
    controller_ = *controller::Controller::Create(std::move(options));
    auto api = api::ApiServer::Start(absl::StrCat("127.0.0.1:", port_), {}, controller_.get());
    api_ = *std::move(api);
    port_ = api_->port();
    Connect(address());
  }

  void StopController() {
    api_.reset();
    controller_.reset();
  }

  /// The next controller has another data root.
  void MoveTo(const std::string& data_root) { moved_ = data_root; }

  /// The controller's power is cut: nothing leaves it any more, then `cut` looks at the disk.
  void CutPower(const std::function<void()>& cut) {
    api_.reset();
    cut();
    controller_.reset();
  }

  /// `roles`: one, or several joined by "+".
  void AddWorker(const std::string& id, const std::string& roles,
                 const std::function<void(fake::FakeWorkerOptions&)>& change = nullptr) {
    fake::FakeWorkerOptions options;
    options.worker.controller = address();
    options.worker.worker_id = id;
    options.worker.max_backoff = absl::Milliseconds(200);
    options.worker.min_backoff = absl::Milliseconds(20);
    options.roles = absl::StrSplit(roles, '+');
    options.weights_place = folder() + "/weights";
    if (change) change(options);
    auto worker = fake::FakeWorker::Create(std::move(options));
    workers_[id] = *std::move(worker);
    workers_[id]->Start();
  }
  /// One actor, two rollouts, one reward.
  void AddStandardWorkers() {
    AddWorker("actor-0", "actor");
    AddWorker("rollout-0", "rollout");
    AddWorker("rollout-1", "rollout");
    AddWorker("reward-0", "reward");
  }
  void KillWorker(const std::string& id) { workers_.erase(id); }
  fake::FakeWorker& worker(const std::string& id) { return *workers_.at(id); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const absl::Duration lease_;
  const ChangeController change_;
  int port_ = 0;
  std::string moved_;  // the data root; empty: folder()
  std::unique_ptr<controller::Controller> controller_;
  std::unique_ptr<api::ApiServer> api_;
  std::map<std::string, std::unique_ptr<fake::FakeWorker>> workers_;
};

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_IN_PROCESS_CLUSTER_TESTING_H_
