#include "sdk/common/rpc/error.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/retry.h"

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

TEST(ErrorTest, AForeignStatusKeepsItsCodeAndMessage) {
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

TEST(ErrorTest, TextThatIsNotUtf8ArrivesReplaced) {
  const absl::Status got =
      FromGrpc(ToGrpc(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "no job '\xff'")));
  EXPECT_EQ(ErrorReason(got), "JOB_NOT_FOUND");
  EXPECT_EQ(got.message(), "no job '\xef\xbf\xbd'");
}

// The bytes are those of google.rpc.RetryInfo: field 1, a Duration of fields 1 (seconds) and 2.
TEST(ErrorTest, ABusyServerSaysWhenToComeAgain) {
  const absl::Status busy =
      WithRetry(MakeError(absl::StatusCode::kResourceExhausted, "SUBMISSIONS_WAITING", "busy"),
                absl::Milliseconds(1500));
  for (const absl::Status& status : {busy, FromGrpc(ToGrpc(busy)), FromProto(ToProto(busy))}) {
    EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
    EXPECT_EQ(ErrorReason(status), "SUBMISSIONS_WAITING");
  }
  std::string bytes;
  const v1::Status sent = ToProto(busy);
  for (const auto& detail : sent.details()) {
    if (absl::EndsWith(detail.type_url(), ".RetryInfo")) bytes = detail.value();
  }
  EXPECT_EQ(bytes, "\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01");
  EXPECT_EQ(RetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "QUOTA_JOBS", "many")),
            absl::InfiniteDuration());
  const absl::Status cut =
      WithRetry(MakeError(absl::StatusCode::kResourceExhausted, "LONG", std::string(20'000, 'x')),
                absl::Seconds(2));
  EXPECT_EQ(RetryDelay(FromGrpc(ToGrpc(cut))), absl::Seconds(2));
}

TEST(ErrorTest, ALongErrorKeepsItsReasonAndSaysWhatIsMissing) {
  std::vector<v1::FieldViolation> violations(300);
  for (v1::FieldViolation& violation : violations) {
    violation.set_field("spec.data.train_files");
    violation.set_description(std::string(30, 'x') + "ä: not valid JSON");
  }
  const grpc::Status sent = ToGrpc(MakeSpecError(violations));
  // Base64 takes four bytes for three, percent-encoding three for one at worst.
  EXPECT_LT(sent.error_details().size() * 4 / 3 + 2400, 7500u);
  const absl::Status got = FromGrpc(sent);
  EXPECT_EQ(ErrorReason(got), "SPEC_INVALID");
  const auto kept = ErrorViolations(got);
  ASSERT_GT(kept.size(), 10u);
  EXPECT_EQ(kept[0].description(), violations[0].description());
  EXPECT_EQ(kept.back().description(),
            "… and " + std::to_string(301 - kept.size()) + " more; ValidateJob lists all of them");
}

}  // namespace
}  // namespace baton
