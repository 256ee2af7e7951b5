// Which uploaded files are named by jobs.
#ifndef BATON_CONTROLLER_RUNTIME_NAMED_UPLOADS_H_
#define BATON_CONTROLLER_RUNTIME_NAMED_UPLOADS_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "controller/store/store.h"
#include "google/protobuf/message.h"

namespace baton::controller {

struct NamedUploads {
  std::set<std::string> paths;    ///< Relative to the data root; a folder stands for all below it.
  std::set<std::string> unknown;  ///< Projects that have a job whose spec cannot be read.

  /// Whether the upload at `path` must stay. `project`: empty for one of an earlier release, which
  /// every project may name.
  bool Has(const std::string& path, const std::string& project) const;
  /// Adds what a path, a text (a path or a command with some), or the texts of a message name below
  /// `data_root`. Links are not followed.
  void AddPath(const std::string& path, const std::string& data_root);
  void AddText(const std::string& text, const std::string& data_root);
  void AddTexts(const google::protobuf::Message& message, const std::string& data_root);
};

/// What is named by the jobs of the store, and by the checkpoints in folders of jobs, those of jobs
/// that the store has lost too. Blocks. CANCELLED once `stop` says so; errors of the store;
/// UNAVAILABLE: a folder cannot be read.
absl::StatusOr<NamedUploads> FindNamedUploads(store::Store& store, const std::string& data_root,
                                              const std::function<bool()>& stop);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_NAMED_UPLOADS_H_
