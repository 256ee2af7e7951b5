// A job's spec from YAML, checked against the proto.
//
// All problems are reported at once: unknown keys with the one that was probably meant, in this
// section or another, wrong types, unknown enum values, numbers out of their type's range,
// duplicate keys; each with its path, line and column. The controller checks whether values make
// sense (ValidateJob); this code finds the lines for its violations.
#ifndef BATON_SDK_CLIENT_SPEC_YAML_H_
#define BATON_SDK_CLIENT_SPEC_YAML_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {

struct SpecProblem {
  std::string path;  ///< E.g. "rollout.n"; "" for the document.
  int line = 0;      ///< 1-based; 0: the value comes from --set, or is absent.
  int column = 0;
  std::string message;
  std::string set;          ///< The --set of the value, as given; "": it comes from the document.
  bool unreadable = false;  ///< The value at `path` has a wrong type, so it is not in the spec.
  std::string meant;        ///< For an unknown key: the path of the key that was probably meant.
};

struct ParsedSpec {
  /// The readable part of the spec. A text that could not be read is "?", and such a list of
  /// messages has one empty message, so that a check of the rest does not report them as missing.
  v1::JobSpec spec;
  std::vector<SpecProblem> problems;  ///< Empty: the spec is well-formed.
  std::map<std::string, int> lines;   ///< Path -> line of its key in the document.
  /// Path -> the --set of its value, in the order of application.
  std::vector<std::pair<std::string, std::string>> sets;
  bool read = false;  ///< False: the text has no readable keys and values.
};

/// Parses YAML or JSON (JSON is YAML). `sets` are "a.b=c" or "a[0].b=c" with YAML values; they are
/// applied in order after the document.
ParsedSpec ParseSpecYaml(absl::string_view yaml, const std::vector<std::string>& sets);

/// True: `path` is `parent`, or a part of it: "a.b[0].c" is a part of "a.b".
bool IsAtOrBelow(const std::string& path, const std::string& parent);

/// "FILE:12:3: rollout.n: …" or "--set rollout.n=0: …", one line per problem.
std::string FormatProblems(const std::string& file, const std::vector<SpecProblem>& problems);

/// The controller's violations as problems, with the line of the key, or the --set, that each one
/// names.
std::vector<SpecProblem> LocateViolations(const ParsedSpec& parsed,
                                          const std::vector<v1::FieldViolation>& violations);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_SPEC_YAML_H_
