// Messages that wait for slow readers. No network: nothing is ever written.
#include "controller/api/outbox_reactor.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace baton::api {
namespace {

using Outbox = OutboxReactor<v1::JobEvent>;

constexpr size_t kEventBytes = 1000;

v1::JobEvent NumberedEvent(int64_t revision) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.set_message(std::string(kEventBytes, 'x'));
  return event;
}

// Pushes up to `count` messages until one is refused; returns the number that were accepted.
int64_t Fill(Outbox& outbox, int64_t count) {
  for (int64_t i = 1; i <= count; ++i) {
    if (!outbox.Push(NumberedEvent(i))) return i - 1;
  }
  return count;
}

TEST(OutboxBudgetTest, ManySlowReadersShareAndOthersAreLeftAlone) {
  constexpr size_t kTotal = 100 * kEventBytes, kShare = 5 * kEventBytes;
  OutboxBudget budget(kTotal, kShare);
  std::vector<std::shared_ptr<Outbox>> outboxes;
  for (int i = 0; i < 20; ++i) outboxes.push_back(Outbox::Make(80 * kEventBytes, &budget));
  EXPECT_GT(Fill(*outboxes[0], 1000), 70);  // alone it has its whole capacity
  for (int i = 1; i < 20; ++i) {
    const int64_t got = Fill(*outboxes[static_cast<size_t>(i)], 1000);
    EXPECT_GE(got, 4) << i;  // its share
    if (i > 1) EXPECT_LE(got, 5) << i;
  }
  EXPECT_LT(budget.waiting(), kTotal + 20 * kShare);
  auto fast = Outbox::Make(80 * kEventBytes, &budget);
  EXPECT_TRUE(fast->Push(NumberedEvent(1)));
  for (const auto& outbox : outboxes) outbox->OnDone();
  fast->OnDone();
  outboxes.clear();
  fast = nullptr;
  EXPECT_EQ(budget.waiting(), 0u);
}

TEST(OutboxBudgetTest, AnOutboxWithoutABudgetUsesItsWholeCapacity) {
  const auto outbox = Outbox::Make(1000 * kEventBytes);
  EXPECT_GT(Fill(*outbox, 1000), 900);
  outbox->OnDone();
}

// Making a message reads the store, so no more messages are made for a caller who has left.
TEST(OutboxReactorTest, ASourceIsNotAskedOnceItsCallerIsGone) {
  const auto outbox = Outbox::Make(1000 * kEventBytes);
  int asked = 0;
  std::vector<std::function<void()>> posted;
  outbox->PullFrom(
      [&](v1::JobEvent*, bool) {
        ++asked;
        return Outbox::Pulled::kBlocks;
      },
      [&](std::function<void()> work) { posted.push_back(std::move(work)); });
  ASSERT_EQ(posted.size(), 1u);
  outbox->OnCancel();
  posted[0]();
  EXPECT_EQ(asked, 1);
  outbox->OnDone();
}

}  // namespace
}  // namespace baton::api
