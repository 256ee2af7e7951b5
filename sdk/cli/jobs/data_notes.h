// What a user is told of the lines of a job's data when it is submitted.
#ifndef BATON_SDK_CLI_JOBS_DATA_NOTES_H_
#define BATON_SDK_CLI_JOBS_DATA_NOTES_H_

#include <string>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace baton::cli {

/// One sentence each: lines without an answer, responses that are cut, and keys that the job does
/// not use, each key list once for all lists of files that have it. Pure.
std::vector<std::string> DataNotes(
    const v1::JobSpec& effective,
    const google::protobuf::RepeatedPtrField<v1::DataFilesSummary>& lists);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_JOBS_DATA_NOTES_H_
