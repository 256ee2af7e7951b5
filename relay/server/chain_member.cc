#include "relay/server/chain_member.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "relay/delta/delta.h"
#include "relay/delta/delta_choice.h"
#include "relay/segment/checksum.h"
#include "relay/segment/checksum_message.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

constexpr absl::Duration kLeaseOfSource = absl::Hours(1);
constexpr size_t kMostForks = 256;

using SourcePtr = std::shared_ptr<ChainSource>;

/// A sealed version under a lease, mapped.
absl::StatusOr<SourcePtr> OpenSealed(const v1::SegmentInfo& segment,
                                     std::shared_ptr<RelayLease> lease, bool fork) {
  BATON_ASSIGN_OR_RETURN(auto opened, MappedFile::Open(segment.path()));
  const auto mapping = std::make_shared<const MappedFile>(std::move(opened));
  BATON_ASSIGN_OR_RETURN(const auto view, SafetensorsView::Parse(mapping->bytes()));
  auto source = std::make_shared<ChainSource>();
  source->segment_id = segment.segment_id();
  source->bytes = mapping->bytes();
  source->verified = segment.size_bytes();
  source->lease = std::move(lease);
  source->mapping = mapping;
  chain::v1::Announce& version = source->version;
  version.set_job(segment.job());
  version.set_job_uid(segment.job_uid());
  version.set_policy_version(segment.policy_version());
  version.set_fork(fork);
  version.set_size_bytes(segment.size_bytes());
  version.set_header(mapping->bytes().data(), static_cast<size_t>(view.data_offset()));
  *version.mutable_tensors() = segment.tensors();
  *version.mutable_keep_versions() = segment.keep_versions();
  return source;
}

ChainLink::MadeDelta MakeDelta(const ChainSource& base, const ChainSource& next) {
  ChainLink::MadeDelta made;
  const absl::Time begun = BootNow();
  const auto most =
      static_cast<uint64_t>(static_cast<double>(next.bytes.size()) * DeltaChoice::kMostShare);
  auto bytes = EncodeDelta(base.bytes, next.bytes, most);
  made.time = BootNow() - begun;
  if (!bytes.ok()) return made;  // other tensors, or too many that changed
  chain::v1::Delta about;
  about.set_base_version(base.version.policy_version());
  about.set_base_fingerprint(Fingerprint(base.version.size_bytes(), base.version.tensors()));
  about.set_size_bytes(bytes->size());
  about.set_xxh3(Xxh3(*bytes));
  made.delta = std::make_shared<ChainDelta>(std::move(about));
  made.delta->bytes = *std::move(bytes);
  made.delta->bytes.shrink_to_fit();
  made.delta->verified = made.delta->bytes.size();
  return made;
}

}  // namespace

/// Lives on the transport's thread.
class ChainMember::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Relay* relay, Transport* transport, std::shared_ptr<Mailbox> mailbox,
       std::shared_ptr<boost::asio::thread_pool> file_thread, ChainMemberOptions options)
      : relay_(relay),
        transport_(transport),
        mailbox_(std::move(mailbox)),
        file_thread_(std::move(file_thread)),
        options_(std::move(options)) {
    ChainReceiver::Events events;
    events.generation = [this](const std::string& job, const std::string& uid) {
      const auto it = jobs_.find({job, uid});
      return it == jobs_.end() ? 0 : it->second.order.generation;
    };
    events.arriving = [this](const SourcePtr& source) { Enqueue(source); };
    events.changed = [this](const std::string& job, const std::string& uid) {
      const auto it = jobs_.find({job, uid});
      if (it != jobs_.end() && it->second.link != nullptr) it->second.link->Pump();
    };
    receiver_ = std::make_shared<ChainReceiver>(relay_, transport_, mailbox_, file_thread_,
                                                options_.receiver, std::move(events));
  }

  void Observe() {
    relay_->ObserveSealed(
        [weak = weak_from_this(), mailbox = mailbox_](const v1::SegmentInfo& segment, bool fork) {
          mailbox->Post([weak, segment, fork] {
            if (const auto self = weak.lock()) self->SealedHere(segment, fork);
          });
        });
  }

  ChainReceiver* receiver() const { return receiver_.get(); }

  absl::Status Follow(const ChainOrder& order) {
    if (order.generation == 0 || order.relays < 1) {
      return absl::InvalidArgumentError("an order has a generation and relays, from 1 on");
    }
    BATON_RETURN_IF_ERROR(relay_->CheckCapability(order.job, order.job_uid, order.capability));
    Job& job = jobs_[{order.job, order.job_uid}];
    if (order.generation == job.order.generation && order.next == job.order.next) {
      return absl::OkStatus();
    }
    if (order.generation <= job.order.generation) {
      return MakeError(absl::StatusCode::kFailedPrecondition, "STALE_CHAIN",
                       absl::StrCat("order ", order.generation, " for the chain of ", order.job,
                                    ": order ", job.order.generation, " is known"));
    }
    if (job.link != nullptr) {
      job.link->Stop();
      job.experience = job.link->experience();
      job.put_bytes += job.link->put_bytes();
    }
    job.order = order;
    job.link = nullptr;
    job.waiting.clear();
    job.starting = false;
    if (!order.next.empty()) StartLink(job);
    return absl::OkStatus();
  }

  void Forget(const std::string& job, const std::string& uid) {
    const auto it = jobs_.find({job, uid});
    if (it == jobs_.end()) return;
    if (it->second.link != nullptr) it->second.link->Stop();
    jobs_.erase(it);
  }

  ChainReport Report(const std::string& name, const std::string& uid) const {
    ChainReport report;
    const auto it = jobs_.find({name, uid});
    if (it == jobs_.end()) return report;
    const Job& job = it->second;
    const ChainLink* link = job.link.get();
    report.generation = job.order.generation;
    report.put_bytes = job.put_bytes + (link == nullptr ? 0 : link->put_bytes());
    report.connected = link != nullptr && link->connected();
    if (link != nullptr) {
      report.last_error = link->last_error();
      report.last_hop = link->last_hop();
    }
    return report;
  }

  void Stop() {
    for (auto& [key, job] : jobs_) {
      if (job.link != nullptr) job.link->Stop();
    }
    jobs_.clear();
    receiver_ = nullptr;
  }
  bool stopped() const { return receiver_ == nullptr; }

 private:
  struct Job {
    ChainOrder order;
    std::shared_ptr<ChainLink> link;  ///< Null for the last relay.
    LinkExperience experience;        ///< Of the links before.
    uint64_t put_bytes = 0;           ///< By the links before.
    bool starting = false;            ///< The relay is asked what it has; what is newer waits.
    std::vector<SourcePtr> waiting;
  };

  void StartLink(Job& job) {
    const ChainOrder order = job.order;
    job.link = std::make_shared<ChainLink>(
        transport_, order, options_.link, job.experience,
        [this, order](const absl::Status& status) {
          Log(LogLevel::kWarn, "the chain is broken",
              {{"job", order.job}, {"relay", order.next}, {"error", status.message()}});
          if (options_.on_broken) options_.on_broken(order, status);
          if (options_.on_changed) options_.on_changed();
        },
        [this](const SourcePtr& base, const SourcePtr& next,
               std::function<void(ChainLink::MadeDelta)> done) {
          Encode(base, next, std::move(done));
        });
    job.link->Start();
    job.starting = true;
    job.waiting = receiver_->Arriving(order.job, order.job_uid);
    v1::ListRequest request;
    request.set_job(order.job);
    relay_->List(request, [weak = weak_from_this(), mailbox = mailbox_, order](auto listed) {
      mailbox->Post([weak, order, listed = std::move(listed)] {
        if (const auto self = weak.lock()) self->Listed(order, listed);
      });
    });
  }

  /// What the relay has already goes first, the oldest version before the newer ones.
  void Listed(const ChainOrder& order, const absl::StatusOr<v1::ListResponse>& listed) {
    std::vector<v1::SegmentInfo> segments;
    if (listed.ok()) {
      for (const v1::SegmentInfo& segment : listed->segments()) {
        if (segment.job_uid() == order.job_uid) segments.push_back(segment);
      }
    }
    std::sort(segments.begin(), segments.end(),
              [](const auto& a, const auto& b) { return a.policy_version() < b.policy_version(); });
    for (const v1::SegmentInfo& segment : segments) LookUp(segment, order.generation);
    // The file thread answers in the order in which it is asked, and so does the relay.
    v1::ListRequest request;
    request.set_job(order.job);
    relay_->List(request, [weak = weak_from_this(), mailbox = mailbox_, file = file_thread_,
                           order](const auto&) {
      boost::asio::post(*file, [weak, mailbox, order] {
        mailbox->Post([weak, order] {
          if (const auto self = weak.lock()) self->Started(order);
        });
      });
    });
  }

  void Started(const ChainOrder& order) {
    const auto it = jobs_.find({order.job, order.job_uid});
    if (it == jobs_.end() || it->second.order.generation != order.generation) return;
    it->second.starting = false;
    for (SourcePtr& source : std::exchange(it->second.waiting, {})) {
      it->second.link->Enqueue(std::move(source));
    }
  }

  void SealedHere(const v1::SegmentInfo& segment, bool fork) {
    if (stopped()) return;
    if (options_.on_changed) options_.on_changed();
    if (fork) {
      forks_.insert(segment.segment_id());
      if (forks_.size() > kMostForks) forks_.erase(forks_.begin());
    }
    const auto it = jobs_.find({segment.job(), segment.job_uid()});
    if (it == jobs_.end() || it->second.link == nullptr) return;
    for (const SourcePtr& source : receiver_->Arriving(segment.job(), segment.job_uid())) {
      if (source->segment_id == segment.segment_id()) return;  // its links have it
    }
    LookUp(segment, /*generation=*/0);
  }

  /// `generation`: the order whose start it belongs to; 0: the version is new.
  void LookUp(const v1::SegmentInfo& segment, uint64_t generation) {
    v1::AcquireRequest request;
    request.set_job(segment.job());
    request.set_job_uid(segment.job_uid());
    request.set_policy_version(segment.policy_version());
    request.set_holder("chain of relays");
    *request.mutable_ttl() = ToProto(kLeaseOfSource);
    const bool fork = forks_.count(segment.segment_id()) > 0;
    relay_->Acquire(request, [weak = weak_from_this(), mailbox = mailbox_, relay = relay_,
                              file = file_thread_, fork, generation](auto found) {
      if (!found.ok()) return;  // dropped meanwhile
      const auto lease = std::make_shared<RelayLease>(relay, found->lease_id());
      boost::asio::post(*file,
                        [weak, mailbox, lease, segment = found->segment(), fork, generation] {
                          auto source = OpenSealed(segment, lease, fork);
                          if (!source.ok()) {
                            Log(LogLevel::kWarn, "a version cannot be sent on",
                                {{"job", segment.job()}, {"error", source.status().message()}});
                            return;
                          }
                          mailbox->Post([weak, source = *source, generation] {
                            if (const auto self = weak.lock()) self->Enqueue(source, generation);
                          });
                        });
    });
  }

  void Encode(const SourcePtr& base, const SourcePtr& next,
              std::function<void(ChainLink::MadeDelta)> done) {
    boost::asio::post(*file_thread_, [mailbox = mailbox_, base, next, done = std::move(done)] {
      mailbox->Post([done, made = MakeDelta(*base, *next)] { done(made); });
    });
  }

  void Enqueue(const SourcePtr& source, uint64_t generation = 0) {
    const auto it = jobs_.find({source->version.job(), source->version.job_uid()});
    if (it == jobs_.end() || it->second.link == nullptr) return;
    Job& job = it->second;
    if (generation != 0 && generation != job.order.generation) return;
    if (job.starting && generation == 0) {
      job.waiting.push_back(source);
    } else {
      job.link->Enqueue(source);
    }
  }

  Relay* const relay_;
  Transport* const transport_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<boost::asio::thread_pool> file_thread_;
  const ChainMemberOptions options_;
  std::shared_ptr<ChainReceiver> receiver_;                  ///< Null once it is stopped.
  std::map<std::pair<std::string, std::string>, Job> jobs_;  ///< By name and uid.
  std::set<std::string> forks_;  ///< Segments that were begun with `fork`.
};

ChainMember::ChainMember(Relay* relay, std::unique_ptr<Transport> transport,
                         ChainMemberOptions options)
    : file_thread_(std::make_shared<boost::asio::thread_pool>(1)),
      transport_(std::move(transport)),
      mailbox_(std::make_shared<Mailbox>(transport_.get())),
      core_(std::make_shared<Core>(relay, transport_.get(), mailbox_, file_thread_,
                                   std::move(options))) {
  core_->Observe();
}

ChainMember::~ChainMember() {
  transport_->Post([core = core_] { core->Stop(); });
  mailbox_->Close();
  transport_ = nullptr;
  file_thread_->join();
}

absl::StatusOr<std::string> ChainMember::Listen(const std::string& address) {
  return transport_->Listen(
      address, [weak = std::weak_ptr<Core>(core_)](std::shared_ptr<Connection> connection) {
        const auto core = weak.lock();
        if (core != nullptr && !core->stopped()) core->receiver()->Accept(std::move(connection));
      });
}

void ChainMember::Follow(ChainOrder order, Done<absl::Status> done) {
  mailbox_->Post([core = core_, order = std::move(order), done = std::move(done)] {
    if (!core->stopped()) done(core->Follow(order));
  });
}

void ChainMember::Forget(const std::string& job, const std::string& job_uid) {
  mailbox_->Post([core = core_, job, job_uid] { core->Forget(job, job_uid); });
}

void ChainMember::Report(const std::string& job, const std::string& job_uid,
                         Done<ChainReport> done) const {
  mailbox_->Post([core = core_, job, job_uid, done = std::move(done)] {
    if (!core->stopped()) done(core->Report(job, job_uid));
  });
}

void ChainMember::ReceivedBytes(Done<uint64_t> done) const {
  mailbox_->Post([core = core_, done = std::move(done)] {
    if (!core->stopped()) done(core->receiver()->verified_bytes());
  });
}

}  // namespace baton::relay
