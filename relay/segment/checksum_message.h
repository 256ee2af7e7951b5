// Checksums of boxes as the relay's API has them.
#ifndef BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_
#define BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "baton/v1/relay_service.pb.h"
#include "relay/segment/checksum.h"

namespace baton::relay {

using ChecksumMessages = google::protobuf::RepeatedPtrField<v1::TensorChecksum>;

inline void AddChecksums(absl::Span<const TensorDigest> digests, ChecksumMessages* messages) {
  for (const TensorDigest& digest : digests) {
    v1::TensorChecksum* message = messages->Add();
    message->set_name(digest.name);
    message->set_xxh3(digest.xxh3);
    *message->mutable_begin() = {digest.box.begin.begin(), digest.box.begin.end()};
    *message->mutable_end() = {digest.box.end.begin(), digest.box.end.end()};
  }
}

/// As they were given: a box may lie anywhere.
inline std::vector<TensorDigest> ReadChecksums(const ChecksumMessages& messages) {
  std::vector<TensorDigest> digests;
  for (const v1::TensorChecksum& message : messages) {
    digests.push_back({message.name(),
                       message.xxh3(),
                       {{message.begin().begin(), message.begin().end()},
                        {message.end().begin(), message.end().end()}}});
  }
  return digests;
}

/// Tells versions of one number apart: after a rollback a number may come again with other weights.
inline uint64_t Fingerprint(uint64_t size_bytes, const ChecksumMessages& tensors) {
  std::vector<std::string> parts;
  for (const v1::TensorChecksum& tensor : tensors) parts.push_back(tensor.SerializeAsString());
  std::sort(parts.begin(), parts.end());
  std::string all = absl::StrCat(size_bytes, ":");
  for (const std::string& part : parts) absl::StrAppend(&all, part.size(), ":", part);
  return Xxh3({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
}

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_
