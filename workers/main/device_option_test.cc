#include "workers/main/device_option.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeviceOption, NamesWhatIsSupported) {
  EXPECT_EQ(DeviceProblem("cpu"), "");
  for (const char* device : {"cuda", "cuda:1", "gpu"}) {
    EXPECT_THAT(DeviceProblem(device), AllOf(HasSubstr("is not supported"), HasSubstr("CPUs"),
                                             HasSubstr("docs/worker-protocol.md")));
  }
  EXPECT_EQ(DeviceProblem("tpu"), "'tpu' is not a device of baton-worker; supported is cpu");
}

}  // namespace
}  // namespace baton
