// The controller's metrics in Prometheus' text format.
#ifndef BATON_CONTROLLER_STATUS_METRICS_TEXT_H_
#define BATON_CONTROLLER_STATUS_METRICS_TEXT_H_

#include <string>
#include <vector>

#include "controller/runtime/controller/controller_interface.h"

namespace baton::status {

/// The content type of MetricsText.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

/// One gauge family per name, sorted by name, with its samples in their order.
std::string MetricsText(const std::vector<controller::GaugeSample>& samples);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_METRICS_TEXT_H_
