// A writer of safetensors. The layout is computed first, so the data can be written in any order,
// by several ranks, straight into a file or a shared-memory segment of known size.
#ifndef BATON_RELAY_WEIGHTS_SAFETENSORS_WRITER_H_
#define BATON_RELAY_WEIGHTS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "relay/weights/dtype.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

/// The offsets of everything in the file: a pure function of the specs and the metadata: wide types
/// first, then by name (every tensor is aligned to its element), data starting at a multiple of 8.
class SafetensorsLayout {
 public:
  /// InvalidArgument: duplicate or reserved name, a name that is not UTF-8, a bad shape, a header
  /// or a total that is too large.
  static absl::StatusOr<SafetensorsLayout> Create(
      std::vector<TensorSpec> tensors, const std::map<std::string, std::string>& metadata = {});

  /// In order of their place in the file. begin and end count from the start of the data.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* Find(absl::string_view name) const;
  /// The first data_offset() bytes of the file: length, JSON, padding.
  const std::string& header() const { return header_; }
  int64_t data_offset() const { return static_cast<int64_t>(header_.size()); }
  int64_t file_size() const { return data_offset() + data_size_; }

  /// `file` has file_size() bytes.
  void WriteHeader(absl::Span<uint8_t> file) const;
  /// The place of one tensor in it.
  absl::Span<uint8_t> Slot(absl::Span<uint8_t> file, const TensorEntry& entry) const;

 private:
  std::vector<TensorEntry> entries_;
  std::string header_;
  int64_t data_size_ = 0;
};

/// Writes a whole file, atomically (see AtomicFile). `fill` is called once for each entry, in file
/// order, with exactly its bytes to fill in.
[[nodiscard]] absl::Status WriteSafetensorsFile(
    const std::string& path, const SafetensorsLayout& layout,
    const std::function<absl::Status(const TensorEntry&, absl::Span<uint8_t>)>& fill);

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_SAFETENSORS_WRITER_H_
