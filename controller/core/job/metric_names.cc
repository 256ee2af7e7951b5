#include "controller/core/job/metric_names.h"

#include <algorithm>
#include <utility>

namespace baton::controller {
namespace {

const std::string& NameOf(const std::string& source) {
  static const auto* const all = new std::string("all");
  return source.empty() ? *all : source;
}

std::map<std::string, size_t> CountSources(const std::vector<std::string>& sources, size_t size) {
  std::map<std::string, size_t> counts;
  for (size_t i = 0; i < std::min(size, sources.size()); ++i) ++counts[NameOf(sources[i])];
  return counts;
}

}  // namespace

SourceNames::SourceNames(const std::vector<std::string>& sources, size_t size)
    : SourceNames(CountSources(sources, size)) {}

SourceNames::SourceNames(const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [name, count] : counts) {
    if (name.size() <= kMostMetricName) order.emplace_back(count, name);
  }
  std::stable_sort(order.begin(), order.end(),  // they are sorted by name
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  // The largest sources keep a series of their own; the others share one.
  if (order.size() > kMostSources) order.resize(kMostSources);
  for (auto& [count, name] : order) own_.insert(std::move(name));
  folded_ = counts.size() - own_.size();
}

const std::string& SourceNames::SeriesOf(const std::string& source) const {
  static const auto* const other = new std::string(kOtherSources);
  const std::string& name = NameOf(source);
  return own_.count(name) > 0 ? name : *other;
}

SourceSeries SeriesOfSources(size_t size,
                             const std::function<const std::string&(size_t)>& source_of) {
  std::map<std::string, size_t> counts;
  for (size_t i = 0; i < size; ++i) ++counts[NameOf(source_of(i))];
  const SourceNames names(counts);
  std::map<std::string, uint8_t> index;  // of a series: kMostSources and "other"
  for (const auto& [name, count] : counts) index.emplace(names.SeriesOf(name), 0);
  SourceSeries out;
  for (auto& [name, at] : index) {
    at = static_cast<uint8_t>(out.names.size());
    out.names.push_back(name);
  }
  if (index.size() < 2) return out;
  out.of.reserve(size);
  for (size_t i = 0; i < size; ++i) out.of.push_back(index.at(names.SeriesOf(source_of(i))));
  return out;
}

// A name that the job has used already always stays: its series must not end because another began.
size_t DropSurplus(const google::protobuf::Map<std::string, double>& known,
                   std::map<std::string, double>* reported) {
  size_t dropped = 0, series = known.size();
  for (auto it = reported->begin(); it != reported->end();) {
    const bool is_known = known.contains(it->first);
    if (is_known || (series < kMostSeries && it->first.size() <= kMostMetricName)) {
      series += is_known ? 0 : 1;
      ++it;
    } else {
      it = reported->erase(it);
      ++dropped;
    }
  }
  return dropped;
}

// `out` is what the graph reads of the node, so it does not count and never goes.
size_t DropSurplusScores(const std::string& out, std::map<std::string, double>* scores) {
  size_t dropped = 0, kept = scores->count(out);
  for (auto it = scores->begin(); it != scores->end();) {
    if (it->first == out) {
      ++it;
    } else if (kept < kMostScoreNames && it->first.size() <= kMostMetricName) {
      ++kept;
      ++it;
    } else {
      it = scores->erase(it);
      ++dropped;
    }
  }
  return dropped;
}

}  // namespace baton::controller
