// ClusterService.Backup: sends the files one after the other.
#ifndef BATON_CONTROLLER_API_BACKUP_REACTOR_H_
#define BATON_CONTROLLER_API_BACKUP_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/cluster_service.pb.h"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/runtime/files/file_hasher.h"
#include "grpcpp/grpcpp.h"

namespace baton::api {

/// Reads on `files`, one piece at a time, and reads the next piece when the last is sent. So a slow
/// receiver costs no memory. Files of checkpoints are hashed as they are sent, and those that are
/// damaged are named at the end. Deletes itself.
class BackupReactor : public grpc::ServerWriteReactor<v1::BackupResponse> {
 public:
  /// `ended` gets the outcome.
  BackupReactor(controller::ControllerInterface* controller, boost::asio::thread_pool* files,
                std::function<void(const absl::Status&)> ended);
  /// Ends the call with an error.
  explicit BackupReactor(const absl::Status& refusal);

  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void Next();
  absl::Status Fill();
  void End(const absl::Status& status);

  boost::asio::thread_pool* const files_;
  const std::function<void(const absl::Status&)> ended_;
  // Touched only on files_, by one piece of work at a time.
  std::shared_ptr<controller::BackupFiles> set_;
  size_t next_ = 0;   // index of the next file
  int64_t left_ = 0;  // bytes of the current file that are left to send
  std::ifstream in_;
  controller::FileHasher hasher_;  // of the current file
  std::vector<std::string> skipped_, damaged_;
  bool last_sent_ = false;
  v1::BackupResponse message_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_BACKUP_REACTOR_H_
