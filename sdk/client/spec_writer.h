// A job's spec as YAML.
#ifndef BATON_SDK_CLIENT_SPEC_WRITER_H_
#define BATON_SDK_CLIENT_SPEC_WRITER_H_

#include <string>

#include "baton/v1/job_spec.pb.h"

namespace baton {

/// The spec as YAML that can be submitted again (spec_yaml.h reads it).
std::string SpecToYaml(const v1::JobSpec& spec);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_SPEC_WRITER_H_
