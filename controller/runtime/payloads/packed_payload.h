// A payload as the controller keeps it in memory.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_PACKED_PAYLOAD_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_PACKED_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "baton/v1/experience.pb.h"

namespace baton::controller {

/// Serialised, in one piece of exactly its size. As a message a payload takes a third more: each
/// column is a string and a message of its own, and the allocator rounds each of them up. Constant;
/// any thread.
class PackedPayload {
 public:
  explicit PackedPayload(const v1::Trajectory& payload)
      : size_(payload.ByteSizeLong()), bytes_(new char[size_]) {
    payload.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(bytes_.get()));
  }

  v1::Trajectory Unpack() const {
    v1::Trajectory payload;
    payload.ParseFromArray(bytes_.get(), static_cast<int>(size_));
    return payload;
  }
  absl::string_view view() const { return {bytes_.get(), size_}; }
  uint64_t bytes() const { return size_; }

 private:
  const size_t size_;
  const std::unique_ptr<char[]> bytes_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_PACKED_PAYLOAD_H_
