// Flow of prompt groups from their beginning to a batch: complete groups are judged, and groups
// that no batch may consume are dropped.
#ifndef BATON_CONTROLLER_CORE_LOOP_GROUP_FLOW_H_
#define BATON_CONTROLLER_CORE_LOOP_GROUP_FLOW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// A response of an open group is READY. Once all of them are, the group is judged: it waits for a
/// batch, or is given up.
void NoteGroupReady(uint64_t prompt_index, JobParts& job);
/// After a restart: judges the complete groups by prompt index. The order in which they were
/// completed is not stored.
void JudgeRestoredGroups(JobParts& job);
/// FAILED_PRECONDITION: so many groups were zero-advantage that the step would never have enough
/// others (algorithm.max_num_gen_batches).
absl::Status CheckFilteredGroups(const JobParts& job);
/// Drops groups that no batch may consume any more.
void DropStaleGroups(JobParts& job);
/// Groups that have waited for their stragglers for schedule.group_timeout_seconds go on without
/// them, if they have schedule.min_group_size responses. Call it every few seconds.
void GiveUpStragglers(JobParts& job);
/// The groups of the next batch, by the job's sampler; empty: there are not enough.
std::vector<uint64_t> SampleGroups(JobParts& job);
/// Adds staleness/* of the batch; buffer/* and refresh/* if the job's groups may be of older
/// weights; and the work given up since the last step.
void AddGroupMetrics(const JobParts& job, std::map<std::string, double>& metrics);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_GROUP_FLOW_H_
