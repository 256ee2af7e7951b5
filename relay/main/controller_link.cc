#include "relay/main/controller_link.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/process/memory_id.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

constexpr char kRole[] = "relay";

// What the workers of this host reach a relay by that listens on every address.
std::string ForOwnHost(const std::string& address) {
  const std::string port = address.substr(address.rfind(':'));
  if (absl::StartsWith(address, "0.0.0.0:")) return absl::StrCat("127.0.0.1", port);
  if (absl::StartsWith(address, "[::]:")) return absl::StrCat("[::1]", port);
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerLink>> ControllerLink::Create(
    Relay* relay, ControllerLinkOptions options) {
  std::unique_ptr<ControllerLink> link(
      new ControllerLink(relay, options.report_interval, options.repeat_interval));
  ControllerLink* const self = link.get();
  BATON_ASSIGN_OR_RETURN(auto transport, TcpTransport::Create(options.chain));
  options.member.on_changed = [self] { self->Changed(); };
  link->member_ = std::make_unique<ChainMember>(relay, std::move(transport), options.member);
  if (!options.chain_listen.empty()) {
    BATON_ASSIGN_OR_RETURN(link->chain_address_, link->member_->Listen(options.chain_listen));
    if (!options.chain_host.empty()) {
      const bool bare_ipv6 =
          absl::StrContains(options.chain_host, ':') && !absl::StartsWith(options.chain_host, "[");
      link->chain_address_ =
          absl::StrCat(bare_ipv6 ? absl::StrCat("[", options.chain_host, "]") : options.chain_host,
                       link->chain_address_.substr(link->chain_address_.rfind(':')));
    }
  }
  WorkerOptions& worker = options.worker;
  worker.memory_id = MemoryId(options.directory);
  v1::RelayPlace& place = worker.relay.emplace();
  place.set_address(ForOwnHost(options.address));
  place.set_chain_address(link->chain_address_);
  worker.on_relay_orders = [self](const v1::RelayOrders& orders) { self->Follow(orders); };
  worker.on_relay_forget = [self](const v1::RelayForget& forget) { self->Forget(forget); };
  BATON_ASSIGN_OR_RETURN(link->worker_, Worker::Create(std::move(worker)));
  BATON_RETURN_IF_ERROR(link->worker_->RegisterRole(kRole, {}));
  return link;
}

ControllerLink::~ControllerLink() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (reporter_.joinable()) reporter_.join();
  worker_ = nullptr;  // no order comes any more
  member_ = nullptr;
}

absl::Status ControllerLink::Run() {
  reporter_ = std::thread([this] { ReportLoop(); });
  return worker_->Run();
}

void ControllerLink::Follow(const v1::RelayOrders& orders) {
  std::map<JobKey, bool> unordered;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [key, job] : jobs_) unordered[key] = true;
    for (const v1::RelayOrder& given : orders.orders()) {
      const JobKey key(given.job(), given.job_uid());
      unordered.erase(key);
      jobs_[key].capability = given.capability();
    }
  }
  // Without an order, the versions of a job go to no other relay.
  for (const auto& [key, ends] : unordered) member_->Forget(key.first, key.second);
  for (const v1::RelayOrder& given : orders.orders()) {
    ChainOrder order;
    order.job = given.job();
    order.job_uid = given.job_uid();
    order.capability = given.capability();
    order.generation = given.generation();
    order.relays = given.relays();
    order.next = given.next();
    order.encoding = ParseEncoding(given.encoding());
    member_->Follow(order, [this, order](const absl::Status& status) {
      const bool old = ErrorReason(status) == "STALE_CHAIN";
      Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarn,
          status.ok() ? "place in a chain" : "an order is not followed",
          {{"job", order.job},
           {"generation", order.generation},
           {"relays", order.relays},
           {"next", order.next},
           {"error", old ? "a newer one is known" : std::string(status.message())}});
      Changed();
    });
  }
}

// A job without an order here sent nothing to this relay. Its publisher drops its versions.
void ControllerLink::Forget(const v1::RelayForget& forget) {
  for (const v1::RelayVersions& over : forget.jobs()) {
    {
      absl::MutexLock lock(&mu_);
      const auto job = jobs_.find({over.job(), over.job_uid()});
      if (job == jobs_.end() || std::exchange(job->second.over, true)) continue;
    }
    member_->Forget(over.job(), over.job_uid());
    Log(LogLevel::kInfo, "a job is over", {{"job", over.job()}});
  }
  Changed();
}

void ControllerLink::Drop(const JobKey& job, const std::string& capability,
                          const std::vector<std::string>& segments) {
  v1::DropRequest drop;
  drop.mutable_segment_ids()->Assign(segments.begin(), segments.end());
  drop.set_capability(capability);
  relay_->Drop(drop, [name = job.first](const absl::StatusOr<v1::DropResponse>& dropped) {
    if (dropped.ok()) return;
    Log(LogLevel::kWarn, "versions of a job that is over cannot be dropped",
        {{"job", name}, {"error", std::string(dropped.status().message())}});
  });
}

void ControllerLink::Changed() {
  absl::MutexLock lock(&mu_);
  changed_ = true;
}

// A controller answers a report with what it has forgotten, so a report is repeated.
void ControllerLink::ReportLoop() {
  std::string told;
  absl::Time told_at = absl::InfinitePast();
  const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return changed_ || stopping_; };
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&due), report_interval_);
      if (stopping_) return;
      changed_ = false;
    }
    v1::RelayReport report = MakeReport();
    std::string now = report.SerializeAsString();
    if (now == told && (now.empty() || BootNow() - told_at < repeat_interval_)) continue;
    told = std::move(now);
    told_at = BootNow();
    worker_->ReportRelay(std::move(report));
  }
}

v1::RelayReport ControllerLink::MakeReport() {
  std::map<JobKey, Job> jobs;
  {
    absl::MutexLock lock(&mu_);
    jobs = jobs_;
  }
  std::map<JobKey, v1::RelayVersions> versions;
  for (const auto& [key, job] : jobs) {
    absl::Notification answered;
    ChainReport found;
    member_->Report(key.first, key.second, [&](const ChainReport& report) {
      found = report;
      answered.Notify();
    });
    answered.WaitForNotification();
    v1::RelayVersions& of = versions[key];
    of.set_generation(found.generation);
    if (found.last_hop.version != 0) {
      v1::RelayHop& hop = *of.mutable_hop();
      hop.set_policy_version(found.last_hop.version);
      hop.set_size_bytes(found.last_hop.size_bytes);
      hop.set_sent_bytes(found.last_hop.sent_bytes);
      hop.set_seconds(absl::ToDoubleSeconds(found.last_hop.time));
      hop.set_link_seconds(absl::ToDoubleSeconds(found.last_hop.link_time));
    }
    if (found.last_error.ok()) continue;
    *of.mutable_trouble() = ToProto(found.last_error);
    of.set_broken(!found.connected);
  }
  std::map<JobKey, std::vector<std::string>> segments;
  absl::Notification listed;
  relay_->List({}, [&](const absl::StatusOr<v1::ListResponse>& list) {
    if (list.ok()) {
      for (const v1::SegmentInfo& segment : list->segments()) {
        const JobKey key(segment.job(), segment.job_uid());
        versions[key].add_versions(segment.policy_version());
        segments[key].push_back(segment.segment_id());
      }
    }
    listed.Notify();
  });
  listed.WaitForNotification();
  // A version may have been sealed since its job was over.
  for (const auto& [key, job] : jobs) {
    if (!job.over) continue;
    const auto left = segments.find(key);
    if (left != segments.end()) {
      Drop(key, job.capability, left->second);
    } else {
      absl::MutexLock lock(&mu_);
      jobs_.erase(key);
    }
  }
  v1::RelayReport report;
  for (auto& [key, of] : versions) {
    v1::RelayVersions& job = *report.add_jobs();
    job = std::move(of);
    job.set_job(key.first);
    job.set_job_uid(key.second);
  }
  return report;
}

}  // namespace baton::relay
