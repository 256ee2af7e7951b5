// Names of metrics that data or workers made up, bounded: a job has as many series as somebody can
// look at, whatever its data says. Pure.
#ifndef BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_
#define BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/map.h"
#include "sdk/base/text_bounds.h"

namespace baton::controller {

inline constexpr size_t kMostSources = 64;     ///< Of a data set, with series of their own.
inline constexpr size_t kMostSeries = 1000;    ///< Of a job, before workers' new names are dropped.
inline constexpr size_t kMostScoreNames = 64;  ///< Of one response.
inline constexpr size_t kMostMetricName = kMetricNameBytes;
inline constexpr char kOtherSources[] = "other";

/// Which sources of a data set have series of their own: those with the most examples, of equal
/// ones the first by name. The others, and those with names too long for a metric, are counted
/// together as "other"; so is a source of that name. Examples without a source are "all".
class SourceNames {
 public:
  /// `sources`: of each example; the first `size` of them count.
  SourceNames(const std::vector<std::string>& sources, size_t size);

  /// What the examples of `source` are counted as.
  const std::string& SeriesOf(const std::string& source) const;
  /// Sources that are counted as "other" together; 0: each has series of its own.
  size_t folded() const { return folded_; }

 private:
  std::set<std::string> own_;
  size_t folded_ = 0;
};

/// Drops from `reported`, which workers named, what `known` (the job's metrics) does not have yet
/// when it has kMostSeries already, and names that are too long. Answers how many.
size_t DropSurplus(const google::protobuf::Map<std::string, double>& known,
                   std::map<std::string, double>* reported);

/// Leaves kMostScoreNames of a response's scores, `out` among them. Answers how many were dropped.
size_t DropSurplusScores(const std::string& out, std::map<std::string, double>* scores);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_
