#include "relay/chain/inbound_transfer.h"

#include "absl/strings/str_cat.h"

namespace baton::relay {

absl::StatusOr<InboundTransfer::Arrival> InboundTransfer::Arrive(uint64_t connection,
                                                                 const Chunk& chunk, uint64_t sent,
                                                                 uint64_t found) {
  if (connection != connection_) return Arrival::kStale;
  if (chunk.size_bytes == 0 || chunk.offset > size_bytes_ ||
      chunk.size_bytes > size_bytes_ - chunk.offset) {
    return absl::OutOfRangeError(absl::StrCat("a chunk of ", chunk.size_bytes, " bytes at ",
                                              chunk.offset, " of a version of ", size_bytes_,
                                              " bytes"));
  }
  if (chunk.end() <= verified_) return Arrival::kDuplicate;
  if (chunk.offset != verified_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a chunk at ", chunk.offset, ", where ", verified_, " bytes are verified"));
  }
  if (sent != found) {
    return absl::DataLossError(absl::StrCat(
        "the chunk of ", chunk.size_bytes, " bytes at ", chunk.offset, " has XXH3 ",
        absl::Hex(found, absl::kZeroPad16), ", not ", absl::Hex(sent, absl::kZeroPad16)));
  }
  verified_ = chunk.end();
  return Arrival::kVerified;
}

}  // namespace baton::relay
