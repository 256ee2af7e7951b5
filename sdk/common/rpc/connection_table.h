// The table of a server's connections, which decides who may hold them.
#ifndef BATON_SDK_COMMON_RPC_CONNECTION_TABLE_H_
#define BATON_SDK_COMMON_RPC_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

/// The open connections of one listening address: how many there are, and of whom. gRPC owns and
/// closes them, and tells nobody; so an entry counts as long as its descriptor still names its
/// socket (fstat).
///
/// A connection is a stranger until one of its calls has shown who calls (Know). Strangers never
/// keep anybody out: the oldest one of the address that has most of them makes room for the next
/// connection. Known connections are never closed; they are limited by project.
///
/// Thread-safe. Does not block.
class ConnectionTable {
 public:
  /// At most `max` connections: half of them strangers of one address, a quarter known ones of one
  /// project, seven eighths known ones together. So the last eighth is for strangers (each
  /// connection begins as one; probes of health stay so), for workers and for administrators.
  explicit ConnectionTable(int max);

  /// Takes a connection in; the caller then gives `fd` to gRPC. False: there is no room even after
  /// the oldest stranger was closed; the caller closes `fd`.
  bool Enter(int fd);

  /// A call over the connection from `peer` (as gRPC names it, "ipv4:127.0.0.1:4711") has shown
  /// that it is of this project ("*": of all). `reserved`: it may use the last eighth.
  /// RESOURCE_EXHAUSTED (CONNECTIONS): the project has too many.
  absl::Status Know(const std::string& peer, const std::string& project, bool reserved);

  struct Counts {
    int open = 0;
    uint64_t strangers_closed = 0, refused = 0;  ///< Totals so far.
  };

  int max() const { return max_; }
  /// Looks at each connection.
  Counts counts();
  int size() { return counts().open; }

 private:
  struct Entry {
    ino_t socket = 0;     // what the descriptor named when it was taken in
    uint64_t number = 0;  // in the order of arrival
    std::string peer;     // as gRPC names it
    std::string address;  // of the peer, without its port
    std::string project;  // empty: a stranger
  };
  using Entries = std::unordered_map<int, Entry>;  // by descriptor

  static bool IsOpen(int fd, const Entry& entry);
  void ForgetStranger(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TooMany(const std::string& project, bool reserved) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool CloseStrangerOf(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool CloseStranger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int StrangersOf(const std::string& address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Report(const std::string& address, bool refused) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int max_, max_strangers_, max_of_project_, max_known_;

  absl::Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mu_);  // to the descriptor
  // Address -> its strangers, number -> descriptor: the oldest first.
  std::map<std::string, std::map<uint64_t, int>> strangers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> known_ ABSL_GUARDED_BY(mu_);  // by project
  int all_known_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time looked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();    // at all entries
  absl::Time reported_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();  // in the log
  uint64_t closed_ ABSL_GUARDED_BY(mu_) = 0, refused_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_CONNECTION_TABLE_H_
