// A real baton-relay for tests of the roles.
#ifndef BATON_TESTS_SUPPORT_WORKERS_TEST_RELAY_H_
#define BATON_TESTS_SUPPORT_WORKERS_TEST_RELAY_H_

#include <memory>

#include "sdk/common/base/test_folder.h"
#include "tests/support/relay/relay_process.h"
#include "workers/policy/weights_relay.h"

namespace baton::policy {

/// A relay with a folder of its own, and a worker's end of it.
class TestRelay {
 public:
  WeightsRelay* get() const { return relay_.get(); }
  WeightsRelay& operator*() const { return *relay_; }
  WeightsRelay* operator->() const { return relay_.get(); }

 private:
  const TestFolder folder_;
  relay::RelayProcess process_{
      {"--listen", "127.0.0.1:0", "--shm-dir", folder_.path(), "--log-file", folder_.path("log")}};
  const std::unique_ptr<WeightsRelay> relay_ =
      WeightsRelay::Create({process_.address()}, "test").value();
};

}  // namespace baton::policy

#endif  // BATON_TESTS_SUPPORT_WORKERS_TEST_RELAY_H_
