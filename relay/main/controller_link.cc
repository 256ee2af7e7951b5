#include "relay/main/controller_link.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/process/memory_id.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

constexpr char kRole[] = "relay";
constexpr size_t kMostJobs = 1000;  // whose orders are remembered

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerLink>> ControllerLink::Create(
    Relay* relay, ControllerLinkOptions options) {
  std::unique_ptr<ControllerLink> link(new ControllerLink(relay, options.report_interval));
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
  place.set_address(options.address);
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
  for (const v1::RelayOrder& given : orders.orders()) {
    ChainOrder order;
    order.job = given.job();
    order.job_uid = given.job_uid();
    order.capability = given.capability();
    order.generation = given.generation();
    order.relays = given.relays();
    order.next = given.next();
    {
      absl::MutexLock lock(&mu_);
      jobs_[{order.job, order.job_uid}] = order.capability;
      if (jobs_.size() > kMostJobs) jobs_.erase(jobs_.begin());
    }
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

// Of jobs that had no order here nothing was received; whoever published them drops them.
void ControllerLink::Forget(const v1::RelayForget& forget) {
  for (const v1::RelayVersions& over : forget.jobs()) {
    v1::DropRequest drop;
    {
      absl::MutexLock lock(&mu_);
      const auto job = jobs_.find({over.job(), over.job_uid()});
      if (job == jobs_.end()) continue;
      drop.set_capability(job->second);
      jobs_.erase(job);
    }
    member_->Forget(over.job(), over.job_uid());
    v1::ListRequest request;
    request.set_job(over.job());
    relay_->List(request, [relay = relay_, drop, uid = over.job_uid()](const auto& list) mutable {
      if (!list.ok()) return;
      for (const v1::SegmentInfo& segment : list->segments()) {
        if (segment.job_uid() == uid) drop.add_segment_ids(segment.segment_id());
      }
      if (drop.segment_ids().empty()) return;
      relay->Drop(drop, [](const absl::StatusOr<v1::DropResponse>& dropped) {
        if (dropped.ok()) return;
        Log(LogLevel::kWarn, "versions of a job that is over cannot be dropped",
            {{"error", std::string(dropped.status().message())}});
      });
    });
    Log(LogLevel::kInfo, "a job is over", {{"job", over.job()}});
  }
}

void ControllerLink::Changed() {
  absl::MutexLock lock(&mu_);
  changed_ = true;
}

void ControllerLink::ReportLoop() {
  std::string told;
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
    if (now == told) continue;
    told = std::move(now);
    worker_->ReportRelay(std::move(report));
  }
}

v1::RelayReport ControllerLink::MakeReport() {
  std::map<JobKey, std::string> jobs;
  {
    absl::MutexLock lock(&mu_);
    jobs = jobs_;
  }
  std::map<JobKey, v1::RelayVersions> versions;
  for (const auto& [key, capability] : jobs) {
    absl::Notification answered;
    ChainReport found;
    member_->Report(key.first, key.second, [&](const ChainReport& report) {
      found = report;
      answered.Notify();
    });
    answered.WaitForNotification();
    v1::RelayVersions& of = versions[key];
    of.set_generation(found.generation);
    of.set_put_bytes(found.put_bytes);
    if (!found.connected && !found.last_error.ok()) {
      *of.mutable_broken() = ToProto(found.last_error);
    }
  }
  absl::Notification listed;
  relay_->List({}, [&](const absl::StatusOr<v1::ListResponse>& list) {
    if (list.ok()) {
      for (const v1::SegmentInfo& segment : list->segments()) {
        versions[{segment.job(), segment.job_uid()}].add_versions(segment.policy_version());
      }
    }
    listed.Notify();
  });
  listed.WaitForNotification();
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
