// What every bench prints and writes: {"bench": name, "machine": {…}, "rows": [{"name", "value",
// "unit"}]}.
#ifndef BATON_BENCH_REPORT_H_
#define BATON_BENCH_REPORT_H_

#include <functional>
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

/// The value that `fraction` of `values` do not exceed. `values` is not empty.
double Percentile(std::vector<double> values, double fraction);

/// The median time of `repeats` runs, at least one.
double MedianSeconds(int repeats, const std::function<void()>& run);

}  // namespace baton::bench

#endif  // BATON_BENCH_REPORT_H_
