// Whole saved jobs from anybody, fed into CreateJob: each is refused with a reason, or is a job
// that the controller can keep, and that the next controller can restore.
//
// The real Controller with a store in memory. A good checkpoint is made first, and then its files
// are changed: fields of the row, bytes of its JSON, or the files that the manifest names. Random
// bytes alone are rarely a job.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "baton/v1/worker_service.pb.h"
#include "controller/core/loop/job_core.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/files/json_file.h"
#include "controller/spec/job_spec/spec.h"
#include "controller/store/memory_store.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/controller.h"

namespace {

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::controller;

void Require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

// One folder for the process, emptied for each input.
const std::string& Root() {
  static const baton::TestFolder folder(baton::TestFolder::InMemory());
  return folder.path();
}

std::unique_ptr<Controller> Open(const std::shared_ptr<store::MemoryStore>& store) {
  ControllerOptions options;
  options.data_root = Root();
  options.store = std::make_unique<SharedStore>(store);
  auto controller = Controller::Create(std::move(options));
  Require(controller.ok(), "a saved job keeps no controller from its start");
  return *std::move(controller);
}

store::v1::JobRow GoodRow(FuzzedDataProvider& input) {
  v1::JobSpec spec = SmallRlSpec(Root() + "/train.jsonl");
  if (input.ConsumeBool()) spec.mutable_algorithm()->set_mode("async");
  if (input.ConsumeBool()) spec.mutable_rollout()->set_n(2);
  const CheckedSpec checked = CheckSpec(spec);
  v1::Job job;
  job.set_name("projects/default/jobs/saved");
  job.set_uid("u");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  store::v1::JobRow row = JobCore(job, 1, {}).Row();
  row.mutable_job()->set_step(input.ConsumeIntegralInRange(0, 3));
  return row;
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Some bytes of the text become others.
void Damage(FuzzedDataProvider& input, std::string* text) {
  for (int i = input.ConsumeIntegralInRange(0, 4); i > 0 && !text->empty(); --i) {
    const size_t at = input.ConsumeIntegralInRange<size_t>(0, text->size() - 1);
    text->replace(at, input.ConsumeIntegralInRange<size_t>(0, 8),
                  input.ConsumeRandomLengthString(16));
  }
}

void WriteCheckpoint(FuzzedDataProvider& input, const fs::path& folder) {
  store::v1::JobRow row = GoodRow(input);
  // Fields of the bytes take the place of the row's; what repeats is added to.
  row.MergeFromString(input.ConsumeRandomLengthString(256));
  v1::CheckpointManifest manifest;
  v1::FileHash* file = manifest.add_files();
  file->set_path("actor/config.json");
  file->set_size_bytes(2);
  manifest.MergeFromString(input.ConsumeRandomLengthString(64));
  auto job = JsonText(row);
  auto files = JsonText(manifest);
  std::string job_text = job.ok() ? *job : "{}", files_text = files.ok() ? *files : "{}";
  Damage(input, &job_text);
  Damage(input, &files_text);
  Write(folder / "actor/config.json", "{}");
  Write(folder / "job.json", job_text);
  Write(folder / "files.json", files_text);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  baton::SilenceLog();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  for (const auto& entry : fs::directory_iterator(Root())) fs::remove_all(entry.path());
  Write(Root() + "/train.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  WriteCheckpoint(input, Root() + "/saved");
  const auto store = std::make_shared<store::MemoryStore>();
  auto controller = Open(store);
  v1::CreateJobRequest request;
  request.set_checkpoint(Root() + "/saved");
  request.set_job_id("j");
  if (input.ConsumeBool()) {
    request.mutable_changes()->mutable_trainer()->set_total_training_steps(20);
    request.mutable_changes()->MergeFromString(input.ConsumeRandomLengthString(32));
  }
  const auto made = Wait<v1::Job>([&](auto done) { controller->CreateJob(request, done); });
  Require(made.ok() || !ErrorReason(made.status()).empty() ||
              made.status().code() == absl::StatusCode::kInvalidArgument,
          "a refusal has its reason");
  controller = nullptr;
  controller = Open(store);
  if (!made.ok()) return 0;
  v1::GetJobRequest get;
  get.set_name("j");
  const auto job = Wait<v1::Job>([&](auto done) { controller->GetJob(get, done); });
  Require(job.ok() && job->uid() == made->uid(), "a job that was accepted is there");
  const absl::Status error = FromProto(job->error());
  if (!error.ok()) std::fprintf(stderr, "%s\n", std::string(error.message()).c_str());
  Require(ErrorReason(error) != "QUARANTINED", "a job that was accepted can be restored");
  return 0;
}
