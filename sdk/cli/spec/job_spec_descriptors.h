// job_spec.proto as a google.protobuf.FileDescriptorSet with its comments. The build makes the
// bytes (sdk/cli/CMakeLists.txt).
#ifndef BATON_SDK_CLI_SPEC_JOB_SPEC_DESCRIPTORS_H_
#define BATON_SDK_CLI_SPEC_JOB_SPEC_DESCRIPTORS_H_

#include <cstddef>

namespace baton::cli {

extern const unsigned char kJobSpecDescriptors[];
extern const size_t kJobSpecDescriptorsSize;

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SPEC_JOB_SPEC_DESCRIPTORS_H_
