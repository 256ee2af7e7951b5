// A whole controller without workers, for tests of what it answers and keeps.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_WHOLE_CONTROLLER_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_WHOLE_CONTROLLER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/runtime/controller/controller.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {

/// Fixture: a controller whose store outlives it, and a user who submits jobs to it.
class WholeControllerTest : public ::testing::Test {
 protected:
  WholeControllerTest() {
    folder_.Write("train.jsonl",
                  "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n"
                  "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n");
    Start();
  }

  void Start() { StartOn(std::make_unique<SharedStore>(store_)); }
  void StartOn(std::unique_ptr<store::Store> store) {
    controller_.reset();
    ControllerOptions options;
    options.data_root = folder_.path();
    options.store = std::move(store);
    options.cluster.lease = lease_;
    options.checker = checker_;
    options.check_limit = check_limit_;
    auto controller = Controller::Create(std::move(options));
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }

  v1::JobSpec Spec() const {
    v1::JobSpec spec;
    spec.set_kind(v1::JOB_KIND_RL);
    spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
    spec.mutable_data()->add_train_files(folder_.path("train.jsonl"));
    spec.mutable_data()->set_train_batch_size(2);
    spec.mutable_data()->set_max_response_length(8);
    spec.mutable_rollout()->set_n(2);
    spec.mutable_reward()->add_rules()->set_type("exact_match");
    spec.mutable_trainer()->set_total_training_steps(2);
    return spec;
  }
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, const std::string& id,
                                 const std::string& request_id = "") {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_job_id(id);
    request.set_request_id(request_id);
    return Wait<v1::Job>([&](auto done) { controller_->CreateJob(request, done); });
  }
  absl::StatusOr<v1::Job> Get(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    return Wait<v1::Job>([&](auto done) { controller_->GetJob(request, done); });
  }

  const TestFolder folder_;  ///< The data root. Goes with the test.
  absl::Duration lease_ = absl::Seconds(10);
  std::string checker_;  ///< The program that looks at models and data; from the next Start on.
  absl::Duration check_limit_ = absl::Minutes(6);
  std::shared_ptr<store::MemoryStore> store_ = std::make_shared<store::MemoryStore>();
  std::unique_ptr<Controller> controller_;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_WHOLE_CONTROLLER_H_
