// The report that every bench prints and writes: {"bench": name, "machine": {…}, "rows": [{"name",
// "value", "unit", "note"}]}. A row without a note has none there. history.py keeps such reports.
#ifndef BATON_BENCH_SUPPORT_REPORT_H_
#define BATON_BENCH_SUPPORT_REPORT_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace baton::bench {

class Report {
 public:
  explicit Report(std::string bench) : bench_(std::move(bench)) {}

  /// `note` is printed beside the value, e.g. the aim.
  void Add(const std::string& name, double value, const std::string& unit,
           const std::string& note = "");
  /// The table, on standard output.
  void Print() const;
  /// False: the file cannot be written (said on standard error).
  bool WriteJson(const std::string& path) const;

 private:
  struct Row {
    std::string name;
    double value;
    std::string unit, note;
  };
  const std::string bench_;
  std::vector<Row> rows_;
};

/// Rows that are measured once in each repeat. A row's value is the median; its note gives the
/// smallest and the largest value.
class Series {
 public:
  void Add(const std::string& name, double value, const std::string& unit);
  /// In the order in which rows were first added.
  void AddTo(Report& report) const;
  /// The median of a row that was added.
  double Median(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;  // name, unit
  std::map<std::string, std::vector<double>> values_;      // one per repeat
};

/// The value that `fraction` of `values` do not exceed. `values` is not empty.
double Percentile(std::vector<double> values, double fraction);

/// The median time of `repeats` runs, at least one.
double MedianSeconds(int repeats, const std::function<void()>& run);

}  // namespace baton::bench

#endif  // BATON_BENCH_SUPPORT_REPORT_H_
