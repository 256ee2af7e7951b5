#include "sdk/rpc/error.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ErrorTest, ReasonAndViolationsSurviveTheWire) {
  v1::FieldViolation violation;
  violation.set_field("spec.rollout.n");
  violation.set_description("0 is not in [1, 1024]");
  const absl::Status sent = MakeSpecError({violation});
  const absl::Status got = FromGrpc(ToGrpc(sent));
  EXPECT_EQ(got, sent);
  EXPECT_EQ(ErrorReason(got), "SPEC_INVALID");
  ASSERT_EQ(ErrorViolations(got).size(), 1u);
  EXPECT_EQ(ErrorViolations(got)[0].field(), "spec.rollout.n");
}

TEST(ErrorTest, AStrangersStatusKeepsItsCodeAndMessage) {
  const absl::Status got = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no route"));
  EXPECT_EQ(got.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(got.message(), "no route");
  EXPECT_EQ(ErrorReason(got), "");
}

TEST(ErrorTest, DetailsThatAreNotOursAreIgnored) {
  const absl::Status got =
      FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "broken", "\xff\xff not a message"));
  EXPECT_EQ(got.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(got.message(), "broken");
}

}  // namespace
}  // namespace baton
