#include "relay/weights/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

/// Quoted and escaped, or an error if it is not UTF-8.
absl::StatusOr<std::string> JsonString(const std::string& text, absl::string_view what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " \"", absl::CHexEscape(text.substr(0, 64)), "\" is not UTF-8"));
  }
}

absl::StatusOr<std::string> HeaderJson(const std::vector<TensorEntry>& entries,
                                       const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (auto it = metadata.begin(); it != metadata.end(); ++it) {
      BATON_ASSIGN_OR_RETURN(const std::string key, JsonString(it->first, "metadata key"));
      BATON_ASSIGN_OR_RETURN(const std::string value, JsonString(it->second, "metadata value"));
      absl::StrAppend(&json, it == metadata.begin() ? "" : ",", key, ":", value);
    }
    json += "}";
  }
  for (const TensorEntry& entry : entries) {
    BATON_ASSIGN_OR_RETURN(const std::string name, JsonString(entry.name, "tensor name"));
    absl::StrAppend(&json, json.size() > 1 ? "," : "", name, ":{\"dtype\":\"",
                    DTypeName(entry.dtype), "\",\"shape\":[");
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      absl::StrAppend(&json, i > 0 ? "," : "", entry.shape[i]);
    }
    absl::StrAppend(&json, "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  json += "}";
  return json;
}

}  // namespace

absl::StatusOr<SafetensorsLayout> SafetensorsLayout::Create(
    std::vector<TensorSpec> tensors, const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int64_t size_a = SizeBytes(a.dtype), size_b = SizeBytes(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  SafetensorsLayout layout;
  std::map<absl::string_view, int> seen;
  for (const TensorSpec& spec : tensors) {
    if (spec.name == "__metadata__") {
      return absl::InvalidArgumentError("the tensor name \"__metadata__\" is reserved");
    }
    if (!seen.emplace(spec.name, 0).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", spec.name, "\" is given twice"));
    }
    absl::StatusOr<int64_t> size = TensorSizeBytes(spec.dtype, spec.shape);
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("tensor \"", spec.name, "\""));
    const int64_t begin = layout.data_size_;
    if (__builtin_add_overflow(begin, *size, &layout.data_size_)) {
      return absl::InvalidArgumentError("the tensors together have more bytes than 63 bits count");
    }
    layout.entries_.push_back({spec.name, spec.dtype, spec.shape, begin, layout.data_size_});
  }
  BATON_ASSIGN_OR_RETURN(std::string json, HeaderJson(layout.entries_, metadata));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (static_cast<int64_t>(json.size()) > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a header of ", json.size(),
                                                   " bytes is above the format's limit of ",
                                                   kMaxSafetensorsHeaderBytes));
  }
  const uint64_t length = json.size();
  layout.header_.resize(8);
  for (int i = 0; i < 8; ++i) layout.header_[i] = static_cast<char>(length >> (8 * i));
  layout.header_ += json;
  return layout;
}

const TensorEntry* SafetensorsLayout::Find(absl::string_view name) const {
  for (const TensorEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void SafetensorsLayout::WriteHeader(absl::Span<uint8_t> file) const {
  std::memcpy(file.data(), header_.data(), header_.size());
}

absl::Span<uint8_t> SafetensorsLayout::Slot(absl::Span<uint8_t> file,
                                            const TensorEntry& entry) const {
  return file.subspan(header_.size() + static_cast<size_t>(entry.begin),
                      static_cast<size_t>(entry.size_bytes()));
}

absl::Status WriteSafetensorsFile(
    const std::string& path, const SafetensorsLayout& layout,
    const std::function<absl::Status(const TensorEntry&, absl::Span<uint8_t>)>& fill) {
  BATON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  BATON_RETURN_IF_ERROR(file.Append(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(layout.header().data()), layout.header().size())));
  std::vector<uint8_t> buffer;
  for (const TensorEntry& entry : layout.entries()) {
    buffer.resize(static_cast<size_t>(entry.size_bytes()));
    BATON_RETURN_IF_ERROR(fill(entry, absl::MakeSpan(buffer)));
    BATON_RETURN_IF_ERROR(file.Append(buffer));
  }
  return file.Commit();
}

}  // namespace baton::relay
