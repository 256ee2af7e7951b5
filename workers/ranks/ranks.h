// The ranks with which a role shares its model and its batches.
#ifndef BATON_WORKERS_RANKS_RANKS_H_
#define BATON_WORKERS_RANKS_RANKS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/parallel/rank_layout.h"
#include "workers/engine/model/communicator.h"
#include "workers/hybrid/hybrid_engine.h"

namespace baton::ranks {

/// This rank's place and its ends of the groups (workers/parallel/rank_groups.h). A role that is
/// played alone has no groups, and computes the same bits as a program without them.
class Ranks {
 public:
  /// Joins the groups that an assign_role task names; blocks until all ranks are there. `host`: the
  /// name by which they reach this machine; empty: as its host name resolves. Errors as
  /// RankGroups::Join, and UNIMPLEMENTED for several ranks in a build without Gloo.
  static absl::StatusOr<std::unique_ptr<Ranks>> Join(const v1::Task& task, const std::string& host,
                                                     std::function<bool()> cancelled);
  virtual ~Ranks() = default;

  /// Null for a size of 1.
  virtual engine::Communicator* tensor_group() const { return nullptr; }
  virtual engine::Communicator* data_group() const { return nullptr; }
  /// Further ends, to generate with `layout(generation_tp)`. All ranks call this. Errors as
  /// hybrid::JoinLedHybridGroups.
  virtual absl::StatusOr<hybrid::HybridGroups> JoinHybrid(int generation_tp) {
    return hybrid::HybridGroups();
  }
  /// The ranks of `tensor_group` once more, where the first of them leads (score_loop.h); null for
  /// a size of 1. All ranks call this, once; the group must not outlive this. Errors as
  /// parallel::RankGroups::NewGroup.
  virtual absl::StatusOr<std::unique_ptr<engine::Communicator>> JoinControl() { return nullptr; }
  RankLayout layout(int generation_tp) const { return {1, tp_, dp_, 1, generation_tp}; }

  int rank() const { return rank_; }
  /// One rank speaks for the group: it writes files and publishes.
  bool first() const { return rank_ == 0; }
  /// True on the ranks that together hold the copy of the model which is written.
  bool writes_model() const { return rank_ / tp_ == 0; }

 protected:
  int rank_ = 0;
  int tp_ = 1;
  int dp_ = 1;
};

/// A store where ranks may meet whose rank 0 this process is. `address` is "tcp://HOST:PORT".
class GroupStore {
 public:
  /// `host`: how other workers reach this machine. Null in a build without Gloo. UNAVAILABLE: the
  /// machine has no port left.
  static absl::StatusOr<std::unique_ptr<GroupStore>> Start(const std::string& host);
  virtual ~GroupStore() = default;
  virtual const std::string& address() const = 0;
};

}  // namespace baton::ranks

#endif  // BATON_WORKERS_RANKS_RANKS_H_
