// Reports of the groups of ranks about the update under way, and the number of their surplus
// metrics.
#ifndef BATON_CONTROLLER_CORE_STEPS_UPDATE_REPORTS_H_
#define BATON_CONTROLLER_CORE_STEPS_UPDATE_REPORTS_H_

#include <cstddef>
#include <map>
#include <string>

#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

struct UpdateReports {
  void Restore(const store::v1::JobRow& row) {
    metrics = {row.update_metrics().begin(), row.update_metrics().end()};
  }
  /// Sets update_metrics.
  void Save(store::v1::JobRow* row) const {
    row->mutable_update_metrics()->insert(metrics.begin(), metrics.end());
  }

  std::map<std::string, double> metrics;  ///< Of the groups that have made the update.
  size_t dropped_names = 0;               ///< Dropped names of metrics since the last step.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_UPDATE_REPORTS_H_
