#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "bench/control_plane/control_plane.h"
#include "grpcpp/grpcpp.h"
#include "sdk/worker/worker.h"

namespace baton::bench {
namespace {

void RunSdkWorker(const std::string& controller, int number, int credits) {
  WorkerOptions options;
  options.controller = controller;
  options.worker_id = absl::StrCat("bench-", number);
  auto worker = Worker::Create(options);
  MethodOptions method;
  method.needs_role = false;
  method.on_reader_thread = true;
  const absl::Status registered = (*worker)->RegisterMethod(
      "reward", "compute_reward", credits,
      [](const v1::Task&, TaskContext&) -> absl::StatusOr<v1::TaskResult> {
        v1::TaskResult result;
        (*result.mutable_metrics())["reward"] = 1;
        return result;
      },
      method);
  if (!registered.ok() || !(*worker)->Run().ok()) std::fprintf(stderr, "bench worker failed\n");
}

void RunRawWorker(const std::string& controller, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("bench", number);  // a connection each
  auto stub = v1::WorkerService::NewStub(
      grpc::CreateCustomChannel(controller, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  auto stream = stub->Attach(&context);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id(absl::StrCat("bench-", number));
  stream->Write(hello);
  v1::ControllerMessage message;
  v1::WorkerMessage answer;
  while (stream->Read(&message)) {
    if (!message.has_task()) continue;
    answer.mutable_result()->set_task_token(message.task().task_token());
    (*answer.mutable_result()->mutable_metrics())["reward"] = 1;
    if (!stream->Write(answer)) break;
  }
}

}  // namespace

int RunWorkers(const std::string& controller, const std::string& kind, int workers, int credits) {
  std::signal(SIGTERM, [](int) { std::_Exit(0); });
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) {
    threads.emplace_back([=] {
      if (kind == "sdk") {
        RunSdkWorker(controller, i, credits);
      } else {
        RunRawWorker(controller, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace baton::bench
