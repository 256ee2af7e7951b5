// Checksums of boxes as the relay's API has them.
#ifndef BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_
#define BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_

#include <vector>

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

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_CHECKSUM_MESSAGE_H_
