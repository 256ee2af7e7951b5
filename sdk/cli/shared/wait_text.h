// The reason why a job waits, as one sentence.
#ifndef BATON_SDK_CLI_SHARED_WAIT_TEXT_H_
#define BATON_SDK_CLI_SHARED_WAIT_TEXT_H_

#include <string>

#include "baton/v1/job_service.pb.h"

namespace baton::cli {

/// "job a has waited 12s for 1 actor worker; in 18s the job fails". On one line.
std::string WaitText(const v1::Wait& wait);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_WAIT_TEXT_H_
