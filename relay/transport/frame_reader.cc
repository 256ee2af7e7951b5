#include "relay/transport/frame_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

// Memory for a message is taken as its bytes come: a header alone costs the peer nothing.
constexpr uint64_t kMessageStep = 256 << 10;
constexpr size_t kThrownAwayBytes = 64 << 10;

}  // namespace

void FrameReader::Offer(uint64_t region, absl::Span<uint8_t> memory) {
  regions_[region] = {memory, 0};
  next_region_ = std::max(next_region_, region + 1);
}

void FrameReader::Protect(uint64_t region, uint64_t bytes) {
  const auto it = regions_.find(region);
  if (it == regions_.end()) return;
  it->second.protected_bytes = std::max(it->second.protected_bytes, bytes);
}

void FrameReader::Withdraw(uint64_t region) {
  regions_.erase(region);
  if (target_ != nullptr && frame_.region == region) {
    target_ = nullptr;
    gone_ = true;
  }
}

absl::Span<uint8_t> FrameReader::Space() {
  if (header_bytes_ < kFrameHeaderBytes) {
    return absl::MakeSpan(header_).subspan(header_bytes_);
  }
  const uint64_t left = frame_.size_bytes - body_bytes_;
  if (frame_.type == FrameType::kMessage) {
    if (message_.size() == body_bytes_) message_.resize(body_bytes_ + std::min(left, kMessageStep));
    return {reinterpret_cast<uint8_t*>(message_.data()) + body_bytes_,
            message_.size() - static_cast<size_t>(body_bytes_)};
  }
  if (target_ != nullptr) return {target_ + body_bytes_, static_cast<size_t>(left)};
  thrown_away_.resize(kThrownAwayBytes);
  return absl::MakeSpan(thrown_away_).first(std::min<uint64_t>(left, kThrownAwayBytes));
}

absl::Status FrameReader::Filled(size_t bytes, Sink* sink) {
  if (header_bytes_ < kFrameHeaderBytes) {
    header_bytes_ += bytes;
    if (header_bytes_ < kFrameHeaderBytes) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(StartBody());
  } else {
    body_bytes_ += bytes;
  }
  if (body_bytes_ == frame_.size_bytes) FinishBody(sink);
  return absl::OkStatus();
}

absl::Status FrameReader::StartBody() {
  BATON_ASSIGN_OR_RETURN(frame_, DecodeFrame(header_, limits_));
  body_bytes_ = 0;
  message_.clear();
  target_ = nullptr;
  gone_ = false;
  return frame_.type == FrameType::kPut ? StartPut() : absl::OkStatus();
}

absl::Status FrameReader::StartPut() {
  const auto it = regions_.find(frame_.region);
  if (it == regions_.end()) {
    if (frame_.region < next_region_) {  // withdrawn while the put was on its way
      gone_ = true;
      return absl::OkStatus();
    }
    return absl::OutOfRangeError(
        absl::StrCat("a put into region ", frame_.region, ", which was not offered"));
  }
  const Region& region = it->second;
  const uint64_t size = region.memory.size();
  if (frame_.offset > size || frame_.size_bytes > size - frame_.offset) {
    return absl::OutOfRangeError(absl::StrCat("a put of ", frame_.size_bytes, " bytes at ",
                                              frame_.offset, " of region ", frame_.region,
                                              ", which has ", size, " bytes"));
  }
  if (frame_.offset >= region.protected_bytes) {
    target_ = region.memory.data() + frame_.offset;
    return absl::OkStatus();
  }
  if (frame_.offset + frame_.size_bytes <= region.protected_bytes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a put of ", frame_.size_bytes, " bytes at ", frame_.offset, " of region ", frame_.region,
      ", the first ", region.protected_bytes, " bytes of which are verified"));
}

void FrameReader::FinishBody(Sink* sink) {
  header_bytes_ = 0;
  target_ = nullptr;
  const Frame frame = frame_;
  switch (frame.type) {
    case FrameType::kMessage:
      sink->Message(std::exchange(message_, ""));
      break;
    case FrameType::kPut:
      if (!gone_) sink->Put({frame.region, frame.offset, frame.size_bytes, frame.xxh3});
      break;
    case FrameType::kKeepalive:
      break;
  }
}

}  // namespace baton::relay
