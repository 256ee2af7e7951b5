#include "controller/runtime/calls/fair_queue.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

TEST(FairQueueTest, ProjectsTakeTurnsAndEachKeepsItsOrder) {
  FairQueue<std::string> queue(10);
  for (const char* item : {"a1", "a2", "a3"}) queue.Push("a", item);
  queue.Push("b", "b1");
  queue.Push("c", "c1");
  queue.Push("c", "c2");
  std::vector<std::string> order;
  while (auto next = queue.Take()) order.push_back(*next);
  EXPECT_THAT(order, ElementsAre("a1", "b1", "c1", "a2", "c2", "a3"));
  EXPECT_EQ(queue.waiting(), 0u);
}

TEST(FairQueueTest, AProjectLeavesRoomForOthers) {
  FairQueue<std::string> queue(1);
  queue.Push("a", "a1");
  queue.Push("a", "a2");
  EXPECT_EQ(queue.Take(), "a1");
  EXPECT_EQ(queue.Take(), std::nullopt);
  queue.Push("b", "b1");
  EXPECT_EQ(queue.Take(), "b1");
  queue.End("a");
  EXPECT_EQ(queue.Take(), "a2");
  queue.End("a");
  queue.End("b");
  EXPECT_EQ(queue.Take(), std::nullopt);
}

TEST(FairQueueTest, RemovesMatchingItemsOfAllProjects) {
  FairQueue<std::string> queue(1);
  for (const char* item : {"a1", "x", "a2"}) queue.Push("a", item);
  queue.Push("b", "x");
  EXPECT_THAT(queue.Remove([](const std::string& item) { return item == "x"; }),
              ElementsAre("x", "x"));
  EXPECT_EQ(queue.waiting(), 2u);
  EXPECT_EQ(queue.Take(), "a1");
  queue.End("a");
  EXPECT_EQ(queue.Take(), "a2");
}

}  // namespace
}  // namespace baton::controller
