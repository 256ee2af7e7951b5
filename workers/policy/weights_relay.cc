#include "workers/policy/weights_relay.h"

#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "relay/client/relay_client.h"
#include "relay/weights/mapped_file.h"
#include "sdk/base/status_macros.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

using Use = absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)>;

class ProcessRelay : public WeightsRelay {
 public:
  ProcessRelay(std::unique_ptr<relay::RelayClient> client, std::string holder)
      : client_(std::move(client)), holder_(std::move(holder)) {}

  absl::Status Publish(const std::string& job, uint64_t version, const engine::WeightsImage& image,
                       bool fork) override {
    relay::PublishOptions options;
    options.job = job;
    options.policy_version = version;
    options.header = image.layout().header();
    options.size_bytes = image.size_bytes();
    options.fork = fork;
    return client_
        ->Publish(options, [&image](absl::Span<uint8_t> bytes) { return image.CopyTo(bytes); })
        .status();
  }

  absl::Status Load(const std::string& job, uint64_t version, Use use) override {
    relay::AcquireOptions options;
    options.job = job;
    options.policy_version = version;
    options.holder = holder_;
    options.wait = kWait;
    BATON_ASSIGN_OR_RETURN(const auto segment, client_->Acquire(options));
    return use(segment->bytes());
  }

 private:
  static constexpr absl::Duration kWait = absl::Seconds(10);

  const std::unique_ptr<relay::RelayClient> client_;
  const std::string holder_;
};

class FolderRelay : public WeightsRelay {
 public:
  explicit FolderRelay(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Publish(const std::string& job, uint64_t version, const engine::WeightsImage& image,
                       bool fork) override {
    const fs::path path = PathOf(job, version);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("make folder ", path.parent_path().string(), ": ", error.message()));
    }
    if (fork) Remove(path.parent_path(), [version](uint64_t other) { return other >= version; });
    if (fs::exists(path, error)) {
      return absl::AlreadyExistsError(absl::StrCat(path.string(), " is published already"));
    }
    BATON_RETURN_IF_ERROR(image.WriteFile(path.string()));
    Remove(path.parent_path(), [version](uint64_t other) { return other + kKeep <= version; });
    return absl::OkStatus();
  }

  absl::Status Load(const std::string& job, uint64_t version, Use use) override {
    BATON_ASSIGN_OR_RETURN(const auto file, relay::MappedFile::Open(PathOf(job, version).string()));
    return use(file.bytes());
  }

 private:
  static constexpr uint64_t kKeep = 3;

  fs::path PathOf(const std::string& job, uint64_t version) const {
    return absl::StrCat(folder_, "/", absl::StrReplaceAll(job, {{"/", "_"}}), "/", version,
                        ".safetensors");
  }

  static void Remove(const fs::path& folder, absl::FunctionRef<bool(uint64_t)> unwanted) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      uint64_t version = 0;
      if (absl::SimpleAtoi(entry.path().stem().string(), &version) && unwanted(version)) {
        fs::remove(entry.path(), error);
      }
    }
  }

  const std::string folder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightsRelay>> MakeWeightsRelay(const std::string& place,
                                                               const std::string& token,
                                                               const std::string& holder) {
  if (!place.empty() && place[0] == '/') return std::make_unique<FolderRelay>(place);
  relay::RelayClientOptions options;
  options.address = place;
  options.token = token;
  BATON_ASSIGN_OR_RETURN(auto client, relay::RelayClient::Create(std::move(options)));
  return std::make_unique<ProcessRelay>(std::move(client), holder);
}

}  // namespace baton::policy
