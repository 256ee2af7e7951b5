// The way back to the newest checkpoint.
//
// Owns nothing. Weights live on workers alone, so the loss of a rank that trains loses all that was
// learned since the checkpoint. Everything then goes back to how it stood: the step, the cursor of
// the prompts, the algorithm's state, what the job learned. The steps that follow are done anew, in
// a new incarnation, so nothing that belongs to the lost ones is taken for theirs.
#ifndef BATON_CONTROLLER_CORE_LOOP_WAY_BACK_H_
#define BATON_CONTROLLER_CORE_LOOP_WAY_BACK_H_

#include <cstdint>
#include <string>

namespace baton::controller {

struct JobParts;

/// Everything stands as it did when the newest checkpoint was saved. Gives the steps that are lost.
int64_t RollBack(JobParts& job);
/// Goes back, and forms the groups that train anew. `role`: the one that is lost, for `reason`;
/// empty: none is lost, and `reason` is the whole sentence.
void RecoverTrainer(const std::string& role, const std::string& reason, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_WAY_BACK_H_
