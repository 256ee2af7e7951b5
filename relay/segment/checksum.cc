#include "relay/segment/checksum.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "xxhash.h"

namespace baton::relay {

uint64_t Xxh3(absl::Span<const uint8_t> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::vector<TensorDigest> DigestTensors(const SafetensorsView& view) {
  std::vector<TensorDigest> digests;
  digests.reserve(view.entries().size());
  for (const TensorEntry& entry : view.entries()) {
    digests.push_back({entry.name, Xxh3(view.Data(entry))});
  }
  return digests;
}

absl::Status VerifyTensors(const SafetensorsView& view, absl::Span<const TensorDigest> digests) {
  std::map<std::string, uint64_t> expected;
  for (const TensorDigest& digest : digests) expected[digest.name] = digest.xxh3;
  for (const auto& [name, xxh3] : expected) {
    if (view.Find(name) == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("a checksum was given for tensor \"", name, "\", which is not there"));
    }
  }
  for (const TensorEntry& entry : view.entries()) {
    const auto it = expected.find(entry.name);
    if (it == expected.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no checksum was given for tensor \"", entry.name, "\""));
    }
    const uint64_t actual = Xxh3(view.Data(entry));
    if (actual != it->second) {
      return absl::DataLossError(absl::StrCat("tensor \"", entry.name, "\": its bytes have XXH3 ",
                                              absl::Hex(actual, absl::kZeroPad16), ", not ",
                                              absl::Hex(it->second, absl::kZeroPad16)));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::relay
