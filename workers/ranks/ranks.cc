#include "workers/ranks/ranks.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "sdk/common/base/status_macros.h"
#ifdef BATON_GLOO
#include "workers/parallel/rank_groups.h"
#endif

namespace baton::ranks {
namespace {

#ifdef BATON_GLOO
/// A rank that comes so much later than the others to a collective is taken for lost.
constexpr absl::Duration kRankTimeout = absl::Seconds(60);

class JoinedRanks : public Ranks {
 public:
  explicit JoinedRanks(std::unique_ptr<parallel::RankGroups> groups) : groups_(std::move(groups)) {
    rank_ = groups_->address().rank;
    tp_ = groups_->address().tp;
    dp_ = groups_->address().dp;
  }
  engine::Communicator* tensor_group() const override { return groups_->tensor_group(); }
  engine::Communicator* data_group() const override { return groups_->data_group(); }
  absl::StatusOr<hybrid::HybridGroups> JoinHybrid(int generation_tp) override {
    return hybrid::JoinLedHybridGroups(*groups_, layout(generation_tp));
  }
  absl::StatusOr<std::unique_ptr<engine::Communicator>> JoinControl() override {
    if (tp_ == 1) return nullptr;
    std::vector<int> ranks(static_cast<size_t>(tp_));
    std::iota(ranks.begin(), ranks.end(), rank_ / tp_ * tp_);
    return groups_->NewGroup(absl::StrCat("scores ", ranks[0]), ranks);
  }

 private:
  const std::unique_ptr<parallel::RankGroups> groups_;
};

class ServedStore : public GroupStore {
 public:
  explicit ServedStore(std::unique_ptr<parallel::StoreServer> server)
      : server_(std::move(server)) {}
  const std::string& address() const override { return server_->address(); }

 private:
  const std::unique_ptr<parallel::StoreServer> server_;
};
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<Ranks>> Ranks::Join(const v1::Task& task, const std::string& host,
                                                   std::function<bool()> cancelled) {
  const v1::AssignRole& assign = task.assign_role();
  if (assign.world_size() <= 1) return std::make_unique<Ranks>();
#ifdef BATON_GLOO
  const v1::Rendezvous& meet = assign.rendezvous();
  parallel::GroupAddress address;
  address.store = meet.store();
  address.name = meet.name();
  address.group_epoch = task.order().group_epoch();
  address.rank = assign.rank();
  address.tp = meet.tp();
  address.dp = meet.dp();
  address.timeout = kRankTimeout;
  address.host = host;
  address.cancelled = std::move(cancelled);
  if (address.world_size() != assign.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("tp ", address.tp, " x dp ", address.dp,
                                                   " is not a group of ", assign.world_size()));
  }
  BATON_ASSIGN_OR_RETURN(auto groups, parallel::RankGroups::Join(address));
  return std::make_unique<JoinedRanks>(std::move(groups));
#else
  return absl::UnimplementedError(absl::StrCat("groups of ", assign.world_size(),
                                               " ranks: this baton-worker was built without Gloo; "
                                               "install libgloo-dev and build it again"));
#endif
}

absl::StatusOr<std::unique_ptr<GroupStore>> GroupStore::Start(const std::string& host) {
#ifdef BATON_GLOO
  BATON_ASSIGN_OR_RETURN(auto server, parallel::StoreServer::Start(host));
  return std::make_unique<ServedStore>(std::move(server));
#else
  return nullptr;
#endif
}

}  // namespace baton::ranks
