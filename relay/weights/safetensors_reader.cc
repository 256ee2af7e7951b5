#include "relay/weights/safetensors_reader.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 128)), "\"");
}

/// Reads the header's JSON event by event: no tree is built, nesting is bounded, and duplicate
/// keys are seen (a tree would keep the last one silently).
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;
  absl::Status status;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a fractional or too large number");
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat("the number ", value, " does not fit 63 bits"));
    }
    if (place_ == Place::kShape) {
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else {
      offsets_.push_back(static_cast<int64_t>(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Unexpected("a string");
    absl::StatusOr<DType> dtype = ParseDType(value);
    if (!dtype.ok()) return Fail(dtype.status().message());
    entry_.dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
      fields_.clear();
      entry_ = TensorEntry{key_};
      offsets_.clear();
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    std::set<std::string>& seen = place_ == Place::kTop ? names_ : fields_;
    if (!seen.insert(value).second)
      return Fail(absl::StrCat("the key ", Quoted(value), " is there twice"));
    if (place_ == Place::kTensor && value != "dtype" && value != "shape" &&
        value != "data_offsets") {
      return Fail(absl::StrCat("unknown key ", Quoted(value)));
    }
    key_ = value;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3) return Fail("dtype, shape and data_offsets must all be there");
      if (offsets_.size() != 2) return Fail("data_offsets must be two numbers");
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
      entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Unexpected("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    status = absl::InvalidArgumentError(absl::StrCat("the header is not JSON, at byte ", position));
    return false;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(absl::string_view message) {
    const bool in_tensor = place_ != Place::kTop && place_ != Place::kStart;
    status = absl::InvalidArgumentError(
        in_tensor ? absl::StrCat("tensor ", Quoted(entry_.name), ": ", message)
                  : absl::StrCat("header: ", message));
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Fail(absl::StrCat(what, " is not expected here"));
  }

  Place place_ = Place::kStart;
  std::string key_;
  TensorEntry entry_;
  std::vector<int64_t> offsets_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
};

absl::Status CheckSizes(const std::vector<TensorEntry>& entries, int64_t data_size) {
  for (const TensorEntry& entry : entries) {
    absl::StatusOr<int64_t> size = TensorSizeBytes(entry.dtype, entry.shape);
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("tensor ", Quoted(entry.name)));
    if (entry.begin > entry.end || entry.end > data_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(entry.name), ": data_offsets [", entry.begin, ", ", entry.end,
          "] are not within the ", data_size, " bytes of data (is the file truncated?)"));
    }
    if (*size != entry.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(entry.name), ": shape [", absl::StrJoin(entry.shape, ", "),
                       "] of ", DTypeName(entry.dtype), " needs ", *size,
                       " bytes, data_offsets give ", entry.size_bytes()));
    }
  }
  return absl::OkStatus();
}

/// The tensors must lie side by side from the first byte of the data to its last.
absl::Status CheckCoverage(const std::vector<TensorEntry>& entries, int64_t data_size) {
  std::vector<const TensorEntry*> by_place;
  by_place.reserve(entries.size());
  for (const TensorEntry& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::make_pair(a->begin, a->end) < std::make_pair(b->begin, b->end);
  });
  int64_t next = 0;
  for (const TensorEntry* entry : by_place) {
    if (entry->begin < next) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(entry->name), " overlaps another at byte ", entry->begin));
    }
    if (entry->begin > next) {
      return absl::InvalidArgumentError(
          absl::StrCat("bytes ", next, " to ", entry->begin, " of the data belong to no tensor"));
    }
    next = entry->end;
  }
  if (next != data_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes ", next, " to ", data_size, " of the data belong to no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<TensorBox> WholeTensors(absl::Span<const TensorEntry> entries) {
  std::vector<TensorBox> whole;
  for (const TensorEntry& entry : entries) whole.push_back({entry.name, Box::Full(entry.shape)});
  return whole;
}

absl::StatusOr<SafetensorsView> SafetensorsView::Parse(absl::Span<const uint8_t> file) {
  if (file.size() < 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a safetensors file: ", file.size(), " bytes, at least 8 are needed"));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | file[i];
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: a header of ", length,
                                                   " bytes is above the limit of ",
                                                   kMaxSafetensorsHeaderBytes));
  }
  if (length > file.size() - 8) {
    return absl::InvalidArgumentError(absl::StrCat("truncated: the header has ", length,
                                                   " bytes, the file ", file.size() - 8,
                                                   " after the length"));
  }
  const absl::Span<const uint8_t> header = file.subspan(8, length);
  if (header.empty() || header[0] != '{') {
    return absl::InvalidArgumentError("the header does not start with '{'");
  }
  HeaderHandler handler;
  nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  BATON_RETURN_IF_ERROR(handler.status);

  SafetensorsView view;
  view.data_offset_ = static_cast<int64_t>(8 + length);
  view.data_ = file.subspan(8 + length);
  const int64_t data_size = static_cast<int64_t>(view.data_.size());
  BATON_RETURN_IF_ERROR(CheckSizes(handler.entries, data_size));
  BATON_RETURN_IF_ERROR(CheckCoverage(handler.entries, data_size));
  view.entries_ = std::move(handler.entries);
  view.metadata_ = std::move(handler.metadata);
  std::sort(view.entries_.begin(), view.entries_.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return view;
}

const TensorEntry* SafetensorsView::Find(absl::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const TensorEntry& entry, absl::string_view key) {
                                     return absl::string_view(entry.name) < key;
                                   });
  return it != entries_.end() && absl::string_view(it->name) == name ? &*it : nullptr;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<SafetensorsView> view = SafetensorsView::Parse(file.bytes());
  if (!view.ok()) return Annotate(view.status(), path);
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(path, std::move(file), *std::move(view)));
}

}  // namespace baton::relay
