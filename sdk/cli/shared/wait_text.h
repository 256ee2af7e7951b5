// What a job does and what it waits for, as text.
#ifndef BATON_SDK_CLI_SHARED_WAIT_TEXT_H_
#define BATON_SDK_CLI_SHARED_WAIT_TEXT_H_

#include <cstdint>
#include <string>

#include "baton/v1/job_service.pb.h"

namespace baton::cli {

/// "generating 3/8": the phase, and how much of it is done. `total` 0: only the phase.
std::string PhaseText(const std::string& phase, int64_t done, int64_t total);

/// "job a has waited 12s for 1 actor worker; in 18s the job fails". On one line.
std::string WaitText(const v1::Wait& wait);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_WAIT_TEXT_H_
