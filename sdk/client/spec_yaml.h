// A job's spec from YAML, checked against the proto.
//
// Every problem is reported at once: unknown keys with the nearest valid one, wrong types,
// unknown enum values, numbers out of their type's range, duplicate keys; each with its path,
// line and column. Whether a value makes sense is the controller's to say (ValidateJob); its
// violations are given their lines here.
#ifndef BATON_SDK_CLIENT_SPEC_YAML_H_
#define BATON_SDK_CLIENT_SPEC_YAML_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {

struct SpecProblem {
  std::string path;  ///< E.g. "rollout.n"; "" for the document.
  int line = 0;      ///< 1-based; 0: it comes from --set or stands nowhere.
  int column = 0;
  std::string message;
};

struct ParsedSpec {
  v1::JobSpec spec;
  std::vector<SpecProblem> problems;  ///< Empty: the spec is well-formed.
  std::map<std::string, int> lines;   ///< Path -> line of its key.
};

/// Parses YAML (or JSON, which is YAML). `sets` are "a.b=c" or "a[0].b=c", applied in order after
/// the document; their values are YAML too.
ParsedSpec ParseSpecYaml(absl::string_view yaml, const std::vector<std::string>& sets);

/// "FILE:12:3: rollout.n: …", one line a problem.
std::string FormatProblems(const std::string& file, const std::vector<SpecProblem>& problems);

/// The controller's violations as problems, with the lines of the keys they speak of.
std::vector<SpecProblem> LocateViolations(const ParsedSpec& parsed,
                                          const std::vector<v1::FieldViolation>& violations);

/// The spec as YAML that can be submitted again.
std::string SpecToYaml(const v1::JobSpec& spec);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_SPEC_YAML_H_
