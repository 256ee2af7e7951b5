// Drive Baton from a program: link Baton::client.
//
//   #include <cstdio>
//
//   #include <baton/client.h>
//
//   int main() {
//     const baton::ParsedSpec parsed = baton::ParseSpecYaml("kind: rl\n…", {});
//     auto client = baton::Client::Connect("127.0.0.1:7077");
//     if (!client.ok() || !parsed.problems.empty()) return 1;
//     auto job = (*client)->CreateJob(parsed.spec, /*job_id=*/"", /*request_id=*/"");
//     if (!job.ok()) return 1;
//     auto print = [](const baton::v1::JobEvent& event) {
//       std::puts(event.message().c_str());
//       return true;  // false: stop watching
//     };
//     return (*client)->WatchJob(job->name(), /*after_revision=*/0, print).ok() ? 0 : 1;
//   }
//
// Client::ListTrajectories reads the responses of a job, Client::ListMetrics its metrics. Errors
// have a reason for programs to compare (ErrorReason; docs/errors.md). docs/embed.md says how to
// build such a program.
#ifndef BATON_SDK_INCLUDE_BATON_CLIENT_H_
#define BATON_SDK_INCLUDE_BATON_CLIENT_H_

#include "sdk/client/client.h"         // Client, ClientOptions
#include "sdk/client/spec_warnings.h"  // SpecWarnings, WithUnits
#include "sdk/client/spec_yaml.h"      // ParseSpecYaml, FormatProblems
#include "sdk/common/rpc/error.h"      // ErrorReason, ErrorViolations

#endif  // BATON_SDK_INCLUDE_BATON_CLIENT_H_
