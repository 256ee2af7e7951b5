#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "relay/weights/mapped_file.h"
#include "sdk/base/status_macros.h"
#include "workers/policy/weights_relay.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

class FolderRelay : public WeightsRelay {
 public:
  FolderRelay(std::string folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  absl::Status Publish(const std::string& job, uint64_t version,
                       const engine::WeightsImage& image) override {
    const std::string path = PathOf(job, version);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error)
      return absl::InternalError(absl::StrCat("make folder ", path, ": ", error.message()));
    if (fs::exists(path, error)) return CheckSame(path, image);
    BATON_RETURN_IF_ERROR(image.WriteFile(path));
    RemoveOld(fs::path(path).parent_path().string());
    return absl::OkStatus();
  }

  absl::Status Load(const std::string& job, uint64_t version,
                    absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> use) override {
    BATON_ASSIGN_OR_RETURN(const auto file, relay::MappedFile::Open(PathOf(job, version)));
    return use(file.bytes());
  }

 private:
  std::string PathOf(const std::string& job, uint64_t version) const {
    return absl::StrCat(folder_, "/", absl::StrReplaceAll(job, {{"/", "_"}}), "/", version,
                        ".safetensors");
  }

  static absl::Status CheckSame(const std::string& path, const engine::WeightsImage& image) {
    BATON_ASSIGN_OR_RETURN(const auto file, relay::MappedFile::Open(path));
    std::vector<uint8_t> bytes(static_cast<size_t>(image.size_bytes()));
    BATON_RETURN_IF_ERROR(image.CopyTo(absl::MakeSpan(bytes)));
    if (bytes.size() == file.bytes().size() &&
        std::memcmp(bytes.data(), file.bytes().data(), bytes.size()) == 0) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(absl::StrCat(path, " exists with other weights"));
  }

  void RemoveOld(const std::string& folder) const {
    std::map<uint64_t, fs::path> versions;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      uint64_t version = 0;
      if (absl::SimpleAtoi(entry.path().stem().string(), &version))
        versions[version] = entry.path();
    }
    while (static_cast<int>(versions.size()) > keep_) {
      fs::remove(versions.begin()->second, error);
      versions.erase(versions.begin());
    }
  }

  const std::string folder_;
  const int keep_;
};

}  // namespace

std::unique_ptr<WeightsRelay> MakeFolderRelay(std::string folder, int keep) {
  return std::make_unique<FolderRelay>(std::move(folder), keep);
}

}  // namespace baton::policy
