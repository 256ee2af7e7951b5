// A program of a test's own in place of `baton-worker check`.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_CHECKER_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_CHECKER_H_

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "baton/v1/job_service.pb.h"

namespace baton::controller {

/// Writes a shell script that serves requests (sdk/common/contracts/check_protocol.h): it puts each
/// spec into `folder`/asked (and asked-$$, which other processes leave alone), runs `script`, which
/// may use $room (bytes) and $filtered (a folder), and answers what `folder`/answer holds by then.
/// Answers the script's path.
inline std::string WriteChecker(const std::string& folder, const std::string& script,
                                const v1::ValidateJobResponse& answer = {}) {
  std::ofstream(folder + "/answer") << answer.SerializeAsString();
  const std::filesystem::path path = folder + "/checker";
  std::ofstream(path) << "#!/bin/sh\n[ \"$*\" = check ] || exit 5\ncd " << folder
                      << "\nwhile read -r verb bytes seconds room filtered; do\n"
                      << "head -c \"$bytes\" > asked-$$\ncp asked-$$ asked\n"
                      << script << "\nprintf 'found %d\\n' \"$(wc -c < answer)\"\ncat answer\n"
                      << "done\n";
  ::chmod(path.c_str(), 0700);
  return path.string();
}

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_CHECKER_H_
