#include "bench/bench_worker.h"

#include <cstdio>
#include <memory>

#include "baton/v1/worker_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "sdk/worker/worker.h"

namespace baton::bench {

int RunSdkWorker(const std::string& address, const std::string& id) {
  WorkerOptions options;
  options.controller = address;
  options.worker_id = id;
  auto worker = Worker::Create(options);
  if (!worker.ok()) {
    std::fprintf(stderr, "%s\n", worker.status().ToString().c_str());
    return 1;
  }
  MethodOptions method;
  method.needs_role = false;
  method.on_reader_thread = true;
  absl::Status status = (*worker)->RegisterMethod(
      "reward", "compute_reward", 64,
      [](const v1::Task&, TaskContext&) -> absl::StatusOr<v1::TaskResult> {
        v1::TaskResult result;
        (*result.mutable_metrics())["reward"] = 1;
        return result;
      },
      method);
  if (status.ok()) status = (*worker)->Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

int RunBareWorker(const std::string& address, const std::string& id) {
  auto stub =
      v1::WorkerService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Attach(&context);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id(id);
  stream->Write(hello);
  for (v1::ControllerMessage message; stream->Read(&message);) {
    if (!message.has_task()) continue;
    v1::WorkerMessage answer;
    answer.mutable_result()->set_task_token(message.task().task_token());
    (*answer.mutable_result()->mutable_metrics())["reward"] = 1;
    stream->Write(answer);
  }
  return 0;
}

}  // namespace baton::bench
