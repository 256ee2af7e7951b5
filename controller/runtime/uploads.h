// The files that users upload: `<data root>/files/PROJECT/SHA256/NAME`, addressed by content within
// a project, and counted towards its quota.
//
// Thread-safe. All methods block on the disk; the lock is held for calls of the file system that
// change names, and never while bytes are written or synced.
#ifndef BATON_CONTROLLER_RUNTIME_UPLOADS_H_
#define BATON_CONTROLLER_RUNTIME_UPLOADS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "controller/runtime/named_uploads.h"

namespace baton::controller {

class Uploads {
 public:
  /// The most bytes that files of a project may have together; 0: no limit. Called with no lock.
  using LimitOf = std::function<int64_t(const std::string& project)>;

  Uploads(std::string data_root, LimitOf limit_of);

  /// Makes the folder, deletes what an earlier process had received in part, and counts the rest.
  /// The first call, before others. FAILED_PRECONDITION: the folder cannot be made.
  absl::Status Open();

  /// A file that is being received. Given up when it is destroyed before Keep. Of one thread at a
  /// time; outlived by its Uploads.
  class Incoming {
   public:
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    /// RESOURCE_EXHAUSTED: QUOTA_UPLOADS; FILE_TOO_LARGE; DISK_FULL.
    absl::Status Append(absl::string_view data);
    /// Gives the file its name, which survives a power cut, and answers its path relative to the
    /// data root. The same content under the same name takes no more space, and is young again.
    /// The last call. `expected`: DATA_LOSS when the content has another SHA-256 (in hexadecimal;
    /// empty: any). RESOURCE_EXHAUSTED as above.
    absl::StatusOr<std::string> Keep(absl::string_view expected = "");
    int64_t size_bytes() const;

   private:
    friend class Uploads;
    struct File;
    explicit Incoming(std::unique_ptr<File> file);
    const std::unique_ptr<File> file_;
  };

  /// Begins a file of `project`, which is a valid id, under the last part of `name`.
  std::unique_ptr<Incoming> Receive(const std::string& project, const std::string& name);

  /// Keeps a copy of `source`, a regular file, as an upload of `project`; answers its path. Its
  /// bytes are checked as they are copied: `hash` is the SHA-256 that they must have, or the
  /// XXH3-128 of an earlier release, in hexadecimal; other texts are no hashes. DATA_LOSS; and as
  /// Append.
  absl::StatusOr<std::string> Copy(const std::filesystem::path& source, const std::string& project,
                                   const std::string& hash);

  /// Makes an upload young again, if there is one at `path`, relative to the data root.
  bool Touch(const std::string& path);

  struct Removed {
    int64_t files = 0;
    int64_t bytes = 0;
  };
  /// Removes what `named` does not have and nobody has received or touched since `young`, and
  /// counts anew what stays. Only files whose path is one of an upload are ever removed. A file
  /// that is received or touched meanwhile stays. Ends early once `stop` says so.
  Removed RemoveUnnamed(const NamedUploads& named, absl::Time young,
                        const std::function<bool()>& stop);

  /// The bytes that the project's files count for.
  int64_t UsedBytes(const std::string& project) const;

  /// The most bytes of one file.
  static constexpr int64_t kMaxFileBytes = int64_t{4} << 30;
  /// What a file counts for at least: it takes a folder and a name as well.
  static constexpr int64_t kMinCountedBytes = int64_t{64} << 10;

 private:
  struct Account {
    int64_t kept = 0;        // by all files, each as it counts
    int64_t reserved = 0;    // by files that are being received
    int64_t unreserved = 0;  // by such that may turn out to be kept already
    int64_t largest = 0;     // no kept file has more bytes
  };

  absl::Status Reserve(Incoming::File* file, int64_t bytes);
  void Release(Incoming::File* file);
  absl::StatusOr<std::string> Name(Incoming::File* file, const std::string& content);
  int64_t RemoveIfOld(const std::string& path, const std::string& project, absl::Time young);
  std::string Absolute(const std::string& path) const { return data_root_ + "/" + path; }

  const std::string data_root_;
  const std::string folder_;
  const LimitOf limit_of_;

  mutable absl::Mutex mu_;
  std::map<std::string, Account> accounts_ ABSL_GUARDED_BY(mu_);  // by project
  uint64_t names_given_ ABSL_GUARDED_BY(mu_) = 0;                 // grows with every kept file
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_UPLOADS_H_
