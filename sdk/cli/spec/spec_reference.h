// Every field of a job's spec, as job_spec.proto tells it: `baton explain-spec` and docs/spec.md.
//
// What a field means is its comment; its default, bounds and names are its setting.
#ifndef BATON_SDK_CLI_SPEC_SPEC_REFERENCE_H_
#define BATON_SDK_CLI_SPEC_SPEC_REFERENCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace baton::cli {

struct SpecField {
  std::string name;           ///< "n".
  std::string path;           ///< "rollout.n": where it stands first.
  std::string type;           ///< As YAML has it: "whole number", "list of texts", "map" …
  std::string section;        ///< The message of a field that has fields of its own; else empty.
  std::string default_value;  ///< "8", "required", or empty.
  std::string bounds;         ///< "1 to 1024", "one of `a`, `b`", or empty.
  std::string meaning;        ///< Sentences.
};

/// A message of the spec. Several places may have the same one, e.g. `actor` and `critic.train`.
struct SpecSection {
  std::string message;             ///< "RolloutSpec".
  std::vector<std::string> paths;  ///< Its paths, the first one first; "" for the whole spec.
  std::string meaning;
  std::vector<SpecField> fields;  ///< In the order of the proto.
};

/// In the order in which the spec names them. The text of the comments is compiled in.
const std::vector<SpecSection>& SpecSections();

/// The field or section that `path` names ("rollout.n", "spec.rollout", "reward.rules[0].type").
/// `field.path` is `path` as it was given. NotFound names the nearest path there is.
struct SpecEntry {
  SpecField field;
  const SpecSection* section = nullptr;  ///< Set for a field that has fields of its own; else null.
};
absl::StatusOr<SpecEntry> FindSpecEntry(absl::string_view path);

/// docs/spec.md.
std::string SpecReferenceMarkdown();

/// The comment of a field of job_spec.proto, on one line; empty: it has none.
std::string MeaningOf(const google::protobuf::FieldDescriptor& field);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SPEC_SPEC_REFERENCE_H_
