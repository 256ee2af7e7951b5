// The rows of trajectories that a restarted controller found, until the work in progress has taken
// them in: what is READY in the store is not generated again.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_FOUND_ROWS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_FOUND_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/trajectory.h"

namespace baton::controller {

class FoundRows {
 public:
  void Add(uint64_t serial, store::v1::TrajectoryRow row) {
    const uint64_t id = row.id();
    rows_[id] = {serial, std::move(row)};
  }
  void Clear() { rows_.clear(); }
  bool empty() const { return rows_.empty(); }

  /// The response to `drawn` that an earlier controller stored; nothing: there is none, or it was
  /// the answer to another prompt. `wanted`: the score nodes that make it READY.
  std::optional<TrajectoryInfo> Recall(const TrajectoryInfo& drawn, uint64_t wanted) const {
    const auto found = rows_.find(drawn.id);
    if (found == rows_.end()) return std::nullopt;
    const auto& [serial, row] = found->second;
    // The data may have changed while the controller was away: this draw is another prompt then.
    const bool same = row.purpose() == drawn.purpose && row.draw() == drawn.draw &&
                      row.sample() == drawn.sample && row.prompt_id() == drawn.prompt_id;
    if (!same) return std::nullopt;
    return FromRow(row, serial, wanted);
  }
  /// Some row is of that purpose.
  bool Has(v1::Purpose purpose) const {
    return std::any_of(rows_.begin(), rows_.end(),
                       [&](const auto& found) { return found.second.row.purpose() == purpose; });
  }
  /// Forgets the rows of that purpose. Returns their serials.
  std::vector<uint64_t> Take(v1::Purpose purpose) {
    std::vector<uint64_t> serials;
    for (auto it = rows_.begin(); it != rows_.end();) {
      if (it->second.row.purpose() != purpose) {
        ++it;
        continue;
      }
      serials.push_back(it->second.serial);
      it = rows_.erase(it);
    }
    return serials;
  }
  std::set<uint64_t> Serials() const {
    std::set<uint64_t> serials;
    for (const auto& [id, found] : rows_) serials.insert(found.serial);
    return serials;
  }

 private:
  struct Row {
    uint64_t serial = 0;
    store::v1::TrajectoryRow row;
  };
  std::map<uint64_t, Row> rows_;  // by id
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_FOUND_ROWS_H_
