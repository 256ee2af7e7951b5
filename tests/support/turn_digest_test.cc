#include "tests/support/turn_digest.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

uint64_t DigestOf(const Effects& effects, const std::string& job = "a") {
  TurnDigest digest;
  digest.Add(job, effects);
  return digest.value();
}

TEST(TurnDigestTest, DependsOnEveryField) {
  std::set<uint64_t> seen = {DigestOf({}), DigestOf({}, "b")};
  seen.insert(DigestOf({PutJob{}}));
  seen.insert(DigestOf({PutJob{}, PutJob{}}));
  StartTask start;
  seen.insert(DigestOf({start}));
  start.ref.prompt = 1;
  seen.insert(DigestOf({start}));
  start.args.trajectory.scores["reward"] = 0.5;
  seen.insert(DigestOf({start}));
  start.args.trajectory.tries.emplace_back();
  seen.insert(DigestOf({start}));
  start.args.trajectory.tries[0].attempt = 7;
  seen.insert(DigestOf({start}));
  start.args.keep_versions = {1};
  seen.insert(DigestOf({start}));
  EmitEvent emit;
  seen.insert(DigestOf({emit}));
  emit.event.set_message("m");
  seen.insert(DigestOf({emit}));
  DropLogFiles drop;
  seen.insert(DigestOf({drop}));
  drop.needed.Add(3, 9);
  seen.insert(DigestOf({drop}));
  EXPECT_EQ(seen.size(), 14u);
}

TEST(TurnDigestTest, TheOrderCountsAndTheSameIsTheSame) {
  const Event tick = Tick{}, pause = PauseRequested{};
  TurnDigest one, other, same;
  one.Add("a", tick);
  one.Add("a", pause);
  other.Add("a", pause);
  other.Add("a", tick);
  same.Add("a", tick);
  same.Add("a", pause);
  EXPECT_NE(one.value(), other.value());
  EXPECT_EQ(one.value(), same.value());
  EmitEvent emit;  // a map of protobuf has no order of its own
  for (const char* name : {"x", "y", "z"}) (*emit.event.mutable_metrics())[name] = 1;
  const uint64_t forwards = DigestOf({emit});
  emit.event.clear_metrics();
  for (const char* name : {"z", "y", "x"}) (*emit.event.mutable_metrics())[name] = 1;
  EXPECT_EQ(DigestOf({emit}), forwards);
}

}  // namespace
}  // namespace baton::controller
