// Presets: named algorithms, each nothing but a dataflow graph plus defaults.
#ifndef BATON_CONTROLLER_CORE_PRESETS_H_
#define BATON_CONTROLLER_CORE_PRESETS_H_

#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// The presets a kind of job may name, the default first.
std::vector<std::string> PresetsOf(v1::JobKind kind);

/// The first of them; "" for a kind that has none.
std::string DefaultPreset(v1::JobKind kind);

/// The graph of an effective spec. The options of its nodes hold every number the node needs,
/// so that whoever runs the node reads the graph and not the spec.
v1::Dataflow MakeDataflow(const v1::JobSpec& effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PRESETS_H_
