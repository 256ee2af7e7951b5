// The costs of the control plane: `./dev bench control_plane [--json FILE]`.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "bench/control_plane/control_plane.h"
#include "bench/support/report.h"
#include "controller/api/api_server.h"
#include "controller/runtime/controller/controller.h"
#include "controller/store/sqlite_store.h"
#include "grpcpp/grpcpp.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"

namespace baton::bench {
namespace {

struct Flags {
  std::string json;
  bool quick = false;
  std::string controller, kind;  // of the child process
  int workers = 1, credits = 1;
};

// The median of CreateJob over gRPC, with the job's first rows in SQLite.
double CreateJobP50(const std::string& root, int jobs, store::SqliteOptions::Sync sync) {
  const std::string folder = absl::StrCat(root, "/create-", static_cast<int>(sync));
  std::filesystem::create_directories(folder);
  const std::string data = folder + "/prompts.jsonl";
  std::ofstream(data) << "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
  store::SqliteOptions sqlite;
  sqlite.sync = sync;
  auto store = store::SqliteStore::Open(folder + "/baton.db", sqlite);
  if (!store.ok()) return -1;
  controller::ControllerOptions options;
  options.data_root = folder;
  options.store = *std::move(store);
  auto controller = controller::Controller::Create(std::move(options));
  if (!controller.ok()) return -1;
  auto server = api::ApiServer::Start("127.0.0.1:0", api::Access(), controller->get());
  if (!server.ok()) return -1;
  auto stub = v1::JobService::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", (*server)->port()), grpc::InsecureChannelCredentials()));
  v1::CreateJobRequest request;
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_kind(v1::JOB_KIND_RL);
  spec->mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec->mutable_data()->add_train_files(data);
  spec->mutable_reward()->add_rules()->set_type("exact_match");
  spec->mutable_trainer()->set_total_training_steps(1);
  std::vector<double> milliseconds;
  for (int i = 0; i < jobs; ++i) {
    request.set_job_id(absl::StrCat("job-", i));
    request.set_request_id(absl::StrCat("request-", i));
    grpc::ClientContext context;
    v1::Job job;
    const absl::Time start = absl::Now();
    const grpc::Status status = stub->CreateJob(&context, request, &job);
    if (!status.ok()) {
      std::fprintf(stderr, "CreateJob: %s\n", status.error_message().c_str());
      return -1;
    }
    if (i >= jobs / 10) milliseconds.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
  }
  return Percentile(milliseconds, 0.5);
}

void AddDispatch(const Flags& flags, DispatchOptions options, Report& report) {
  options.tasks = flags.quick ? 500 : 5000;
  options.kind = "raw";
  const auto grpc = MeasureDispatch(options);
  options.kind = "sdk";
  const auto dispatch = MeasureDispatch(options);
  report.Add("dispatch_p50_us", Percentile(dispatch.latency_us, 0.5), "us", "aim <= 200");
  report.Add("dispatch_p99_us", Percentile(dispatch.latency_us, 0.99), "us");
  options.synced = true;
  const auto dispatch_synced = MeasureDispatch(options);
  options.synced = false;
  report.Add("dispatch_synced_p50_us", Percentile(dispatch_synced.latency_us, 0.5), "us",
             "every row synced to the disk");
  report.Add("grpc_p50_us", Percentile(grpc.latency_us, 0.5), "us", "the same without store, SDK");

  options.workers = 8;
  options.window = 16;
  options.tasks = flags.quick ? 5000 : 100'000;
  const auto many = MeasureDispatch(options);
  options.synced = true;
  const auto many_synced = MeasureDispatch(options);
  options.kind = "raw";
  const auto bare = MeasureDispatch(options);
  report.Add(
      "tasks_per_second", many.tasks_per_second, "tasks/s",
      absl::StrCat("aim >= 20000; ", many.result_rows, " of ", many.tasks, " result rows found"));
  report.Add("tasks_per_second_synced", many_synced.tasks_per_second, "tasks/s",
             "every row synced to the disk");
  report.Add("grpc_messages_per_second", bare.tasks_per_second, "tasks/s",
             "bare: a task and its answer each, no store, no SDK");
  report.Add("tasks_over_grpc", many.tasks_per_second / bare.tasks_per_second, "x", "aim >= 0.5");
  report.Add("dispatch_over_grpc",
             Percentile(dispatch.latency_us, 0.5) / Percentile(grpc.latency_us, 0.5), "x",
             "p50 over bare p50; aim <= 2");
}

// The cost of payloads on the wire and in the controller.
bool AddData(const Flags& flags, const std::string& folder, Report& report) {
  const DataResult data = MeasureData(folder, flags.quick ? 32 : 1024);
  if (!data.error.empty()) {
    std::fprintf(stderr, "data: %s\n", data.error.c_str());
    return false;
  }
  const auto ratio = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  report.Add("fetch_bytes_over_share", ratio(data.fetched_bytes, data.payload_bytes), "x",
             absl::StrCat("dp 4, mean of the ranks; aim <= 1.05; ", data.trajectories,
                          " trajectories of ", data.payload_bytes, " bytes"));
  report.Add("score_bytes_over_inputs", ratio(data.score_bytes, data.input_bytes), "x",
             "reference and critic; aim <= 1.1");
  report.Add("controller_bytes_per_trajectory", ratio(data.controller_bytes, data.trajectories),
             "bytes",
             absl::StrCat("resident while the batch can be fetched; a payload has ",
                          data.payload_bytes / data.trajectories));
  report.Add("controller_bytes_over_payload", ratio(data.controller_bytes, data.payload_bytes), "x",
             "aim <= 1.5");
  report.Add("controller_peak_over_payload", ratio(data.peak_bytes, data.payload_bytes), "x",
             "with what was free and not given back to the machine yet");
  return true;
}

// Every source of a data set could be a series of its own, in each row and each event of the job.
bool AddSources(const Flags& flags, const std::string& folder, Report& report) {
  SourcesOptions options;
  options.folder = folder;
  options.examples = flags.quick ? 2000 : 40'000;
  options.steps = flags.quick ? 30 : 200;
  options.sources = 1;
  const SourcesResult one = MeasureSources(options);
  options.sources = options.examples;
  const SourcesResult many = MeasureSources(options);
  for (const SourcesResult* result : {&one, &many}) {
    if (!result->error.empty()) std::fprintf(stderr, "sources: %s\n", result->error.c_str());
  }
  if (!one.error.empty() || !many.error.empty()) return false;
  const double few_ms = Percentile(one.step_ms, 0.5), many_ms = Percentile(many.step_ms, 0.5);
  report.Add("step_one_source_p50_ms", few_ms, "ms",
             absl::StrCat("8 responses, after an evaluation of ", options.examples, " examples"));
  report.Add("step_many_sources_p50_ms", many_ms, "ms",
             absl::StrCat("the same, and each example has a source of its own: ", many.series,
                          " series, ", one.series, " before"));
  report.Add("step_many_sources_p99_ms", Percentile(many.step_ms, 0.99), "ms");
  report.Add("step_many_sources_ratio", many_ms / few_ms, "x", "aim: 1");
  report.Add("evaluation_many_sources_ratio", many.evaluation_seconds / one.evaluation_seconds, "x",
             absl::StrCat(many.evaluation_seconds, " s"));
  return true;
}

int RunBench(const Flags& flags, const std::string& program) {
  const TestFolder folder;
  Report report("control_plane");
  DispatchOptions options;
  options.program = program;
  options.folder = folder.path();
  AddDispatch(flags, options, report);
  const CoreResult core = MeasureCore(flags.quick ? 1 : 2);
  report.Add("core_events_per_second", core.events_per_second, "events/s",
             absl::StrCat("aim >= 200000; ", core.effects, " effects"));
  using Sync = store::SqliteOptions::Sync;
  const int jobs = flags.quick ? 20 : 200;
  report.Add("create_job_p50_ms", CreateJobP50(folder.path(), jobs, Sync::kAsked), "ms",
             "its rows are synced to the disk");
  report.Add("create_job_unsynced_p50_ms", CreateJobP50(folder.path(), jobs, Sync::kNone), "ms",
             "the same without");
  bool whole = AddData(flags, folder.path(), report);
  whole = AddSources(flags, folder.path(), report) && whole;
  report.Print();
  std::printf("  event mix:");
  for (const auto& [kind, count] : core.mix) {
    std::printf(" %s %llu", kind.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("\n");
  if (!flags.json.empty() && !report.WriteJson(flags.json)) return 1;
  return whole ? 0 : 1;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) {
  baton::bench::Flags flags;
  CLI::App app(
      "Measures the control plane: dispatch, the core, CreateJob, payloads, data of many sources.");
  app.add_option("--json", flags.json, "Write the rows here");
  app.add_flag("--quick", flags.quick, "Fewer repetitions");
  CLI::App* worker = app.add_subcommand("worker", "The child process; not for people");
  worker->add_option("--controller", flags.controller)->required();
  worker->add_option("--kind", flags.kind)->required();
  worker->add_option("--workers", flags.workers);
  worker->add_option("--credits", flags.credits);
  CLI11_PARSE(app, argc, argv);
  baton::InitLog({baton::LogLevel::kWarn, "", "control_plane_bench"});
  if (worker->parsed()) {
    return baton::bench::RunWorkers(flags.controller, flags.kind, flags.workers, flags.credits);
  }
  return baton::bench::RunBench(flags, std::filesystem::canonical("/proc/self/exe").string());
}
