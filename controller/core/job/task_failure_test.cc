#include "controller/core/job/task_failure.h"

#include <map>
#include <tuple>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

// Code -> permanent, misses a peer, breaks a group, passing.
TEST(TaskFailureTest, EveryCodeHasOneMeaning) {
  using Code = absl::StatusCode;
  const std::map<Code, std::tuple<bool, bool, bool, bool>> expected = {
      {Code::kOk, {false, false, false, false}},
      {Code::kCancelled, {false, false, true, true}},
      {Code::kUnknown, {false, false, false, false}},
      {Code::kInvalidArgument, {true, false, false, false}},
      {Code::kDeadlineExceeded, {false, true, true, false}},
      {Code::kNotFound, {true, false, false, false}},
      {Code::kAlreadyExists, {false, false, false, false}},
      {Code::kPermissionDenied, {true, false, false, false}},
      {Code::kResourceExhausted, {false, false, false, false}},
      {Code::kFailedPrecondition, {false, false, false, false}},
      {Code::kAborted, {false, false, true, true}},
      {Code::kOutOfRange, {true, false, false, false}},
      {Code::kUnimplemented, {true, false, false, false}},
      {Code::kInternal, {false, false, false, false}},
      {Code::kUnavailable, {false, true, true, true}},
      {Code::kDataLoss, {false, false, false, false}},
      {Code::kUnauthenticated, {false, false, false, false}},
  };
  for (const auto& [code, meaning] : expected) {
    const TaskFailure failure = FailureOf(absl::Status(code, "why"));
    EXPECT_EQ(meaning, std::make_tuple(IsPermanent(failure), MissesPeer(failure),
                                       BreaksGroup(failure), IsPassing(failure)))
        << absl::StatusCodeToString(code);
  }
}

// The reason counts more than the code: the worker does not hold the role.
TEST(TaskFailureTest, ALostRoleTakesPrecedenceOverTheStatusCode) {
  TaskDone done;
  done.status = absl::NotFoundError("no such role");
  EXPECT_EQ(FailureOf(done), TaskFailure::kNotFound);
  done.role_lost = true;
  EXPECT_EQ(FailureOf(done), TaskFailure::kRoleLost);
  EXPECT_FALSE(IsPermanent(FailureOf(done)));
}

}  // namespace
}  // namespace baton::controller
