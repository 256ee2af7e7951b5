#include "controller/runtime/job_files/compare_files.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/files/file_hasher.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kComparedBlock = size_t{1} << 20;

// A file that is read from its beginning to its end.
class Reader {
 public:
  explicit Reader(const fs::path& path) : in_(path, std::ios::binary), block_(kComparedBlock) {}

  /// Reads the next block; false at the end, or when it cannot be read.
  bool Next() {
    in_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
    size_ = static_cast<size_t>(std::max<std::streamsize>(in_.gcount(), 0));
    hash_.Add(block_.data(), size_);
    bytes_ += static_cast<int64_t>(size_);
    return size_ > 0;
  }
  bool failed() const { return in_.bad(); }
  const char* data() const { return block_.data(); }
  size_t size() const { return size_; }
  int64_t bytes() const { return bytes_; }
  std::string Hash() const { return hash_.Digest(); }

 private:
  std::ifstream in_;
  std::vector<char> block_;
  FileHasher hash_;
  size_t size_ = 0;
  int64_t bytes_ = 0;
};

const v1::FileHash* Named(const std::vector<v1::FileHash>& files, const std::string& path) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const v1::FileHash& file) { return file.path() == path; });
  return found == files.end() ? nullptr : &*found;
}

// The damage of a side's file; "": it is as it was saved.
std::string Damage(const ComparedSide& side, const v1::FileHash& noted, const Reader& read) {
  if (read.failed()) return absl::StrCat(side.name, "'s file cannot be read to its end");
  if (read.Hash() == noted.xxh3()) return "";
  return absl::StrCat(side.name, "'s file is damaged: its ", read.bytes(), " bytes have XXH3 ",
                      read.Hash(), ", and ", noted.xxh3(), " was noted when it was saved");
}

// Why a side has no such file; "": it has one.
std::string Missing(const ComparedSide& side, const v1::FileHash* noted, const std::string& path) {
  if (noted == nullptr) return absl::StrCat(side.name, " has no such file");
  std::error_code code;
  if (StaysBelow(path) && fs::is_regular_file(side.folder / path, code)) return "";
  return absl::StrCat(side.name, "'s file is gone");
}

// Compares one file that both sides noted; returns the problem, or "".
absl::StatusOr<std::string> CompareOne(const ComparedSide& one, const ComparedSide& other,
                                       const std::string& path, Comparison* out,
                                       const std::function<bool()>& stop) {
  const v1::FileHash* const first = Named(one.files, path);
  const v1::FileHash* const second = Named(other.files, path);
  if (std::string missing = Missing(one, first, path); !missing.empty()) return missing;
  if (std::string missing = Missing(other, second, path); !missing.empty()) return missing;
  Reader left(one.folder / path), right(other.folder / path);
  int64_t differs = -1;  // the first byte
  for (bool more = true; more;) {
    if (stop && stop()) return absl::CancelledError("the controller stops");
    const int64_t at = left.bytes();
    const bool more_left = left.Next(), more_right = right.Next();
    more = more_left || more_right;
    if (differs >= 0) continue;
    const size_t both = std::min(left.size(), right.size());
    const auto unequal = std::mismatch(left.data(), left.data() + both, right.data()).first;
    if (unequal != left.data() + both || left.size() != right.size()) {
      differs = at + (unequal - left.data());
    }
  }
  if (std::string damage = Damage(one, *first, left); !damage.empty()) return damage;
  if (std::string damage = Damage(other, *second, right); !damage.empty()) return damage;
  if (differs >= 0) {
    return absl::StrCat("byte ", differs, " differs: ", one.name, "'s has XXH3 ", left.Hash(), ", ",
                        other.name, "'s ", right.Hash());
  }
  v1::ComparedFile& same = out->same.emplace_back();
  same.set_path(path);
  same.set_size_bytes(left.bytes());
  same.set_xxh3(left.Hash());
  return std::string();
}

}  // namespace

absl::StatusOr<Comparison> CompareFiles(const ComparedSide& one, const ComparedSide& other,
                                        const std::function<bool()>& stop) {
  std::vector<std::string> paths;
  for (const v1::FileHash& file : one.files) paths.push_back(file.path());
  for (const v1::FileHash& file : other.files) {
    if (Named(one.files, file.path()) == nullptr) paths.push_back(file.path());
  }
  Comparison out;
  for (const std::string& path : paths) {
    BATON_ASSIGN_OR_RETURN(const std::string wrong, CompareOne(one, other, path, &out, stop));
    if (wrong.empty()) continue;
    out.difference = absl::StrCat(path, ": ", wrong);
    break;
  }
  return out;
}

}  // namespace baton::controller
