// submit, resume: jobs that begin, and jobs that go on.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "sdk/cli/options.h"
#include "sdk/client/spec_warnings.h"
#include "sdk/client/spec_yaml.h"
#include "sdk/rpc/error.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

struct SubmitFlags {
  std::string file;
  std::string checkpoint;
  std::string name;
  std::string request_id;
  std::vector<std::string> sets;
  bool watch = false;
  bool dry_run = false;
};

// What the controller calls a file -> what its user does.
using LocalNames = std::map<std::string, std::string>;

// Replaces local files by what the upload answers; `folder` is the spec's.
absl::Status Upload(Client& client, const fs::path& folder,
                    google::protobuf::RepeatedPtrField<std::string>* files, LocalNames* names) {
  for (std::string& file : *files) {
    if (absl::StartsWith(file, "files/")) continue;
    const fs::path path = fs::path(file).is_absolute() ? fs::path(file) : folder / file;
    std::error_code code;
    if (!fs::is_regular_file(path, code)) {
      return absl::NotFoundError(absl::StrCat("data file ", path.string(), " does not exist"));
    }
    auto uploaded = client.UploadFile(path.string());
    if (!uploaded.ok()) return uploaded.status();
    (*names)[*uploaded] = path.string();
    file = *uploaded;
  }
  return absl::OkStatus();
}

// What the spec says relative to its own folder is made absolute, or uploaded.
absl::Status Localise(Client& client, const fs::path& folder, v1::JobSpec* spec,
                      LocalNames* names) {
  if (spec->has_data()) {
    v1::DataSpec* data = spec->mutable_data();
    for (auto* files :
         {data->mutable_train_files(), data->mutable_val_files(), data->mutable_pretrain_files()}) {
      const absl::Status status = Upload(client, folder, files, names);
      if (!status.ok()) return status;
    }
  }
  std::vector<v1::ModelSpec*> models = {spec->mutable_model()};
  if (spec->has_critic()) models.push_back(spec->mutable_critic()->mutable_model());
  if (spec->has_cost_critic()) models.push_back(spec->mutable_cost_critic()->mutable_model());
  if (spec->has_reference()) models.push_back(spec->mutable_reference()->mutable_model());
  if (spec->has_reward_model()) models.push_back(spec->mutable_reward_model()->mutable_model());
  if (spec->has_cost_model()) models.push_back(spec->mutable_cost_model()->mutable_model());
  if (spec->has_judge()) models.push_back(spec->mutable_judge()->mutable_model());
  for (v1::ModelSpec* model : models) {
    const std::string path = model->path();
    std::error_code code;
    if (!path.empty() && !absl::StartsWith(path, "job:") && fs::is_directory(folder / path, code)) {
      model->set_path(fs::absolute(folder / path).lexically_normal().string());
    }
  }
  if (spec->reward().has_command() && !spec->reward().has_working_dir()) {
    spec->mutable_reward()->set_working_dir(fs::absolute(folder).lexically_normal().string());
  }
  return absl::OkStatus();
}

// Messages speak of the user's files, not of their copies under the data root.
std::vector<SpecProblem> WithLocalNames(std::vector<SpecProblem> problems,
                                        const LocalNames& names) {
  for (SpecProblem& problem : problems) {
    for (const auto& [uploaded, local] : names) {
      const size_t end = problem.message.find(uploaded);
      if (end == std::string::npos) continue;
      const size_t space = problem.message.rfind(' ', end);
      const size_t begin = space == std::string::npos ? 0 : space + 1;
      problem.message.replace(begin, end - begin + uploaded.size(), local);
    }
  }
  return problems;
}

int BadSpec(const GlobalOptions& options, const std::string& file,
            const std::vector<SpecProblem>& problems) {
  std::fprintf(stderr, "baton: the spec has %zu problem%s\n%s", problems.size(),
               problems.size() == 1 ? "" : "s", FormatProblems(file, problems).c_str());
  return kUsage;
}

// Adds what the controller says of a spec that has problems already, but for paths at or around
// one of these: a value that could not be read is not also missing.
void AddViolations(const v1::ValidateJobResponse& checked, const LocalNames& names,
                   ParsedSpec* parsed) {
  const std::vector<SpecProblem> known = parsed->problems;
  const auto more = WithLocalNames(
      LocateViolations(*parsed, {checked.violations().begin(), checked.violations().end()}), names);
  for (const SpecProblem& problem : more) {
    const bool told = std::any_of(known.begin(), known.end(), [&](const SpecProblem& k) {
      return k.path == problem.path || absl::StartsWith(k.path, problem.path + ".");
    });
    if (!told) parsed->problems.push_back(problem);
  }
  std::stable_sort(parsed->problems.begin(), parsed->problems.end(),
                   [](const SpecProblem& a, const SpecProblem& b) { return a.line < b.line; });
}

// On stderr, so that what is piped stays a spec or JSON.
void Warn(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  for (const std::string& warning : SpecWarnings(effective, dataflow)) {
    std::fprintf(stderr, "baton: warning: spec.%s\n", warning.c_str());
  }
}

int Submitted(const GlobalOptions& options, Client& client, const SubmitFlags& flags,
              const v1::Job& job) {
  const std::string name = ShortJobName(job.name());
  Warn(job.effective_spec(), job.dataflow());
  if (flags.watch) {
    if (!options.json()) std::printf("%s is submitted\n", name.c_str());
    return WatchToEnd(options, client, job.name(), 0);
  }
  if (options.json()) {
    std::printf("%s\n", ToJson(job).c_str());
  } else {
    std::printf("%s is submitted; follow it with `baton watch %s`\n", name.c_str(), name.c_str());
  }
  return kOk;
}

// A checkpoint is a folder, and all that its job needs to go on; a job's folder means its newest.
int SubmitCheckpoint(const GlobalOptions& options, const SubmitFlags& flags) {
  std::error_code code;
  const std::string folder =
      fs::is_directory(flags.checkpoint, code)
          ? fs::absolute(flags.checkpoint).lexically_normal().string()
          : flags.checkpoint;  // the controller may see what this machine does not
  auto client = MakeClient(options);
  const auto job = client->CreateJobFrom(folder, flags.name, flags.request_id);
  if (!job.ok()) return Fail(options, job.status());
  return Submitted(options, *client, flags, *job);
}

int Submit(const GlobalOptions& options, const SubmitFlags& flags) {
  if (flags.file.empty() == flags.checkpoint.empty()) {
    std::fprintf(stderr, "baton: give a spec or --checkpoint\n");
    return kUsage;
  }
  if (!flags.checkpoint.empty()) {
    if (flags.sets.empty() && !flags.dry_run) return SubmitCheckpoint(options, flags);
    std::fprintf(stderr, "baton: a checkpoint goes on with its own spec: no --set, no --dry-run\n");
    return kUsage;
  }
  std::ifstream in(flags.file);
  if (!in) {
    std::fprintf(stderr, "baton: %s cannot be opened\n", flags.file.c_str());
    return kUsage;
  }
  std::stringstream text;
  text << in.rdbuf();
  ParsedSpec parsed = ParseSpecYaml(text.str(), flags.sets);
  auto client = MakeClient(options);
  const fs::path folder = fs::absolute(flags.file).parent_path();
  LocalNames names;
  if (!parsed.problems.empty()) {
    // What could be read is checked too, so that all problems are told at once.
    if (Localise(*client, folder, &parsed.spec, &names).ok()) {
      if (const auto checked = client->ValidateJob(parsed.spec); checked.ok()) {
        AddViolations(*checked, names, &parsed);
      }
    }
    return BadSpec(options, flags.file, parsed.problems);
  }
  const absl::Status localised = Localise(*client, folder, &parsed.spec, &names);
  if (!localised.ok()) return Fail(options, localised);
  if (flags.dry_run) {
    auto checked = client->ValidateJob(parsed.spec);
    if (!checked.ok()) return Fail(options, checked.status());
    if (checked->violations_size() > 0) {
      return BadSpec(options, flags.file,
                     WithLocalNames(LocateViolations(parsed, {checked->violations().begin(),
                                                              checked->violations().end()}),
                                    names));
    }
    Warn(checked->effective_spec(), checked->dataflow());
    std::printf("%s", options.json() ? (ToJson(*checked) + "\n").c_str()
                                     : WithUnits(SpecToYaml(checked->effective_spec())).c_str());
    return kOk;
  }
  auto job = client->CreateJob(parsed.spec, flags.name, flags.request_id);
  if (!job.ok()) {
    auto violations = ErrorViolations(job.status());
    if (violations.empty()) return Fail(options, job.status());
    // An error carries as many as fit; here are all.
    if (const auto checked = client->ValidateJob(parsed.spec);
        checked.ok() && checked->violations_size() > 0) {
      violations = {checked->violations().begin(), checked->violations().end()};
    }
    return BadSpec(options, flags.file,
                   WithLocalNames(LocateViolations(parsed, violations), names));
  }
  return Submitted(options, *client, flags, *job);
}

int Resume(const GlobalOptions& options, const std::string& job, const SubmitFlags& flags) {
  if (job.empty() == flags.checkpoint.empty()) {
    std::fprintf(stderr, "baton: give a paused job, or --from with a folder\n");
    return kUsage;
  }
  if (!flags.checkpoint.empty()) return SubmitCheckpoint(options, flags);
  if (!flags.name.empty()) {
    std::fprintf(stderr, "baton: --name goes with --from\n");
    return kUsage;
  }
  auto client = MakeClient(options);
  const auto resumed = client->ResumeJob(job);
  if (!resumed.ok()) return Fail(options, resumed.status());
  const std::string name = ShortJobName(resumed->name());
  if (flags.watch) return WatchToEnd(options, *client, resumed->name(), 0);
  if (options.json()) {
    std::printf("%s\n", ToJson(*resumed).c_str());
  } else {
    std::printf("%s is %s\n", name.c_str(),
                v1::Job::State_Name(resumed->state()).substr(6).c_str());
  }
  return kOk;
}

void AddResumeCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* resume = app.add_subcommand(
      "resume", "Let a paused job go on, or a job whose controller lost it, from its folder");
  AddOutput(resume, options);
  auto flags = std::make_shared<SubmitFlags>();
  auto job = std::make_shared<std::string>();
  resume->add_option("job", *job, "The name of a paused job");
  resume->add_option("--from", flags->checkpoint,
                     "Instead: a job's folder (DATA_ROOT/jobs/PROJECT/JOB: its newest checkpoint), "
                     "or a checkpoint's; a job that the controller does not know goes on there, "
                     "under its name");
  resume->add_option("--name", flags->name, "With --from: another name, for a copy");
  resume->add_flag("--watch", flags->watch, "Follow it to its end");
  resume->callback([=] { *code = Resume(*options, *job, *flags); });
}

}  // namespace

void AddSubmitCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* submit = app.add_subcommand("submit", "Submit a job described in YAML");
  AddOutput(submit, options);
  auto flags = std::make_shared<SubmitFlags>();
  submit->add_option("file", flags->file, "The spec, e.g. job.yaml");
  submit->add_option("--checkpoint", flags->checkpoint,
                     "Instead of a spec: go on from this folder (…/checkpoints/step-N, or a job's, "
                     "whose newest it means) of any job");
  submit->add_option("--name", flags->name, "The job's name (1-63 of a-z, 0-9, '-')");
  submit->add_option("--set", flags->sets,
                     "Override a value: --set trainer.total_training_steps=9");
  submit->add_option("--request-id", flags->request_id,
                     "Submitting again with the same id answers the first job");
  submit->add_flag("--watch", flags->watch, "Follow it to its end");
  submit->add_flag("--dry-run", flags->dry_run, "Check it and print the effective spec");
  submit->callback([=] { *code = Submit(*options, *flags); });
  AddResumeCommand(app, options, code);
}

}  // namespace baton::cli
