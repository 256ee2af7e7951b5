#include "sdk/client/setting_paths.h"

#include <cstddef>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "baton/v1/job_spec.pb.h"
#include "google/protobuf/descriptor.h"
#include "sdk/common/base/nearest.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMostPaths = 3;

using PathsByName = std::map<std::string, std::vector<std::string>, std::less<>>;

// Adds the settings of a section and of those in it. `seen`: the types of the sections so far.
void AddSettings(const Descriptor& section, const std::string& path,
                 std::set<const Descriptor*>* seen, PathsByName* out) {
  for (int i = 0; i < section.field_count(); ++i) {
    const FieldDescriptor& field = *section.field(i);
    const std::string inner = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
    (*out)[field.name()].push_back(inner);
    const Descriptor* below = field.is_repeated() ? nullptr : field.message_type();
    if (below == nullptr || below->file() != v1::JobSpec::descriptor()->file()) continue;
    if (seen->insert(below).second) AddSettings(*below, inner, seen, out);
  }
}

const PathsByName& AllSettings() {
  static const auto* const kAll = [] {
    auto* all = new PathsByName();
    std::set<const Descriptor*> seen;
    AddSettings(*v1::JobSpec::descriptor(), "", &seen, all);
    return all;
  }();
  return *kAll;
}

}  // namespace

std::vector<std::string> PathsOfSetting(absl::string_view name) {
  const auto found = AllSettings().find(name);
  if (found == AllSettings().end() || found->second.size() > kMostPaths) return {};
  return found->second;
}

std::vector<std::string> PathsOfNearSetting(absl::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, paths] : AllSettings()) names.push_back(known);
  const std::string* const nearest = Nearest(name, names);
  return nearest == nullptr ? std::vector<std::string>() : PathsOfSetting(*nearest);
}

std::string SuggestionOf(const std::vector<std::string>& paths) {
  if (paths.empty()) return "";
  std::string out = "; did you mean ";
  for (size_t i = 0; i < paths.size(); ++i) {
    const char* const before = i == 0 ? "" : i + 1 == paths.size() ? " or " : ", ";
    absl::StrAppend(&out, before, "'", paths[i], "'");
  }
  return out + "?";
}

}  // namespace baton
