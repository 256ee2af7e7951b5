#include "relay/weights/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/base/status_macros.h"

namespace baton::relay {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "baton.manifest.v1";

absl::Status CheckPiece(const ManifestTensor& tensor, const ManifestPiece& piece,
                        int64_t total_bytes) {
  if (!piece.box.FitsIn(tensor.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("box ", piece.box.ToString(),
                                                   " does not fit in shape ",
                                                   Box::Full(tensor.shape).ToString()));
  }
  BATON_ASSIGN_OR_RETURN(const int64_t size, TensorSizeBytes(tensor.dtype, piece.box.shape()));
  if (size != piece.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("box ", piece.box.ToString(), " of ",
                                                   DTypeName(tensor.dtype), " needs ", size,
                                                   " bytes, not ", piece.size_bytes));
  }
  if (piece.offset_bytes < 0 || piece.offset_bytes > total_bytes ||
      size > total_bytes - piece.offset_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("box ", piece.box.ToString(), " at byte ",
                                                   piece.offset_bytes, " is not within the ",
                                                   total_bytes, " bytes"));
  }
  return absl::OkStatus();
}

Json PieceToJson(const ManifestPiece& piece) {
  Json json = {{"begin", piece.box.begin},
               {"end", piece.box.end},
               {"offset", piece.offset_bytes},
               {"size", piece.size_bytes}};
  if (!piece.checksum.empty()) json["checksum"] = piece.checksum;
  return json;
}

/// May throw nlohmann's exceptions.
ManifestPiece PieceFromJson(const Json& json) {
  ManifestPiece piece;
  piece.box.begin = json.at("begin").get<std::vector<int64_t>>();
  piece.box.end = json.at("end").get<std::vector<int64_t>>();
  piece.offset_bytes = json.at("offset").get<int64_t>();
  piece.size_bytes = json.at("size").get<int64_t>();
  piece.checksum = json.value("checksum", "");
  return piece;
}

absl::StatusOr<Manifest> FromParsed(const Json& json) {
  if (json.at("format").get<std::string>() != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest format is not ", kFormat, "; it was written by another version"));
  }
  Manifest manifest;
  manifest.total_bytes = json.at("total_bytes").get<int64_t>();
  manifest.metadata = json.value("metadata", std::map<std::string, std::string>());
  for (const Json& item : json.at("tensors")) {
    ManifestTensor tensor;
    tensor.name = item.at("name").get<std::string>();
    absl::StatusOr<DType> dtype = ParseDType(item.at("dtype").get<std::string>());
    if (!dtype.ok()) return Annotate(dtype.status(), absl::StrCat("tensor ", tensor.name));
    tensor.dtype = *dtype;
    tensor.shape = item.at("shape").get<std::vector<int64_t>>();
    for (const Json& piece : item.at("pieces")) tensor.pieces.push_back(PieceFromJson(piece));
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

}  // namespace

std::vector<PlacedBox> ManifestTensor::Placed(int buffer) const {
  std::vector<PlacedBox> placed;
  for (const ManifestPiece& piece : pieces) {
    placed.push_back({piece.box, buffer, piece.offset_bytes});
  }
  return placed;
}

Manifest Manifest::Whole(absl::Span<const TensorEntry> entries, int64_t data_offset,
                         int64_t file_size) {
  Manifest manifest;
  manifest.total_bytes = file_size;
  for (const TensorEntry& entry : entries) {
    manifest.tensors.push_back(
        {entry.name,
         entry.dtype,
         entry.shape,
         {{Box::Full(entry.shape), data_offset + entry.begin, entry.size_bytes(), ""}}});
  }
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const ManifestTensor& a, const ManifestTensor& b) { return a.name < b.name; });
  return manifest;
}

const ManifestTensor* Manifest::Find(absl::string_view name) const {
  const auto it = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const ManifestTensor& tensor, absl::string_view key) {
                                     return absl::string_view(tensor.name) < key;
                                   });
  return it != tensors.end() && absl::string_view(it->name) == name ? &*it : nullptr;
}

absl::Status Manifest::Validate() const {
  if (total_bytes < 0) return absl::InvalidArgumentError("total_bytes is negative");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ManifestTensor& tensor = tensors[i];
    if (i > 0 && tensors[i - 1].name >= tensor.name) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " is there twice or not in order"));
    }
    absl::StatusOr<int64_t> whole = TensorSizeBytes(tensor.dtype, tensor.shape);
    if (!whole.ok()) return Annotate(whole.status(), absl::StrCat("tensor ", tensor.name));
    for (const ManifestPiece& piece : tensor.pieces) {
      if (absl::Status status = CheckPiece(tensor, piece, total_bytes); !status.ok()) {
        return Annotate(status, absl::StrCat("tensor ", tensor.name));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Manifest::CheckComplete() const {
  for (const ManifestTensor& tensor : tensors) {
    std::vector<Box> missing;
    if (Box::Full(tensor.shape).volume() > 0) missing.push_back(Box::Full(tensor.shape));
    for (const ManifestPiece& piece : tensor.pieces) {
      std::vector<Box> rest;
      for (const Box& box : missing) {
        for (Box& part : Subtract(box, piece.box)) rest.push_back(std::move(part));
      }
      missing = std::move(rest);
    }
    if (!missing.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("tensor ", tensor.name, ": ", missing[0].ToString(), " is missing"));
    }
  }
  return absl::OkStatus();
}

std::string Manifest::ToJson() const {
  Json tensors_json = Json::array();
  for (const ManifestTensor& tensor : tensors) {
    Json pieces = Json::array();
    for (const ManifestPiece& piece : tensor.pieces) pieces.push_back(PieceToJson(piece));
    tensors_json.push_back({{"name", tensor.name},
                            {"dtype", std::string(DTypeName(tensor.dtype))},
                            {"shape", tensor.shape},
                            {"pieces", std::move(pieces)}});
  }
  const Json json = {{"format", kFormat},
                     {"total_bytes", total_bytes},
                     {"metadata", metadata},
                     {"tensors", std::move(tensors_json)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Manifest> Manifest::FromJson(absl::string_view text) {
  try {
    absl::StatusOr<Manifest> manifest = FromParsed(Json::parse(text.begin(), text.end()));
    if (!manifest.ok()) return manifest.status();
    BATON_RETURN_IF_ERROR(manifest->Validate());
    return manifest;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("malformed manifest: ", error.what()));
  }
}

}  // namespace baton::relay
