// Events in any order, with any references, doubled or never: the rules of the cores hold.
//
// The bytes decide what workers, users, disks and time do to a controller with one job, or with two
// that share its queue.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "tests/fuzz/fuzzed_controller.h"

namespace {

constexpr int kEvents = 200;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  baton::SilenceLog();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  baton::controller::FuzzedController controller(&input);
  const int jobs = input.ConsumeIntegralInRange(1, 2);
  for (int i = 0; i < jobs; ++i) {
    controller.Submit(baton::controller::FuzzedSpec(absl::StrCat(i), input.ConsumeBool(), input));
  }
  for (int i = 0; i < kEvents && input.remaining_bytes() > 0; ++i) controller.Happen();
  return 0;
}
