#include "controller/core/views/evaluation_text.h"

#include <cstddef>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace baton::controller {
namespace {

constexpr absl::string_view kOfAll = "val/";
constexpr absl::string_view kOfSource = "val-core/";
constexpr size_t kMostSourcesNamed = 8;

}  // namespace

std::string EvaluationText(const google::protobuf::Map<std::string, double>& metrics) {
  std::vector<std::string> all, sources;
  const std::map<std::string, double> sorted(metrics.begin(), metrics.end());
  for (const auto& [name, value] : sorted) {
    const size_t mean = name.rfind("/mean@");
    if (absl::StartsWith(name, kOfAll)) {
      all.push_back(absl::StrFormat("%s %.4g", name.substr(kOfAll.size()), value));
    } else if (absl::StartsWith(name, kOfSource) && mean != std::string::npos &&
               mean > kOfSource.size()) {
      const std::string source = name.substr(kOfSource.size(), mean - kOfSource.size());
      sources.push_back(absl::StrFormat("%s %.4g", source, value));
    }
  }
  std::string text = absl::StrJoin(all, ", ");
  if (sources.size() > 1 && sources.size() <= kMostSourcesNamed) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", absl::StrJoin(sources, ", "));
  }
  return text;
}

}  // namespace baton::controller
