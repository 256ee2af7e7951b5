#include "controller/runtime/submit/controller_scope.h"

#include "boost/asio/post.hpp"
#include "controller/access/caller.h"
#include "controller/runtime/job_files/job_folders.h"
#include "sdk/common/process/low_priority.h"

namespace baton::controller {

ControllerScope::ControllerScope(ControllerOptions given)
    : options(std::move(given)),
      paths(options.data_root, options.confine_paths, options.allowed_paths),
      store(std::move(options.store)),
      folder_bytes(options.data_root + "/jobs"),
      disk(static_cast<size_t>(options.disk_threads)),
      executors({options.strand_threads, options.reader_threads, options.data_threads,
                 options.large_data_bytes, access::ProjectOf},
                &gate, &disk),
      data_readers(&gate, options.data_threads, options.large_data_bytes),
      admission(boost::asio::make_strand(disk.get_executor())) {
  LowerPoolPriority(options.disk_threads,
                    [this](auto work) { boost::asio::post(disk, std::move(work)); });
  LowerPoolPriority(1, [this](auto work) { boost::asio::post(remover, std::move(work)); });
}

std::string ControllerScope::FolderOf(const std::string& job) const {
  return JobFolderOf(options.data_root, job);
}

void ControllerScope::OnAdmission(std::function<void()> work) {
  gate.Post(admission, std::move(work));
}

void ControllerScope::OnRemover(std::function<void()> work) {
  gate.Post(remover.get_executor(), std::move(work));
}

void ControllerScope::FindJob(const std::string& name,
                              std::function<void(const absl::Status&)> refused, Then then) const {
  ended->Find(FullJobName(name), [name, refused = std::move(refused), then = std::move(then)](
                                     const absl::StatusOr<std::shared_ptr<JobRuntime>>& job) {
    if (absl::IsNotFound(job.status())) return refused(NoSuchJob(name));
    if (!job.ok()) return refused(job.status());
    then(*job);
  });
}

void ControllerScope::DescribeJob(const std::string& name, const Callback<v1::Job>& done) const {
  if (const auto job = jobs.Get(name).job; job != nullptr) return job->Describe(done);
  done(ended->Describe(name));
}

}  // namespace baton::controller
