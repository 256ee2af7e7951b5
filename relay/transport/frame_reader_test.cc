#include "relay/transport/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::relay {
namespace {

class RecordingSink : public FrameReader::Sink {
 public:
  void Message(std::string message) override { heard.push_back("message " + message); }
  void Put(const PutArrival& put) override {
    heard.push_back(absl::StrCat("put ", put.region, " ", put.offset, " ", put.size_bytes));
  }
  std::vector<std::string> heard;
};

std::string FrameOf(const Frame& frame, const std::string& body) {
  const FrameHeader header = EncodeFrame(frame);
  return std::string(reinterpret_cast<const char*>(header.data()), header.size()) + body;
}

std::string MessageOf(const std::string& text) {
  return FrameOf({FrameType::kMessage, text.size()}, text);
}

std::string PutOf(uint64_t region, uint64_t offset, const std::string& bytes) {
  return FrameOf({FrameType::kPut, bytes.size(), region, offset, 5}, bytes);
}

/// In pieces of at most `most` bytes.
absl::Status Feed(FrameReader& reader, const std::string& bytes, RecordingSink* sink,
                  size_t most = 1 << 20) {
  for (size_t at = 0; at < bytes.size();) {
    const absl::Span<uint8_t> space = reader.Space();
    const size_t some = std::min({space.size(), bytes.size() - at, most});
    std::memcpy(space.data(), bytes.data() + at, some);
    at += some;
    if (const absl::Status status = reader.Filled(some, sink); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(FrameReaderTest, TheBytesOfAPutGoStraightIntoItsRegion) {
  FrameReader reader({});
  std::string memory(10, '.');
  reader.Offer(4, {reinterpret_cast<uint8_t*>(memory.data()), memory.size()});
  RecordingSink sink;
  const std::string put = PutOf(4, 3, "abcd");
  ASSERT_TRUE(Feed(reader, put.substr(0, kFrameHeaderBytes), &sink).ok());
  EXPECT_EQ(static_cast<void*>(reader.Space().data()), memory.data() + 3);
  EXPECT_EQ(reader.Space().size(), 4u);
  ASSERT_TRUE(Feed(reader, put.substr(kFrameHeaderBytes), &sink).ok());
  EXPECT_EQ(memory, "...abcd...");
  EXPECT_THAT(sink.heard, ::testing::ElementsAre("put 4 3 4"));
}

TEST(FrameReaderTest, FramesAreTheSameHoweverTheirBytesAreCut) {
  const std::string bytes = MessageOf("one") + PutOf(1, 0, "xyz") + FrameOf({}, "") +
                            MessageOf("") + PutOf(1, 3, std::string(300'000, 'q')) +
                            MessageOf(std::string(600'000, 'm'));
  for (size_t most : {1, 7, 40, 41, 65'537}) {
    FrameReader reader({});
    std::string memory(300'003, '.');
    reader.Offer(1, {reinterpret_cast<uint8_t*>(memory.data()), memory.size()});
    RecordingSink sink;
    ASSERT_TRUE(Feed(reader, bytes, &sink, most).ok());
    EXPECT_THAT(sink.heard,
                ::testing::ElementsAre("message one", "put 1 0 3", "message ", "put 1 3 300000",
                                       "message " + std::string(600'000, 'm')));
    EXPECT_EQ(memory, "xyz" + std::string(300'000, 'q'));
  }
}

TEST(FrameReaderTest, AWithdrawalAmidAPutDivertsItsRest) {
  FrameReader reader({});
  std::string memory(10, '.');
  reader.Offer(1, {reinterpret_cast<uint8_t*>(memory.data()), memory.size()});
  RecordingSink sink;
  const std::string put = PutOf(1, 0, "abcdefgh");
  ASSERT_TRUE(Feed(reader, put.substr(0, kFrameHeaderBytes + 3), &sink).ok());
  reader.Withdraw(1);
  ASSERT_TRUE(Feed(reader, put.substr(kFrameHeaderBytes + 3) + MessageOf("next"), &sink).ok());
  EXPECT_EQ(memory, "abc.......");
  EXPECT_THAT(sink.heard, ::testing::ElementsAre("message next"));
}

TEST(FrameReaderTest, AHeaderAloneTakesNoMemoryForItsMessage) {
  FrameReader reader({});
  RecordingSink sink;
  const std::string header = FrameOf({FrameType::kMessage, 64 << 20}, "");
  ASSERT_TRUE(Feed(reader, header, &sink).ok());
  EXPECT_LE(reader.Space().size(), 256u << 10);
}

TEST(FrameReaderTest, RefusesWhatIsNoFrame) {
  const std::string good = MessageOf("x");
  const auto refused = [](std::string bytes) {
    FrameReader reader({.message_bytes = 10, .put_bytes = 10});
    RecordingSink sink;
    const absl::Status status = Feed(reader, bytes, &sink);
    EXPECT_TRUE(sink.heard.empty());
    return status.code();
  };
  std::string bytes = good;
  bytes[0] = 'X';
  EXPECT_EQ(refused(bytes), absl::StatusCode::kInvalidArgument);
  for (char type : {0, 4, 127}) {
    bytes = good;
    bytes[4] = type;
    EXPECT_EQ(refused(bytes), absl::StatusCode::kInvalidArgument) << int{type};
  }
  bytes = good;
  bytes[6] = 1;  // reserved
  EXPECT_EQ(refused(bytes), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(MessageOf(std::string(11, 'x'))), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(PutOf(1, 0, std::string(11, 'x'))), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(PutOf(1, 0, "")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(FrameOf({FrameType::kKeepalive, 1}, "x")), absl::StatusCode::kInvalidArgument);
}

TEST(FrameReaderTest, AHeaderSurvivesItsBytes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    Frame frame{FrameType::kPut, 1 + random() % (64 << 20), random(), random(), random()};
    const auto read = DecodeFrame(EncodeFrame(frame), {});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(EncodeFrame(*read), EncodeFrame(frame));
    EXPECT_EQ(read->offset, frame.offset);
    EXPECT_EQ(read->xxh3, frame.xxh3);
  }
}

}  // namespace
}  // namespace baton::relay
