#include "workers/policy/weights_relay.h"

#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "relay/client/relay_client.h"
#include "relay/segment/shared_file.h"
#include "relay/weights/file_io.h"
#include "relay/weights/mapped_file.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/status_macros.h"

namespace baton::policy {
namespace {

namespace fs = std::filesystem;

using Use = absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)>;

constexpr absl::Duration kWait = absl::Seconds(1);
constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

/// Repeats `call` while the relay cannot be reached.
absl::Status WhileUnavailable(const absl::Notification& cancelled,
                              absl::FunctionRef<absl::Status()> call) {
  const absl::Time give_up = BootNow() + kPatience;
  bool told = false;
  if (cancelled.HasBeenNotified()) return absl::CancelledError("cancelled before it began");
  while (true) {
    const absl::Status status = call();
    // A relay that stops cancels its calls; this one was not cancelled here.
    const bool stops = absl::IsCancelled(status) && !cancelled.HasBeenNotified();
    if (!absl::IsUnavailable(status) && !stops) return status;
    if (BootNow() >= give_up) {
      return Annotate(status, absl::StrCat("not reached for ", absl::FormatDuration(kPatience),
                                           "; is baton-relay running?"));
    }
    if (!std::exchange(told, true)) {
      Log(LogLevel::kWarn, "the relay cannot be reached yet",
          {{"error", std::string(status.message())}});
    }
    if (cancelled.WaitForNotificationWithTimeout(kRetryDelay)) {
      return absl::CancelledError("no caller waits for it any more");
    }
  }
}

/// NotFound unless the file that a ticket names is the version of this layout.
absl::Status CheckHeader(absl::Span<const uint8_t> bytes, const relay::SafetensorsLayout& layout) {
  const std::string& header = layout.header();
  const bool same =
      bytes.size() >= header.size() && std::memcmp(bytes.data(), header.data(), header.size()) == 0;
  return same ? absl::OkStatus() : absl::NotFoundError("the file there is another version");
}

/// What a publisher has begun for a job, sealed or not: what Forget drops.
class BegunSegments {
 public:
  void Add(const Publication& what, const std::string& segment) {
    absl::MutexLock lock(&mu_);
    OfJob& mine = jobs_[what.job];
    mine.capability = what.capability;
    mine.segments.push_back(segment);
    if (mine.segments.size() > kRemembered) mine.segments.pop_front();
  }

  struct OfJob {
    std::deque<std::string> segments;
    std::string capability;
  };
  OfJob Take(const std::string& job) {
    absl::MutexLock lock(&mu_);
    OfJob mine = std::exchange(jobs_[job], {});
    jobs_.erase(job);
    return mine;
  }

 private:
  static constexpr size_t kRemembered = 16;  // more than any relay keeps of a job
  absl::Mutex mu_;
  std::map<std::string, OfJob> jobs_ ABSL_GUARDED_BY(mu_);
};

/// A segment of a relay.
class SegmentVersion : public VersionWriter {
 public:
  explicit SegmentVersion(std::unique_ptr<relay::SegmentWriter> writer)
      : writer_(std::move(writer)) {}

  std::string ticket() const override {
    return absl::StrCat(writer_->place().segment_id, " ", writer_->place().path);
  }
  absl::Span<uint8_t> bytes() override { return writer_->bytes(); }
  absl::Status Commit(int writer, absl::Span<const relay::TensorBox> boxes) override {
    const absl::Status status = writer_->Commit(writer, boxes);
    // A relay that has gone takes its segments along.
    return absl::IsUnavailable(status) ? absl::NotFoundError(status.message()) : status;
  }
  absl::Status Seal(const absl::Notification& cancelled) override {
    return WhileUnavailable(cancelled, [&]() { return writer_->Seal().status(); });
  }

 private:
  const std::unique_ptr<relay::SegmentWriter> writer_;
};

class ProcessRelay : public WeightsRelay {
 public:
  ProcessRelay(std::unique_ptr<relay::RelayClient> client, std::string holder)
      : client_(std::move(client)), holder_(std::move(holder)) {}

  absl::StatusOr<std::unique_ptr<VersionWriter>> Begin(
      const Publication& what, const relay::SafetensorsLayout& layout, int writers,
      const absl::Notification& cancelled) override {
    relay::PublishOptions options;
    options.job = what.job;
    options.policy_version = what.version;
    options.header = layout.header();
    options.size_bytes = layout.file_size();
    options.world_size = writers;
    options.fork = what.fork;
    options.capability = what.capability;
    options.job_uid = what.job_uid;
    options.keep_versions = what.keep_versions;
    std::unique_ptr<relay::SegmentWriter> writer;
    BATON_RETURN_IF_ERROR(WhileUnavailable(cancelled, [&]() -> absl::Status {
      BATON_ASSIGN_OR_RETURN(writer, client_->Begin(options));
      return absl::OkStatus();
    }));
    // Now, and not once it is sealed: a version that never is would keep its memory.
    if (!Mutant("unsealed-segment-kept")) begun_.Add(what, writer->place().segment_id);
    return std::make_unique<SegmentVersion>(std::move(writer));
  }

  absl::StatusOr<std::unique_ptr<VersionWriter>> Join(
      const Publication& what, const std::string& ticket,
      const relay::SafetensorsLayout& layout) override {
    const std::pair<std::string, std::string> place =
        absl::StrSplit(ticket, absl::MaxSplits(' ', 1));
    BATON_ASSIGN_OR_RETURN(auto writer, client_->Join({place.first, place.second},
                                                      layout.file_size(), what.capability));
    BATON_RETURN_IF_ERROR(CheckHeader(writer->bytes(), layout));
    return std::make_unique<SegmentVersion>(std::move(writer));
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
    const BegunSegments::OfJob mine = begun_.Take(job);
    if (mine.segments.empty()) return;
    // A relay that is gone has forgotten them too.
    client_->Drop({mine.segments.begin(), mine.segments.end()}, mine.capability).IgnoreError();
  }

 private:
  const std::unique_ptr<relay::RelayClient> client_;
  const std::string holder_;
  BegunSegments begun_;
};

/// A file that is renamed to its place when it is sealed. `file` is that of the writer that began.
class FileVersion : public VersionWriter {
 public:
  FileVersion(std::optional<relay::AtomicFile> file, std::unique_ptr<relay::SharedFile> mapped,
              std::function<void()> sealed)
      : file_(std::move(file)), mapped_(std::move(mapped)), sealed_(std::move(sealed)) {}

  std::string ticket() const override { return file_->temporary(); }
  absl::Span<uint8_t> bytes() override { return mapped_->bytes(); }
  absl::Status Commit(int /*writer*/, absl::Span<const relay::TensorBox> /*boxes*/) override {
    mapped_.reset();
    return absl::OkStatus();
  }
  absl::Status Seal(const absl::Notification& /*cancelled*/) override {
    BATON_RETURN_IF_ERROR(file_->Commit());
    sealed_();
    return absl::OkStatus();
  }

 private:
  std::optional<relay::AtomicFile> file_;
  std::unique_ptr<relay::SharedFile> mapped_;
  const std::function<void()> sealed_;
};

class FolderRelay : public WeightsRelay {
 public:
  explicit FolderRelay(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::unique_ptr<VersionWriter>> Begin(
      const Publication& what, const relay::SafetensorsLayout& layout, int /*writers*/,
      const absl::Notification& /*cancelled*/) override {
    const uint64_t version = what.version;
    const fs::path path = PathOf({what.job, version, what.job_uid});
    const fs::path folder = path.parent_path();
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("make folder ", folder.string(), ": ", error.message()));
    }
    if (what.fork) Remove(folder, [version](uint64_t other) { return other >= version; });
    if (fs::exists(path, error)) {
      return absl::AlreadyExistsError(absl::StrCat(path.string(), " is published already"));
    }
    BATON_ASSIGN_OR_RETURN(auto file, relay::AtomicFile::Create(path.string()));
    BATON_RETURN_IF_ERROR(file.Reserve(layout.file_size()));
    BATON_ASSIGN_OR_RETURN(auto mapped, Map(file.temporary(), layout));
    layout.WriteHeader(mapped->bytes());
    return std::make_unique<FileVersion>(
        std::move(file), std::move(mapped), [folder, version, keep = what.keep_versions] {
          Remove(folder, [&](uint64_t other) {
            return other + kKeep <= version && !absl::c_linear_search(keep, other);
          });
        });
  }

  absl::StatusOr<std::unique_ptr<VersionWriter>> Join(
      const Publication& /*what*/, const std::string& ticket,
      const relay::SafetensorsLayout& layout) override {
    BATON_ASSIGN_OR_RETURN(auto mapped, Map(ticket, layout));
    BATON_RETURN_IF_ERROR(CheckHeader(mapped->bytes(), layout));
    return std::make_unique<FileVersion>(std::nullopt, std::move(mapped), nullptr);
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

  static absl::StatusOr<std::unique_ptr<relay::SharedFile>> Map(
      const std::string& path, const relay::SafetensorsLayout& layout) {
    return relay::SharedFile::Open(path, static_cast<uint64_t>(layout.file_size()));
  }

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
