// Names of metrics, and bounds on those that come from data or workers, so that a job has few
// enough series for a person to look at. Pure.
#ifndef BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_
#define BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/map.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton::controller {

/// Metrics of a generation (TaskOutput.metrics, TaskResult.metrics): draft tokens that it drew as
/// well; and the averages, over the engine steps that advanced it, of their seconds and of the
/// responses that they advanced.
inline constexpr char kDraftAccepted[] = "draft_accepted";
inline constexpr char kStepSeconds[] = "step_seconds";
inline constexpr char kStepRows[] = "step_rows";
/// Metric of a run-ahead response: its tokens.
inline constexpr char kAheadTokens[] = "tokens";

inline constexpr size_t kMostSources = 64;     ///< Per data set, with series of their own.
inline constexpr size_t kMostSeries = 1000;    ///< Per job, before workers' new names are dropped.
inline constexpr size_t kMostScoreNames = 64;  ///< Per response.
inline constexpr size_t kMostMetricName = kMetricNameBytes;
inline constexpr char kOtherSources[] = "other";

/// The sources of a data set that have series of their own: those with the most examples, ties
/// broken by name. All others, and sources with names too long for a metric, are counted together
/// as "other"; so is a source of that name. Examples without a source are "all".
class SourceNames {
 public:
  /// `sources`: the source of each example; the first `size` examples count.
  SourceNames(const std::vector<std::string>& sources, size_t size);
  /// `counts`: the number of examples of each source.
  explicit SourceNames(const std::map<std::string, size_t>& counts);

  /// The series that examples of `source` are counted in.
  const std::string& SeriesOf(const std::string& source) const;
  /// Number of sources that are counted as "other"; 0: each has a series of its own.
  size_t folded() const { return folded_; }

 private:
  std::set<std::string> own_;
  size_t folded_ = 0;
};

/// The series of each of many examples, a byte for one.
struct SourceSeries {
  std::vector<std::string> names;  ///< Series with an example.
  std::vector<uint8_t> of;         ///< By example: an index of `names`. Empty: all have one series.
};
/// `source_of(i)`: the source of example i of `size`.
SourceSeries SeriesOfSources(size_t size,
                             const std::function<const std::string&(size_t)>& source_of);

/// Drops names from `reported`, which come from workers: those that are too long, and those that
/// are not in `known` (the job's metrics) once it has kMostSeries. Returns the number dropped.
size_t DropSurplus(const google::protobuf::Map<std::string, double>& known,
                   std::map<std::string, double>* reported);

/// Leaves kMostScoreNames of a response's scores, `out` among them. Returns the number dropped.
size_t DropSurplusScores(const std::string& out, std::map<std::string, double>* scores);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_METRIC_NAMES_H_
