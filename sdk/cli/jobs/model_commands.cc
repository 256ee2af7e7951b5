// export and generate.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/util/json_util.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/sibling_program.h"

namespace baton::cli {
namespace {

// A line on how much of the update a type coarser than that of training keeps; empty for float32.
std::string WhatItKeeps(const v1::ExportCheckpointResponse& exported) {
  const std::string& dtype = exported.dtype();
  if (dtype.empty() || dtype == "float32") return "";
  constexpr char kRemedy[] = "; without --dtype the weights are float32, which keeps all of it\n";
  if (!exported.has_changed_weights()) {
    return absl::StrCat(dtype,
                        " rounds small changes away; how much of the update it keeps is not known, "
                        "since the model that the job began with cannot be read (or it began with "
                        "random weights)",
                        kRemedy);
  }
  if (exported.changed_weights() == 0) return "training has changed no weight\n";
  const double share = 100. * static_cast<double>(exported.kept_weights()) /
                       static_cast<double>(exported.changed_weights());
  return absl::StrFormat(
      "%s keeps %.1f%% of the update: of %d weights that training changed, %d still differ from "
      "the model that it began with%s",
      dtype, share, exported.changed_weights(), exported.kept_weights(), kRemedy);
}

// Suggested commands for the model of a job: the prompts of `generate` should look as in the job.
std::string HowToTry(const v1::JobSpec& spec, const std::string& directory) {
  if (spec.kind() == v1::JOB_KIND_REWARD_MODEL) {
    return absl::StrCat("it scores responses: name it in reward_model.model.path of a spec (",
                        directory, ")");
  }
  const std::string& named = spec.model().chat_template();
  std::string prompts = named == "none" ? " --raw" : "";
  // The folder has the model's own template, if any; one that is built into Baton is named.
  if (!named.empty() && named != "auto" && named != "model" && named != "none") {
    prompts = absl::StrCat(" --chat-template ", named);
  }
  if (std::string kwargs;
      !spec.model().chat_template_kwargs().fields().empty() &&
      google::protobuf::util::MessageToJsonString(spec.model().chat_template_kwargs(), &kwargs)
          .ok()) {
    absl::StrAppend(&prompts, " --chat-template-kwargs '",
                    absl::StrReplaceAll(kwargs, {{"'", "'\\''"}}), "'");
  }
  return absl::StrCat("try it: baton generate --model ", directory, prompts, " --prompt '…'");
}

int Export(const GlobalOptions& options, v1::ExportCheckpointRequest request) {
  const std::string job = request.name(), directory = request.directory();
  auto client = MakeClient(options);
  request.set_directory(std::filesystem::absolute(directory).string());
  auto exported = client->ExportCheckpoint(std::move(request));
  if (!exported.ok()) return Fail(options, exported.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*exported).c_str());
  } else {
    const auto made_by = client->GetJob(job);
    std::printf(
        "step %ld of %s is in %s\n%s%s\n", static_cast<long>(exported->step()), job.c_str(),
        exported->directory().c_str(), WhatItKeeps(*exported).c_str(),
        HowToTry(made_by.ok() ? made_by->effective_spec() : v1::JobSpec(), directory).c_str());
  }
  return kOk;
}

// The engine lives in the worker's program, which becomes this process. It calls itself what the
// user typed.
int Generate(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"baton", "generate"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::string failed = BecomeSibling("baton-worker", std::move(all));
  std::fprintf(stderr, "baton: %s\n", failed.c_str());
  return kFailed;
}

}  // namespace

void AddModelCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* exporting = app.add_subcommand("export", "Write a checkpoint as a Hugging Face directory");
  AddOutput(exporting, options);
  auto job = std::make_shared<std::string>();
  auto directory = std::make_shared<std::string>();
  auto step = std::make_shared<int64_t>(0);
  auto best = std::make_shared<bool>(false);
  exporting->add_option("job", *job, "The job's name")->required();
  exporting->add_option("dir", *directory, "A folder that does not exist yet, or is empty")
      ->required();
  auto* of_step =
      exporting->add_option("--step", *step, "The checkpoint's step; default: the newest");
  exporting->add_flag("--best", *best, "The best checkpoint, by the job's trainer.keep_best")
      ->excludes(of_step);
  auto dtype = std::make_shared<std::string>();
  exporting
      ->add_option("--dtype", *dtype,
                   "Type of the weights; default: float32, in which they are trained. bfloat16 and "
                   "float16 round small changes away, and it is told how many")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  exporting->callback([=] {
    v1::ExportCheckpointRequest request;
    request.set_name(*job);
    request.set_directory(*directory);
    request.set_step(*step);
    request.set_dtype(*dtype);
    if (*best) request.set_best(true);
    *code = Export(*options, std::move(request));
  });

  auto* generate =
      app.add_subcommand("generate",
                         "Try a model: baton generate --model DIR --prompt TEXT (a user's message "
                         "if the model has a chat template), or --prompts FILE "
                         "--out FILE for many prompts");
  generate->prefix_command();
  generate->fallthrough(false);  // what it is given is for the other program
  generate->set_help_flag();
  generate->callback([=] { *code = Generate(generate->remaining()); });
}

}  // namespace baton::cli
