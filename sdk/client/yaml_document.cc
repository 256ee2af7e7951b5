#include "sdk/client/yaml_document.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

// Tabs where YAML wants spaces: one problem for all lines; none: nothing.
std::optional<SpecProblem> FindTabs(absl::string_view yaml) {
  std::optional<SpecProblem> out;
  int number = 0, lines = 0;
  for (absl::string_view line : absl::StrSplit(yaml, '\n')) {
    ++number;
    const size_t text = std::min(line.find_first_not_of(" \t\r"), line.size());
    const size_t tab = line.substr(0, text).find('\t');
    if (tab == absl::string_view::npos || text == line.size() || line[text] == '#') continue;
    ++lines;
    if (!out.has_value()) out = {"", number, static_cast<int>(tab) + 1, ""};
  }
  if (!out.has_value()) return out;
  const std::string more =
      lines == 1 ? "" : absl::StrCat(" (", lines, " lines of the file have one)");
  out->message = absl::StrCat("a tab in the indentation; YAML allows only spaces there", more);
  return out;
}

// The text with `width` spaces for each tab of an indentation.
std::string WithoutTabs(absl::string_view yaml, size_t width) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(yaml, '\n')) {
    const size_t text = std::min(line.find_first_not_of(" \t"), line.size());
    for (char c : line.substr(0, text)) out.append(c == '\t' ? width : 1, ' ');
    absl::StrAppend(&out, line.substr(text), "\n");
  }
  return out;
}

}  // namespace

YAML::Node LoadDocument(absl::string_view yaml, std::vector<SpecProblem>* problems) {
  YAML::Node empty(YAML::NodeType::Map);
  try {
    YAML::Node root = YAML::Load(std::string(yaml));
    return root.IsNull() ? empty : root;
  } catch (const YAML::Exception& e) {
    const std::optional<SpecProblem> tabs = FindTabs(yaml);
    if (!tabs.has_value()) {
      problems->push_back({"", e.mark.line + 1, e.mark.column + 1,
                           absl::StrCat("not valid YAML: ", YamlProblem(e))});
      return YAML::Node();
    }
    problems->push_back(*tabs);
  }
  for (const size_t width : {2, 4, 8}) {  // what the tabs may stand for, so that the rest is read
    try {
      YAML::Node root = YAML::Load(WithoutTabs(yaml, width));
      return root.IsNull() ? empty : root;
    } catch (const YAML::Exception&) {
    }
  }
  return YAML::Node();
}

std::string YamlProblem(const YAML::Exception& error) {
  if (error.msg == YAML::ErrorMsg::MAP_VALUE) {
    return "a colon that does not belong here; is the line indented like its neighbours, and does "
           "a text with a colon stand in quotes?";
  }
  if (error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW) return "a list without its closing ]";
  if (error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW) return "a map without its closing }";
  if (error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return "a character that cannot begin a value; put the text in quotes";
  }
  return error.msg;
}

}  // namespace baton
