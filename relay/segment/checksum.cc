#include "relay/segment/checksum.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "xxhash.h"

namespace baton::relay {
namespace {

/// XXH3 of bytes that come in pieces: that of all of them in a row.
class StreamedXxh3 {
 public:
  StreamedXxh3() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(absl::Span<const uint8_t> bytes) {
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  uint64_t Digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

/// A box of a tensor of `shape` as runs of consecutive elements: every index of the dimensions
/// before `cut`, the last that the box does not have whole, begins one.
struct Runs {
  Runs(absl::Span<const int64_t> shape, const Box& box) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (box.begin[d] != 0 || box.end[d] != shape[d]) cut = d;
    }
    for (size_t d = cut + 1; d < shape.size(); ++d) below *= shape[d];
  }
  size_t cut = 0;
  int64_t below = 1;  ///< Elements of one index of dimension `cut`.
};

/// Adds the box's elements. It lies within `entry`.
void AddBox(const SafetensorsView& view, const TensorEntry& entry, const Box& box,
            StreamedXxh3* digest) {
  if (box.volume() == 0) return;
  const absl::Span<const uint8_t> data = view.Data(entry);
  const Runs runs(entry.shape, box);
  const int64_t element = SizeBytes(entry.dtype);
  const int64_t run = entry.shape.empty()
                          ? element
                          : (box.end[runs.cut] - box.begin[runs.cut]) * runs.below * element;
  std::vector<int64_t> index = box.begin;  // dimensions from `cut` on stay where they begin
  while (true) {
    int64_t row = 0;
    for (size_t d = 0; d < index.size() && d <= runs.cut; ++d)
      row = row * entry.shape[d] + index[d];
    digest->Add(
        data.subspan(static_cast<size_t>(row * runs.below * element), static_cast<size_t>(run)));
    size_t d = runs.cut;
    while (d > 0 && ++index[d - 1] == box.end[d - 1]) {
      index[d - 1] = box.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

uint64_t DigestOf(const SafetensorsView& view, const TensorEntry& entry, const Box& box) {
  if (box == Box::Full(entry.shape)) return Xxh3(view.Data(entry));
  StreamedXxh3 digest;
  AddBox(view, entry, box, &digest);
  return digest.Digest();
}

Box BoxOf(const TensorDigest& digest, absl::Span<const int64_t> shape) {
  return digest.whole() ? Box::Full(shape) : digest.box;
}

absl::Status VerifyTensor(const SafetensorsView& view, const TensorEntry& entry,
                          absl::Span<const TensorDigest> digests) {
  for (const TensorDigest& digest : digests) {
    const Box box = BoxOf(digest, entry.shape);
    if (!box.FitsIn(entry.shape)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a checksum was given for ", box.ToString(), ", outside of tensor \"", entry.name, "\""));
    }
    const uint64_t actual = DigestOf(view, entry, box);
    if (actual != digest.xxh3) {
      return absl::DataLossError(
          absl::StrCat("tensor \"", entry.name, "\"", digest.whole() ? "" : " " + box.ToString(),
                       ": its bytes have XXH3 ", absl::Hex(actual, absl::kZeroPad16), ", not ",
                       absl::Hex(digest.xxh3, absl::kZeroPad16)));
    }
  }
  const std::vector<Box> missing = Undigested(entry.shape, digests);
  if (digests.empty() || !missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no checksum was given for ", missing.empty() ? "" : missing[0].ToString() + " of ",
        "tensor \"", entry.name, "\""));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t Xxh3(absl::Span<const uint8_t> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

absl::StatusOr<std::vector<TensorDigest>> DigestBoxes(const SafetensorsView& view,
                                                      absl::Span<const TensorBox> boxes) {
  std::vector<TensorDigest> digests;
  digests.reserve(boxes.size());
  for (const auto& [name, box] : boxes) {
    const TensorEntry* entry = view.Find(name);
    if (entry == nullptr || !box.FitsIn(entry->shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no ", box.ToString(), " of a tensor \"", name, "\""));
    }
    const bool whole = box == Box::Full(entry->shape);
    digests.push_back({name, DigestOf(view, *entry, box), whole ? Box() : box});
  }
  return digests;
}

class BoxDigests::Stream : public StreamedXxh3 {};

BoxDigests::BoxDigests(const SafetensorsView* view) : view_(view) {}
BoxDigests::~BoxDigests() = default;

absl::Status BoxDigests::Add(const TensorBox& box, const Box& part) {
  const TensorEntry* entry = view_->Find(box.name);
  if (entry == nullptr || !box.box.FitsIn(entry->shape) || !part.FitsIn(entry->shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no ", part.ToString(), " of a tensor \"", box.name, "\""));
  }
  if (!box_.has_value() || box_->name != box.name || !(box_->box == box.box)) {
    Finish();
    box_ = box;
    stream_ = std::make_unique<Stream>();
  }
  AddBox(*view_, *entry, part, stream_.get());
  return absl::OkStatus();
}

void BoxDigests::Finish() {
  if (!box_.has_value()) return;
  const bool whole = box_->box == Box::Full(view_->Find(box_->name)->shape);
  digests_.push_back({box_->name, stream_->Digest(), whole ? Box() : box_->box});
  box_.reset();
}

std::vector<TensorDigest> BoxDigests::Take() {
  Finish();
  return std::exchange(digests_, {});
}

std::vector<Box> Undigested(absl::Span<const int64_t> shape,
                            absl::Span<const TensorDigest> digests) {
  std::vector<Box> boxes;
  for (const TensorDigest& digest : digests) boxes.push_back(BoxOf(digest, shape));
  return Uncovered(shape, boxes);
}

absl::Status VerifyTensors(const SafetensorsView& view, absl::Span<const TensorDigest> digests) {
  std::map<std::string, std::vector<TensorDigest>> given;
  for (const TensorDigest& digest : digests) given[digest.name].push_back(digest);
  for (const auto& [name, of_tensor] : given) {
    if (view.Find(name) == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("a checksum was given for tensor \"", name, "\", which is not there"));
    }
  }
  for (const TensorEntry& entry : view.entries()) {
    BATON_RETURN_IF_ERROR(VerifyTensor(view, entry, given[entry.name]));
  }
  return absl::OkStatus();
}

}  // namespace baton::relay
