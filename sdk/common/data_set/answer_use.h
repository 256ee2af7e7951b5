// The parts of a job that compare responses with the answers of its data.
#ifndef BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_
#define BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_

#include <string>

#include "baton/v1/job_spec.pb.h"

namespace baton {

/// The first rule or judge of a job of kind rl that reads the answer of a line, with its place:
/// "spec.reward.rules[0] (exact_match)"; "": none does. A command and a method of a user's own
/// worker get the answer too, but nobody can know whether they look at it.
std::string AnswerReader(const v1::JobSpec& spec, const v1::Dataflow& dataflow);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_
