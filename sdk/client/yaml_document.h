// A YAML text as nodes. Mistakes are described in terms of the text.
#ifndef BATON_SDK_CLIENT_YAML_DOCUMENT_H_
#define BATON_SDK_CLIENT_YAML_DOCUMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/client/spec_yaml.h"
#include "yaml-cpp/yaml.h"

namespace baton {

/// Parses the document. Tabs in the indentation are reported as one problem and then read as
/// spaces, so that the rest can be checked too. Null, with a problem, if it cannot be parsed; an
/// empty map if it is empty. Never throws.
YAML::Node LoadDocument(absl::string_view yaml, std::vector<SpecProblem>* problems);

/// A description of the error that names its usual cause.
std::string YamlProblem(const YAML::Exception& error);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_YAML_DOCUMENT_H_
