#include "relay/weights/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace baton::relay {
namespace {

using testing::HasSubstr;

TEST(Reshard, RowShardsToColumnShardsByHand) {
  // A 2 x 4 tensor 0..7 in bytes: rows on two sources, columns on two destinations.
  const std::vector<uint8_t> row0 = {0, 1, 2, 3}, row1 = {4, 5, 6, 7};
  std::vector<uint8_t> left(4, 99), right(4, 99);
  const std::vector<PlacedBox> from = {{{{0, 0}, {1, 4}}, 0, 0}, {{{1, 0}, {2, 4}}, 1, 0}};
  const std::vector<PlacedBox> to = {{{{0, 0}, {2, 2}}, 0, 0}, {{{0, 2}, {2, 4}}, 1, 0}};
  const auto plan = PlanReshard(1, from, to);
  ASSERT_TRUE(plan.ok());
  ASSERT_TRUE(
      ExecuteReshard(*plan, {row0, row1}, {absl::MakeSpan(left), absl::MakeSpan(right)}).ok());
  EXPECT_EQ(left, (std::vector<uint8_t>{0, 1, 4, 5}));
  EXPECT_EQ(right, (std::vector<uint8_t>{2, 3, 6, 7}));
}

TEST(Reshard, WholeTensorIsOneRun) {
  const std::vector<PlacedBox> whole = {{Box::Full({16, 8, 4}), 0, 0}};
  const auto plan = PlanReshard(4, whole, whole);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->size(), 1u);
  EXPECT_EQ((*plan)[0].run_bytes, 16 * 8 * 4 * 4);
  EXPECT_TRUE((*plan)[0].counts.empty());
}

TEST(Reshard, ReplicasAreReadOnce) {
  const std::vector<PlacedBox> replicas = {{Box::Full({8}), 0, 0}, {Box::Full({8}), 1, 0}};
  const std::vector<PlacedBox> to = {{Box::Full({8}), 0, 0}};
  const auto plan = PlanReshard(2, replicas, to);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->size(), 1u);
  EXPECT_EQ((*plan)[0].source_buffer, 0);
}

TEST(Reshard, MissingElementsAreNamed) {
  const std::vector<PlacedBox> from = {{{{0, 0}, {1, 4}}, 0, 0}};
  const std::vector<PlacedBox> to = {{Box::Full({2, 4}), 0, 0}};
  const auto plan = PlanReshard(1, from, to);
  ASSERT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("no source has [1:2, 0:4]"));
}

TEST(Reshard, DifferentRanksAreAnError) {
  EXPECT_EQ(PlanReshard(1, {{Box::Full({4}), 0, 0}}, {{Box::Full({2, 2}), 0, 0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Reshard, BuffersThatAreTooSmallAreFoundBeforeAnythingIsWritten) {
  const std::vector<PlacedBox> from = {{Box::Full({4}), 0, 0}};
  const auto plan = PlanReshard(1, from, {{{{0}, {2}}, 0, 0}, {{{2}, {4}}, 1, 7}});
  ASSERT_TRUE(plan.ok());
  const std::vector<uint8_t> source = {1, 2, 3, 4};
  std::vector<uint8_t> first(2, 99), second(8, 99);
  const absl::Status status =
      ExecuteReshard(*plan, {source}, {absl::MakeSpan(first), absl::MakeSpan(second)});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(first, (std::vector<uint8_t>{99, 99}));
  EXPECT_EQ(ExecuteReshard(*plan, {source}, {absl::MakeSpan(first)}).code(),
            absl::StatusCode::kOutOfRange);
}

// --- Property: equal to moving every element on its own ---------------------------------------

struct Division {
  std::vector<PlacedBox> boxes;
  std::vector<std::vector<uint8_t>> buffers;
};

/// Cuts the tensor along random planes into a grid of boxes, dealt to `num_buffers` buffers.
Division RandomDivision(std::mt19937& random, const std::vector<int64_t>& shape, int64_t element,
                        int num_buffers) {
  std::vector<Box> boxes = {Box::Full(shape)};
  for (int cut = static_cast<int>(random() % 5); cut > 0 && !shape.empty(); --cut) {
    const size_t d = random() % shape.size();
    if (shape[d] == 0) continue;
    const int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d]));
    std::vector<Box> next;
    for (const Box& box : boxes) {
      if (at <= box.begin[d] || at >= box.end[d]) {
        next.push_back(box);
        continue;
      }
      next.push_back(box);
      next.back().end[d] = at;
      next.push_back(box);
      next.back().begin[d] = at;
    }
    boxes = next;
  }
  Division division;
  division.buffers.resize(static_cast<size_t>(num_buffers));
  for (const Box& box : boxes) {
    const int buffer = static_cast<int>(random() % static_cast<unsigned>(num_buffers));
    std::vector<uint8_t>& bytes = division.buffers[static_cast<size_t>(buffer)];
    bytes.resize(bytes.size() + random() % 3, 0xee);  // A gap.
    division.boxes.push_back({box, buffer, static_cast<int64_t>(bytes.size())});
    bytes.resize(bytes.size() + static_cast<size_t>(box.volume() * element), 0xee);
  }
  return division;
}

/// Calls f(linear index in the tensor, place in the buffer) for each element of a placed box.
template <typename F>
void ForElements(const std::vector<int64_t>& shape, const PlacedBox& placed, int64_t element,
                 const F& f) {
  const std::vector<int64_t> extent = placed.box.shape();
  for (int64_t i = 0; i < placed.box.volume(); ++i) {
    int64_t rest = i, linear = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      linear += (placed.box.begin[d] + rest % extent[d]) * stride;
      rest /= extent[d];
      stride *= shape[d];
    }
    f(linear, placed.offset_bytes + i * element);
  }
}

TEST(Reshard, AnyDivisionToAnyOtherMovesEveryElement) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> shape(random() % 4);
    for (int64_t& dim : shape) dim = static_cast<int64_t>(random() % 7);
    const int64_t element = int64_t{1} << (random() % 4);
    Division from = RandomDivision(random, shape, element, 3);
    Division to = RandomDivision(random, shape, element, 2);
    for (const PlacedBox& placed : from.boxes) {
      ForElements(shape, placed, element, [&](int64_t linear, int64_t at) {
        for (int64_t b = 0; b < element; ++b) {
          from.buffers[static_cast<size_t>(placed.buffer)][static_cast<size_t>(at + b)] =
              static_cast<uint8_t>(linear * 13 + b);
        }
      });
    }
    std::vector<std::vector<uint8_t>> expected = to.buffers;
    for (const PlacedBox& placed : to.boxes) {
      ForElements(shape, placed, element, [&](int64_t linear, int64_t at) {
        for (int64_t b = 0; b < element; ++b) {
          expected[static_cast<size_t>(placed.buffer)][static_cast<size_t>(at + b)] =
              static_cast<uint8_t>(linear * 13 + b);
        }
      });
    }
    const auto plan = PlanReshard(element, from.boxes, to.boxes);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<absl::Span<const uint8_t>> sources(from.buffers.begin(), from.buffers.end());
    std::vector<absl::Span<uint8_t>> destinations;
    for (auto& buffer : to.buffers) destinations.push_back(absl::MakeSpan(buffer));
    ASSERT_TRUE(ExecuteReshard(*plan, sources, destinations).ok());
    EXPECT_EQ(to.buffers, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace baton::relay
