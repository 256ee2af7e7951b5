// Byte-by-byte comparison of two checkpoints: both sides are read completely.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_COMPARE_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_COMPARE_FILES_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/replay_service.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

/// A side of the comparison.
struct ComparedSide {
  std::string name;                 ///< For people: "the job", "the replay".
  std::filesystem::path folder;     ///< The files lie here …
  std::vector<v1::FileHash> files;  ///< … with the sizes and hashes that were noted when they were
                                    ///< saved.
};

struct Comparison {
  std::vector<v1::ComparedFile> same;  ///< Read on both sides, with the same bytes.
  /// The first file that is not the same, and why: it is missing, or damaged since it was saved, or
  /// differs. Empty: all files of both sides are in `same`.
  std::string difference;
};

/// Compares the files of both sides, byte by byte, and each with its noted hash. Blocks for as long
/// as reading takes. `stop`: polled now and then; true ends it with CANCELLED.
absl::StatusOr<Comparison> CompareFiles(const ComparedSide& one, const ComparedSide& other,
                                        const std::function<bool()>& stop = nullptr);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_COMPARE_FILES_H_
