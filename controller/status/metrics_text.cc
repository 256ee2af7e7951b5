#include "controller/status/metrics_text.h"

#include <map>
#include <utility>

#include "prometheus/text_serializer.h"

namespace baton::status {
namespace {

const char* HelpOf(const std::string& family) {
  static const std::map<std::string, const char*>* const kHelp =
      new std::map<std::string, const char*>{
          {"baton_job_state", "Number of the job's state (baton.v1.Job.State)"},
          {"baton_job_step", "Training steps done"},
          {"baton_job_policy_version", "Newest policy version"},
          {"baton_job_metric",
           "Newest value of a metric of the job's steps or evaluations, by name: staleness/mean, "
           "buffer/complete_groups and idle/trainer are some of an async job"},
          {"baton_workers", "Workers by state"},
          {"baton_payload_bytes",
           "Bytes of responses in memory: cached (in the experience log as well), unwritten (not "
           "there yet), batch (what batches add), budget (their limit)"},
          {"baton_connections",
           "Connections to the gRPC addresses: open now; refused, and strangers_closed to make "
           "room, since the controller began"},
          {"baton_controller_epoch", "Starts of the controller on this store"}};
  auto it = kHelp->find(family);
  return it == kHelp->end() ? "" : it->second;
}

}  // namespace

std::string MetricsText(const std::vector<controller::GaugeSample>& samples) {
  std::map<std::string, prometheus::MetricFamily> families;
  for (const controller::GaugeSample& sample : samples) {
    prometheus::MetricFamily& family = families[sample.name];
    family.name = sample.name;
    family.help = HelpOf(sample.name);
    family.type = prometheus::MetricType::Gauge;
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    metric.gauge.value = sample.value;
    family.metric.push_back(std::move(metric));
  }
  std::vector<prometheus::MetricFamily> ordered;
  for (auto& [name, family] : families) ordered.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(ordered);
}

}  // namespace baton::status
