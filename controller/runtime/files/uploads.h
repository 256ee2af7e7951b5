// The files that users upload: `<data root>/files/PROJECT/SHA256/NAME`, addressed by content within
// a project, and counted towards its quota.
//
// Thread-safe. All methods block on the disk. The lock is held during calls that change names in
// the file system, but never while bytes are written or synced.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_UPLOADS_H_
#define BATON_CONTROLLER_RUNTIME_FILES_UPLOADS_H_

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
#include "controller/runtime/files/named_uploads.h"

namespace baton::controller {

class Uploads {
 public:
  /// Returns the most bytes that files of a project may have together; 0: no limit. Called without
  /// a lock.
  using LimitOf = std::function<int64_t(const std::string& project)>;

  Uploads(std::string data_root, LimitOf limit_of);

  /// The first call. Makes the folder, deletes files that an earlier process received only in part,
  /// and counts the rest. FAILED_PRECONDITION: the folder cannot be made.
  absl::Status Open();

  /// A file that is being received. It is given up when it is destroyed before Keep. Used by one
  /// thread at a time; its Uploads outlives it.
  class Incoming {
   public:
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    /// RESOURCE_EXHAUSTED: QUOTA_UPLOADS; FILE_TOO_LARGE; DISK_FULL.
    absl::Status Append(absl::string_view data);
    /// The last call. Gives the file its name, which then survives a power cut, and returns its
    /// path relative to the data root. The same content under the same name takes no more space,
    /// and its age starts again. `expected`: DATA_LOSS if the content has another SHA-256 (in
    /// hexadecimal; empty: any). RESOURCE_EXHAUSTED as above.
    absl::StatusOr<std::string> Keep(absl::string_view expected = "");
    int64_t size_bytes() const;

   private:
    friend class Uploads;
    struct File;
    explicit Incoming(std::unique_ptr<File> file);
    const std::unique_ptr<File> file_;
  };

  /// Bytes of a project's limit that are reserved for files that may become its uploads. The
  /// destructor releases the rest. Used by one thread at a time; its Uploads outlives it.
  class Room {
   public:
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    /// The largest number if the project has no limit.
    uint64_t bytes() const;
    /// Releases all but `bytes` bytes.
    void Shrink(uint64_t bytes);

   private:
    friend class Uploads;
    Room(Uploads* uploads, std::string project);
    Uploads* const uploads_;
    const std::string project_;
    bool limited_ = true;
    int64_t reserved_ = 0, unreserved_ = 0;  // its part of the project's account
  };
  /// Reserves `wanted` bytes for `project`, or as many as are left. If the project's largest file
  /// has more bytes than are left, reserves up to that size instead, because the new file may have
  /// the same content.
  std::unique_ptr<Room> Hold(const std::string& project, uint64_t wanted);

  /// Begins a file of `project`, which is a valid id. Its name is the last part of `name`.
  std::unique_ptr<Incoming> Receive(const std::string& project, const std::string& name);

  /// Keeps a copy of `source`, a regular file, as an upload of `project`, and returns its path. The
  /// bytes are checked while they are copied: `hash` is their SHA-256 in hexadecimal; other texts
  /// are not hashes. Bytes of `room`, of this project, are used first. DATA_LOSS; other errors as
  /// Append.
  absl::StatusOr<std::string> Copy(const std::filesystem::path& source, const std::string& project,
                                   const std::string& hash, Room* room = nullptr);

  /// Restarts the age of an upload, if there is one at `path`, relative to the data root.
  bool Touch(const std::string& path);

  struct Removed {
    int64_t files = 0;
    int64_t bytes = 0;
  };
  /// Removes uploads that `named` does not contain and that were neither received nor touched since
  /// `young`, and counts the rest again. Removes only files whose path is that of an upload. A file
  /// that is received or touched meanwhile stays. Ends early once `stop` answers true.
  Removed RemoveUnnamed(const NamedUploads& named, absl::Time young,
                        const std::function<bool()>& stop);

  /// The bytes that the project's files count for.
  int64_t UsedBytes(const std::string& project) const;

  /// The most bytes of one file.
  static constexpr int64_t kMaxFileBytes = int64_t{4} << 30;
  /// The least that a file counts for, because it also needs a folder and a name.
  static constexpr int64_t kMinCountedBytes = int64_t{64} << 10;

 private:
  struct Account {
    int64_t kept = 0;        // of all files, as they count
    int64_t reserved = 0;    // of files that are being received, and of rooms
    int64_t unreserved = 0;  // of files that may turn out to exist already
    int64_t largest = 0;     // size of the largest kept file
  };

  absl::Status Reserve(Incoming::File* file, int64_t bytes);
  void Release(const std::string& project, int64_t reserved, int64_t unreserved);
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

#endif  // BATON_CONTROLLER_RUNTIME_FILES_UPLOADS_H_
