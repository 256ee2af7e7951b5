// Simulated responses and tasks as messages of baton.v1.
//
// A simulated response is a few numbers (model.h). On the wire its tokens are derived from its
// content, and its text names the weights that sampled it: so a payload that was mixed up with
// another, cut or filled in wrongly on its way through the controller is noticed.
#ifndef BATON_TESTS_SIMULATION_PARTS_WIRE_H_
#define BATON_TESTS_SIMULATION_PARTS_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "baton/v1/experience.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/data_set/data_set.h"
#include "tests/simulation/parts/messages.h"

namespace baton::simulation {

/// The token at `position` of a response.
int32_t TokenAt(uint64_t content, uint32_t position);

/// An example of the data files.
baton::Example DataExample(uint64_t prompt);

/// Nothing: a score brings no sound payload, or a response is asked for to another prompt than its
/// own.
std::optional<TaskMessage> ReadTask(const v1::Task& task);
v1::TaskResult MakeResult(const TaskMessage& task, const Result& result);
/// Tokens [offset, offset + count) of a response.
v1::Progress MakeProgress(const std::string& token, uint64_t content, uint32_t offset,
                          uint32_t count);

/// The response in a score or a batch, with its own reward. nullopt: its parts do not belong
/// together.
std::optional<Payload> ReadPayload(const v1::Trajectory& trajectory);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_WIRE_H_
