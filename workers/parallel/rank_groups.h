// The groups of one role's ranks: processes that talk by libtorch's c10d (Gloo).
//
// Tensor-parallel ranks are consecutive: rank = data rank * tp + tensor rank. The tensor group of a
// rank holds one copy of the model together; its data group are the ranks that hold the same slice.
//
// Ranks meet at a store (StoreServer, or a file for one machine) under the role's group epoch: a
// group epoch never meets another one's ranks. Every wait has a timeout. A group in which a rank
// was lost or late cannot be repaired: it is destroyed, and the remaining ranks join the next
// group epoch.
#ifndef BATON_WORKERS_PARALLEL_RANK_GROUPS_H_
#define BATON_WORKERS_PARALLEL_RANK_GROUPS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "workers/engine/model/communicator.h"

namespace baton::parallel {

struct GroupAddress {
  std::string store;  ///< "tcp://HOST:PORT" (StoreServer::address) or "file:///PATH".
  std::string name;   ///< Name of the group, where groups share a store.
  uint64_t group_epoch = 0;
  int rank = 0;
  int tp = 1;
  int dp = 1;
  /// Limit of joining, and of each collective. A rank that is late by more is taken for lost.
  absl::Duration timeout = absl::Seconds(60);
  /// A name or address of this machine that the other ranks reach; empty: 127.0.0.1 when the store
  /// is a file or on it, else what the machine's host name resolves to.
  std::string host;
  /// Asked while the others are not there; true ends Join with Cancelled. May be empty.
  std::function<bool()> cancelled;

  int world_size() const { return tp * dp; }
  int tensor_rank() const { return rank % tp; }
  int data_rank() const { return rank / tp; }
};

/// The store where ranks find each other; any process may serve it, for any number of group epochs.
/// It must outlive the ranks' groups. It does not check its callers: serve it where only workers
/// reach it.
class StoreServer {
 public:
  /// `host`: how ranks reach this machine. Port 0: a free one. Unavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(const std::string& host, int port = 0);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// "tcp://HOST:PORT"
  const std::string& address() const { return address_; }

 private:
  struct Impl;
  StoreServer(std::unique_ptr<Impl> impl, std::string address);
  const std::unique_ptr<Impl> impl_;
  const std::string address_;
};

/// This rank's ends of its groups. One thread at a time. Communicators throw CollectiveError, whose
/// status is DeadlineExceeded after the timeout, else Unavailable (another rank is gone), and names
/// rank, group and operation.
class RankGroups {
 public:
  /// Blocks until all ranks are there. InvalidArgument for an address that makes no sense;
  /// DeadlineExceeded, which names the ranks that did not come, or Unavailable when the store or a
  /// rank cannot be reached in time; Cancelled. From then on the process ignores SIGPIPE, unless it
  /// handles it: Gloo writes to the sockets of ranks that may have died.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Join(const GroupAddress& address);
  ~RankGroups();
  RankGroups(const RankGroups&) = delete;
  RankGroups& operator=(const RankGroups&) = delete;

  const GroupAddress& address() const { return address_; }
  /// Null for a size of 1. They live as long as this.
  engine::Communicator* tensor_group() const { return tensor_group_.get(); }
  engine::Communicator* data_group() const { return data_group_.get(); }

  /// One more group, of these ranks in this order, all of which call this. `name` is theirs alone
  /// within the group epoch. Must not outlive this. InvalidArgument unless this rank is among them.
  absl::StatusOr<std::unique_ptr<engine::Communicator>> NewGroup(absl::string_view name,
                                                                 absl::Span<const int> ranks);

  /// The bytes that all groups made here have ever moved.
  engine::CollectiveBytes bytes() const;

 private:
  struct Impl;
  RankGroups(GroupAddress address, std::unique_ptr<Impl> impl);

  GroupAddress address_;
  const std::unique_ptr<Impl> impl_;
  std::unique_ptr<engine::Communicator> tensor_group_, data_group_;
};

}  // namespace baton::parallel

#endif  // BATON_WORKERS_PARALLEL_RANK_GROUPS_H_
