#include "workers/policy/weights_relay.h"

#include <deque>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "relay/client/relay_client.h"
#include "relay/weights/mapped_file.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

using Use = absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)>;

class ProcessRelay : public WeightsRelay {
 public:
  ProcessRelay(std::unique_ptr<relay::RelayClient> client, std::string holder)
      : client_(std::move(client)), holder_(std::move(holder)) {}

  absl::Status Publish(const Publication& what, const engine::WeightsImage& image,
                       const absl::Notification& cancelled) override {
    relay::PublishOptions options;
    options.job = what.job;
    options.policy_version = what.version;
    options.header = image.layout().header();
    options.size_bytes = image.size_bytes();
    options.fork = what.fork;
    options.capability = what.capability;
    options.job_uid = what.job_uid;
    int tries = 0;
    return WhileUnavailable(cancelled, [&]() -> absl::Status {
      const auto segment = client_->Publish(
          options, [&image](absl::Span<uint8_t> bytes) { return image.CopyTo(bytes); });
      // Only the answer to the try before this one was lost.
      if (++tries > 1 && absl::IsAlreadyExists(segment.status())) return absl::OkStatus();
      BATON_RETURN_IF_ERROR(segment.status());
      absl::MutexLock lock(&mu_);
      Published& mine = published_[options.job];
      mine.capability = options.capability;
      mine.segments.push_back(segment->segment_id());
      if (mine.segments.size() > kRemembered) mine.segments.pop_front();
      return absl::OkStatus();
    });
  }

  absl::Status Load(const Version& what, const absl::Notification& cancelled, Use use) override {
    relay::AcquireOptions options;
    options.job = what.job;
    options.job_uid = what.job_uid;
    options.policy_version = what.version;
    options.holder = holder_;
    options.wait = kWait;
    std::unique_ptr<relay::LeasedSegment> segment;
    BATON_RETURN_IF_ERROR(WhileUnavailable(cancelled, [&]() -> absl::Status {
      BATON_ASSIGN_OR_RETURN(segment, client_->Acquire(options));
      return absl::OkStatus();
    }));
    return use(segment->bytes());
  }

  void Forget(const std::string& job) override {
    Published mine;
    {
      absl::MutexLock lock(&mu_);
      mine = std::exchange(published_[job], {});
      published_.erase(job);
    }
    if (mine.segments.empty()) return;
    // A relay that is gone has forgotten them too.
    client_->Drop({mine.segments.begin(), mine.segments.end()}, mine.capability).IgnoreError();
  }

 private:
  static constexpr absl::Duration kWait = absl::Seconds(1);
  static constexpr absl::Duration kPatience = absl::Minutes(1);
  static constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);
  static constexpr size_t kRemembered = 16;  // more than any relay keeps of a job

  struct Published {
    std::deque<std::string> segments;
    std::string capability;
  };

  /// Repeats `call` while the relay cannot be reached.
  static absl::Status WhileUnavailable(const absl::Notification& cancelled,
                                       absl::FunctionRef<absl::Status()> call) {
    const absl::Time give_up = absl::Now() + kPatience;
    bool told = false;
    if (cancelled.HasBeenNotified()) return absl::CancelledError("cancelled before it began");
    while (true) {
      const absl::Status status = call();
      if (!absl::IsUnavailable(status)) return status;
      if (absl::Now() >= give_up) {
        return Annotate(status, absl::StrCat("not reached for ", absl::FormatDuration(kPatience),
                                             "; is baton-relay running?"));
      }
      if (!std::exchange(told, true)) {
        Log(LogLevel::kWarn, "the relay cannot be reached yet",
            {{"error", std::string(status.message())}});
      }
      if (cancelled.WaitForNotificationWithTimeout(kRetryDelay)) {
        return absl::CancelledError("nobody waits for it any more");
      }
    }
  }

  const std::unique_ptr<relay::RelayClient> client_;
  const std::string holder_;
  absl::Mutex mu_;
  std::map<std::string, Published> published_ ABSL_GUARDED_BY(mu_);  // by job
};

class FolderRelay : public WeightsRelay {
 public:
  explicit FolderRelay(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Publish(const Publication& what, const engine::WeightsImage& image,
                       const absl::Notification& /*cancelled*/) override {
    const uint64_t version = what.version;
    const fs::path path = PathOf({what.job, version, what.job_uid});
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("make folder ", path.parent_path().string(), ": ", error.message()));
    }
    if (what.fork)
      Remove(path.parent_path(), [version](uint64_t other) { return other >= version; });
    if (fs::exists(path, error)) {
      return absl::AlreadyExistsError(absl::StrCat(path.string(), " is published already"));
    }
    BATON_RETURN_IF_ERROR(image.WriteFile(path.string()));
    Remove(path.parent_path(), [version](uint64_t other) { return other + kKeep <= version; });
    return absl::OkStatus();
  }

  absl::Status Load(const Version& what, const absl::Notification& /*cancelled*/,
                    Use use) override {
    BATON_ASSIGN_OR_RETURN(const auto file, relay::MappedFile::Open(PathOf(what).string()));
    return use(file.bytes());
  }

  void Forget(const std::string& job) override {
    // Under whatever uid.
    const std::string name = FolderOf(job);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      const std::string found = entry.path().filename().string();
      std::error_code ignored;
      if (found == name || absl::StartsWith(found, name + "#")) fs::remove_all(entry, ignored);
    }
  }

 private:
  static constexpr uint64_t kKeep = 3;

  // "job-": no name is that of the folder itself, or of the one above.
  static std::string FolderOf(const std::string& job) {
    return absl::StrCat("job-", absl::StrReplaceAll(job, {{"/", "_"}}));
  }
  fs::path PathOf(const Version& what) const {
    return absl::StrCat(folder_, "/", FolderOf(what.job), what.job_uid.empty() ? "" : "#",
                        what.job_uid, "/", what.version, ".safetensors");
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
