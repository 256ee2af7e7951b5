// Search for the uploaded files that jobs name.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_NAMED_UPLOADS_H_
#define BATON_CONTROLLER_RUNTIME_FILES_NAMED_UPLOADS_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "controller/store/store.h"
#include "google/protobuf/message.h"

namespace baton::controller {

struct NamedUploads {
  /// Relative to the data root; a folder stands for all files below it.
  std::set<std::string> paths;
  std::set<std::string> unknown;  ///< Projects that have a job whose spec cannot be read.

  /// True if the upload at `path`, of `project`, must stay.
  bool Has(const std::string& path, const std::string& project) const;
  /// Adds the paths below `data_root` that a path, a text (a path, or a command that contains
  /// paths), or the texts of a message name. Links are not followed.
  void AddPath(const std::string& path, const std::string& data_root);
  void AddText(const std::string& text, const std::string& data_root);
  void AddTexts(const google::protobuf::Message& message, const std::string& data_root);
};

/// The uploads that are named by the jobs of the store, and by the checkpoints in all folders of
/// jobs, also of jobs that the store has lost. Blocks. CANCELLED once `stop` answers true; errors
/// of the store; UNAVAILABLE: a folder cannot be read.
absl::StatusOr<NamedUploads> FindNamedUploads(store::Store& store, const std::string& data_root,
                                              const std::function<bool()>& stop);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_NAMED_UPLOADS_H_
