#include "bench/support/report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace baton::bench {
namespace {

std::string CpuName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

void Report::Add(const std::string& name, double value, const std::string& unit,
                 const std::string& note) {
  rows_.push_back({name, value, unit, note});
}

void Report::Print() const {
  std::printf("%s on %u x %s\n", bench_.c_str(), std::thread::hardware_concurrency(),
              CpuName().c_str());
  size_t width = 33;
  for (const Row& row : rows_) width = std::max(width, row.name.size());
  for (const Row& row : rows_) {
    const int decimals = std::abs(row.value) >= 1000 ? 0 : std::abs(row.value) >= 10 ? 1 : 3;
    std::printf("  %-*s %14.*f %-10s %s\n", static_cast<int>(width), row.name.c_str(), decimals,
                row.value, row.unit.c_str(), row.note.c_str());
  }
}

bool Report::WriteJson(const std::string& path) const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : rows_) {
    rows.push_back({{"name", row.name}, {"value", row.value}, {"unit", row.unit}});
    if (!row.note.empty()) rows.back()["note"] = row.note;
  }
  const nlohmann::json report = {
      {"bench", bench_},
      {"machine", {{"cpu", CpuName()}, {"cores", std::thread::hardware_concurrency()}}},
      {"rows", rows}};
  std::ofstream out(path);
  out << report.dump(2) << "\n";
  out.close();
  if (!out) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return bool(out);
}

void Series::Add(const std::string& name, double value, const std::string& unit) {
  if (values_[name].empty()) rows_.push_back({name, unit});
  values_[name].push_back(value);
}

void Series::AddTo(Report& report) const {
  for (const auto& [name, unit] : rows_) {
    const std::vector<double>& values = values_.at(name);
    report.Add(name, Percentile(values, 0.5), unit,
               absl::StrFormat("%.4g to %.4g", Percentile(values, 0), Percentile(values, 1)));
  }
}

double Series::Median(const std::string& name) const { return Percentile(values_.at(name), 0.5); }

double Percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double at = std::ceil(fraction * static_cast<double>(values.size())) - 1;
  return values[static_cast<size_t>(std::max(0.0, at))];
}

double MedianSeconds(int repeats, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return Percentile(seconds, 0.5);
}

}  // namespace baton::bench
