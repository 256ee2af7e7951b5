// submit, resume: jobs that begin, and jobs that go on.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/jobs/data_notes.h"
#include "sdk/cli/shared/home_paths.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/spec/spec_paths.h"
#include "sdk/cli/watch/commands.h"
#include "sdk/client/spec_warnings.h"
#include "sdk/client/spec_writer.h"
#include "sdk/client/spec_yaml.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/loopback.h"
#include "sdk/common/rpc/error.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

struct SubmitFlags {
  std::string file;
  std::string checkpoint;
  std::string name;
  std::string request_id;
  std::vector<std::string> sets;
  bool best = false;
  bool watch = false;
  bool dry_run = false;
};

// The controller's name of a file -> the user's name of it.
using LocalNames = std::map<std::string, std::string>;

// Problems that the controller need not report: the user is told of them already.
struct LocalProblems {
  std::vector<SpecProblem> absent;   // data files, and folders of models, that are not there
  std::vector<std::string> emptied;  // paths of models, and of lists that have no other file
};

// Replaces local files by what the upload answers; `folder` is the spec's, `field` the list's path.
// A file that is not there leaves the list.
absl::Status Upload(Client& client, const fs::path& folder, const std::string& field,
                    google::protobuf::RepeatedPtrField<std::string>* files, LocalNames* names,
                    LocalProblems* problems) {
  google::protobuf::RepeatedPtrField<std::string> there;
  for (int i = 0; i < files->size(); ++i) {
    const std::string& file = files->Get(i);
    const fs::path path = fs::path(file).is_absolute() ? fs::path(file) : folder / file;
    std::error_code code;
    if (absl::StartsWith(file, "files/")) {
      there.Add()->assign(file);
    } else if (fs::is_regular_file(path, code)) {
      auto uploaded = client.UploadFile(path.string());
      if (!uploaded.ok()) return uploaded.status();
      (*names)[*uploaded] = path.string();
      there.Add()->assign(*uploaded);
    } else {
      SpecProblem& problem = problems->absent.emplace_back();
      problem.path = absl::StrCat(field, "[", i, "]");
      problem.message = absl::StrCat(
          "data file ", path.string(),
          fs::exists(path, code) ? " is not a file; give a JSONL file" : " does not exist");
    }
  }
  if (there.empty() && !files->empty()) problems->emptied.push_back(field);
  files->Swap(&there);
  return absl::OkStatus();
}

// Paths relative to the spec's folder, or to the user's home (~), are made absolute, or the files
// are uploaded. Only a controller on this machine sees the folder.
absl::Status Localise(const GlobalOptions& options, Client& client, const fs::path& folder,
                      v1::JobSpec* spec, LocalNames* names, LocalProblems* problems) {
  ExpandHomes(spec);
  if (spec->has_data()) {
    v1::DataSpec* data = spec->mutable_data();
    for (const auto& [field, files] :
         {std::pair("data.train_files", data->mutable_train_files()),
          std::pair("data.val_files", data->mutable_val_files()),
          std::pair("data.pretrain_files", data->mutable_pretrain_files())}) {
      const absl::Status status = Upload(client, folder, field, files, names, problems);
      if (!status.ok()) return status;
    }
  }
  if (!IsLoopback(options.Address())) {
    for (SpecProblem& problem : RelativeModels(*spec)) {
      problems->emptied.push_back(problem.path);
      problems->absent.push_back(std::move(problem));
    }
  }
  MakePathsAbsolute(folder, spec);
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
            std::vector<SpecProblem> problems) {
  // In the order of the file, and then of the command line.
  std::stable_sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) {
    return std::pair(!a.set.empty(), a.line) < std::pair(!b.set.empty(), b.line);
  });
  std::fprintf(stderr, "baton: the spec has %zu problem%s\n%s", problems.size(),
               problems.size() == 1 ? "" : "s", FormatProblems(file, problems).c_str());
  return kUsage;
}

// All problems of a spec that has some: what the controller finds in the rest of it comes to those
// of this machine. A value that could not be read is not also missing, nor is a key whose name is
// misspelled.
int BadSpec(const GlobalOptions& options, Client& client, const std::string& file,
            const LocalNames& names, const LocalProblems& local, ParsedSpec* parsed) {
  const bool only_absent = parsed->problems.empty();
  std::vector<std::string> told = local.emptied;
  for (const SpecProblem& problem : parsed->problems) {
    if (problem.unreadable) told.push_back(problem.path);
    const bool misspelled = !problem.meant.empty() && parsed->lines.count(problem.meant) == 0;
    if (misspelled) told.push_back(problem.meant);
  }
  for (const SpecProblem& absent : local.absent) {
    v1::FieldViolation violation;
    violation.set_field(absent.path);
    violation.set_description(absent.message);
    parsed->problems.push_back(LocateViolations(*parsed, {violation})[0]);
  }
  bool more = false;
  if (parsed->read) {
    const auto checked = client.ValidateJob(parsed->spec);
    if (!checked.ok()) {
      std::fprintf(stderr, "baton: the controller cannot be asked for more problems: %s\n",
                   ForTerminal(ErrorText(options, checked.status())).c_str());
    } else {
      for (const SpecProblem& problem : WithLocalNames(
               LocateViolations(*parsed,
                                {checked->violations().begin(), checked->violations().end()}),
               names)) {
        if (std::any_of(told.begin(), told.end(),
                        [&](const std::string& path) { return IsAtOrBelow(problem.path, path); })) {
          continue;
        }
        parsed->problems.push_back(problem);
        more = true;
      }
    }
  }
  BadSpec(options, file, parsed->problems);
  return only_absent && !more ? kNotFound : kUsage;
}

// On stderr, so that what is piped stays a spec or JSON.
void Warn(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  for (const std::string& warning : SpecWarnings(effective, dataflow)) {
    std::fprintf(stderr, "baton: warning: spec.%s\n", warning.c_str());
  }
}

// Warnings about what the chat template makes of lines.
void TellOfTemplate(const v1::DataFilesSummary& list) {
  if (list.nulls_in_tools() > 0) {
    std::fprintf(stderr,
                 "baton: warning: data.%s: %llu line%s null inside `tools` or `tool_calls`, which "
                 "the chat template writes into the prompt; tables (parquet) fill it in: remove "
                 "it, as the script of docs/formats/data-set.md does\n",
                 list.list().c_str(), static_cast<unsigned long long>(list.nulls_in_tools()),
                 list.nulls_in_tools() == 1 ? " has" : "s have");
  }
  if (list.lines_with_unread_keys() > 0) {
    std::fprintf(stderr,
                 "baton: warning: data.%s: the chat template does not read %s, which %llu line%s: "
                 "it has no effect there\n",
                 list.list().c_str(), ForTerminal(list.unread_keys()).c_str(),
                 static_cast<unsigned long long>(list.lines_with_unread_keys()),
                 list.lines_with_unread_keys() == 1 ? " has" : "s have");
  }
}

// Lines of data that the job goes without, and what else is to be known of them. On stderr, as
// warnings.
void TellOfData(const v1::JobSpec& effective,
                const google::protobuf::RepeatedPtrField<v1::DataFilesSummary>& lists) {
  for (const std::string& note : DataNotes(effective, lists)) {
    std::fprintf(stderr, "baton: %s\n", ForTerminal(note).c_str());
  }
  for (const v1::DataFilesSummary& list : lists) {
    for (const std::string& warning : list.model_warnings()) {
      std::fprintf(stderr, "baton: warning: %s\n", ForTerminal(warning).c_str());
    }
    const auto tell = [&list](uint64_t lines, const char* why) {
      if (lines == 0) return;
      std::fprintf(stderr, "baton: data.%s: %llu line%s left out, %s; %llu example%s\n",
                   list.list().c_str(), static_cast<unsigned long long>(lines),
                   lines == 1 ? " is" : "s are", why,
                   static_cast<unsigned long long>(list.examples()),
                   list.examples() == 1 ? " remains" : "s remain");
    };
    tell(list.overlong_prompts(), "whose prompts are longer than data.max_prompt_length");
    tell(list.overlong_responses(), "whose responses are longer than data.max_response_length");
    tell(list.disliked(), "whose label is false");
    tell(list.unpaired(), "whose prompt has no line with the other label");
    tell(list.weightless(), "where all that could be trained on has weight 0");
    if (list.cut_turns() > 0) {
      std::fprintf(
          stderr,
          "baton: data.%s: in %llu line%s `messages` go on after the last turn of the user, "
          "where the prompt ends: those turns are not used. To compare with them, write "
          "them as `answer`; to train on them, use kind sft\n",
          list.list().c_str(), static_cast<unsigned long long>(list.cut_turns()),
          list.cut_turns() == 1 ? "" : "s");
    }
    if (list.prompts_cut_back() > 0) {
      std::fprintf(
          stderr,
          "baton: warning: data.%s: of %llu example%s the chat template writes the whole "
          "conversation otherwise than it begins a reply (templates of thinking models leave "
          "thoughts out of it): they are trained on as the template writes the whole, after "
          "the part of the prompt that it begins with\n",
          list.list().c_str(), static_cast<unsigned long long>(list.prompts_cut_back()),
          list.prompts_cut_back() == 1 ? "" : "s");
    }
    TellOfTemplate(list);
    if (list.unchecked_lines() == 0) continue;
    std::fprintf(
        stderr,
        "baton: warning: data.%s: the check had no time for the last %llu line%s; if one of "
        "them cannot be used, the job fails when a worker reaches it\n",
        list.list().c_str(), static_cast<unsigned long long>(list.unchecked_lines()),
        list.unchecked_lines() == 1 ? "" : "s");
  }
}

// A job whose workers are free gets them within milliseconds. One that is still queued after this
// long waits for something.
constexpr absl::Duration kGrantedWithin = absl::Seconds(1);

// Says why the job does not start, and what to do about it; nothing when it starts.
void SayWhatItWaitsFor(Client& client, const std::string& job) {
  const absl::Time end = BootNow() + kGrantedWithin;
  while (true) {
    const auto now = client.GetJob(job);
    if (!now.ok() || now->state() != v1::Job::STATE_QUEUED) return;
    if (BootNow() >= end) break;
    absl::SleepFor(absl::Milliseconds(50));
  }
  const auto why = client.ExplainJob(job);
  if (!why.ok()) return;
  for (const v1::Wait& wait : why->waits()) {
    std::printf("it is queued and waits for %s\n", ForTerminal(wait.cause()).c_str());
    if (!wait.action().empty()) std::printf("%s\n", ForTerminal(wait.action()).c_str());
  }
}

int Submitted(const GlobalOptions& options, Client& client, const SubmitFlags& flags,
              const v1::Job& job) {
  const std::string name = ShortJobName(job.name());
  Warn(job.effective_spec(), job.dataflow());
  TellOfData(job.effective_spec(), job.data_files());
  if (flags.watch) {
    if (!options.json()) std::printf("%s is submitted\n", name.c_str());
    return WatchToEnd(options, client, job.name(), 0);
  }
  if (options.json()) {
    std::printf("%s\n", ToJson(job).c_str());
  } else {
    std::printf("%s is submitted; follow it with `baton watch %s`\n", name.c_str(), name.c_str());
    std::fflush(stdout);
    SayWhatItWaitsFor(client, job.name());
  }
  return kOk;
}

// The controller's name of the checkpoint that the user names: a folder, which the controller may
// see where this machine does not, or "job:NAME".
std::string CheckpointOf(const SubmitFlags& flags) {
  const std::string given = ExpandHome(flags.checkpoint);
  std::error_code code;
  if (fs::is_directory(given, code)) return fs::absolute(given).lexically_normal().string();
  const bool full_name = absl::StartsWith(given, "projects/");
  const bool folder = absl::StrContains(given, "/") && !full_name;
  if (folder || absl::StartsWith(given, "job:")) return given;
  return absl::StrCat("job:", given, flags.best ? "@best" : "");
}

// A value of the source job may conflict with one that --set changes: the problem then names --set.
// `from` becomes the place of all other problems.
std::vector<SpecProblem> BlameSets(const std::vector<std::string>& sets,
                                   std::vector<SpecProblem> problems, std::string* from) {
  for (SpecProblem& problem : problems) {
    if (!problem.set.empty()) continue;
    std::vector<std::string> blamed;
    for (const std::string& set : sets) {
      const std::string path = set.substr(0, set.find('='));
      if (absl::StrContains(problem.message, path.substr(path.rfind('.') + 1))) {
        blamed.push_back(set);
      }
    }
    problem.set = absl::StrJoin(blamed, " --set ");
  }
  for (const std::string& set : sets) absl::StrAppend(from, " --set ", set);
  return problems;
}

// Goes on from a checkpoint, with what --set changes. A job's folder means its newest one.
int SubmitCheckpoint(const GlobalOptions& options, const SubmitFlags& flags, bool may_change) {
  const std::string checkpoint = CheckpointOf(flags);
  if (flags.best && !absl::StartsWith(checkpoint, "job:")) {
    std::fprintf(stderr, "baton: --best goes with the name of a job, not with a folder\n");
    return kUsage;
  }
  ParsedSpec changes = ParseSpecYaml("{}", flags.sets);
  if (!changes.problems.empty()) return BadSpec(options, "--set", changes.problems);
  auto client = MakeClient(options);
  LocalNames names;
  if (!flags.sets.empty()) {
    LocalProblems local;
    const absl::Status localised =
        Localise(options, *client, fs::current_path(), &changes.spec, &names, &local);
    if (!local.absent.empty()) {
      BadSpec(options, "--set", local.absent);
      return kNotFound;
    }
    if (!localised.ok()) return Fail(options, localised);
  }
  const auto job = client->CreateJobFrom(checkpoint, may_change ? &changes.spec : nullptr,
                                         flags.name, flags.request_id);
  if (!job.ok()) {
    const auto violations = ErrorViolations(job.status());
    if (violations.empty()) return Fail(options, job.status());
    std::string from = absl::StrCat("--from ", flags.checkpoint);
    auto problems = BlameSets(flags.sets, LocateViolations(changes, violations), &from);
    return BadSpec(options, from, WithLocalNames(std::move(problems), names));
  }
  return Submitted(options, *client, flags, *job);
}

int Submit(const GlobalOptions& options, const SubmitFlags& flags) {
  if (flags.file.empty() == flags.checkpoint.empty()) {
    std::fprintf(stderr, "baton: give a spec, or --from with a job or a checkpoint's folder\n");
    return kUsage;
  }
  if (!flags.checkpoint.empty()) {
    if (!flags.dry_run) return SubmitCheckpoint(options, flags, /*may_change=*/true);
    std::fprintf(stderr, "baton: --dry-run checks a spec; it does not go with --from\n");
    return kUsage;
  }
  if (flags.best) {
    std::fprintf(stderr, "baton: --best goes with --from\n");
    return kUsage;
  }
  std::error_code ignored;
  if (fs::is_directory(flags.file, ignored)) {
    std::fprintf(stderr, "baton: %s is a folder; give the spec itself, e.g. %s\n",
                 flags.file.c_str(), (fs::path(flags.file) / "job.yaml").c_str());
    return kNotFound;
  }
  std::ifstream in(flags.file);
  if (!in) {
    std::fprintf(stderr, "baton: %s cannot be opened; check the path and its permissions\n",
                 flags.file.c_str());
    return kNotFound;
  }
  std::stringstream text;
  text << in.rdbuf();
  ParsedSpec parsed = ParseSpecYaml(text.str(), flags.sets);
  if (parsed.problems.empty() && parsed.spec.ByteSizeLong() == 0) {
    std::fprintf(stderr, "baton: %s has no settings; `baton presets show grpo` prints a spec\n",
                 flags.file.c_str());
    return kUsage;
  }
  auto client = MakeClient(options);
  const fs::path folder = fs::absolute(flags.file).parent_path();
  LocalNames names;
  LocalProblems local;
  const absl::Status localised = Localise(options, *client, folder, &parsed.spec, &names, &local);
  if (!parsed.problems.empty() || !local.absent.empty()) {
    return BadSpec(options, *client, flags.file, names, local, &parsed);
  }
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
    TellOfData(checked->effective_spec(), checked->data_files());
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
    std::fprintf(stderr, "baton: give a job, or --from with a folder\n");
    return kUsage;
  }
  if (!flags.checkpoint.empty()) return SubmitCheckpoint(options, flags, /*may_change=*/false);
  if (!flags.name.empty()) {
    std::fprintf(stderr, "baton: --name goes with --from\n");
    return kUsage;
  }
  auto client = MakeClient(options);
  const auto resumed = client->ResumeJob(job);
  if (!resumed.ok()) return Fail(options, resumed.status());
  const std::string name = ShortJobName(resumed->name());
  if (flags.watch) return WatchToEnd(options, *client, resumed->name(), kLastSteps);
  if (options.json()) {
    std::printf("%s\n", ToJson(*resumed).c_str());
  } else {
    std::printf("%s is %s\n", name.c_str(),
                v1::Job::State_Name(resumed->state()).substr(6).c_str());
  }
  return kOk;
}

void AddResumeCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* resume = app.add_subcommand("resume",
                                    "Continue a job that is paused, failed or was cancelled, or a "
                                    "job that the controller does not know, from its folder");
  AddOutput(resume, options);
  auto flags = std::make_shared<SubmitFlags>();
  auto job = std::make_shared<std::string>();
  resume->add_option("job", *job, "The name of a job that is paused, failed or was cancelled");
  resume->add_option(
      "--from", flags->checkpoint,
      "Instead of a job: a job's folder (DATA_ROOT/jobs/PROJECT/JOB: from its newest "
      "checkpoint), or a checkpoint's folder; a job that the controller does not know "
      "goes on there under its own name");
  resume->add_option("--name", flags->name, "With --from: another name, for a copy");
  resume->add_flag("--watch", flags->watch, "Follow the job to its end");
  resume->callback([=] { *code = Resume(*options, *job, *flags); });
}

}  // namespace

void AddSubmitCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* submit = app.add_subcommand("submit", "Submit a job described in YAML");
  AddOutput(submit, options);
  auto flags = std::make_shared<SubmitFlags>();
  submit->add_option("file", flags->file, "The spec, e.g. job.yaml");
  submit->add_option("--from,--checkpoint", flags->checkpoint,
                     "Instead of a spec: a new job goes on from the newest checkpoint of this job "
                     "(JOB@STEP: from that one), or from a checkpoint's or a job's folder; with "
                     "--set for the settings that change");
  submit->add_flag("--best", flags->best,
                   "With --from JOB: from its best checkpoint, by its trainer.keep_best");
  submit->add_option("--name", flags->name, "The job's name (1-63 of a-z, 0-9, '-')");
  submit->add_option("--set", flags->sets,
                     "Override a value of the spec, or of the job that --from names: --set "
                     "trainer.total_training_steps=9");
  submit->add_option("--request-id", flags->request_id,
                     "If a job was submitted with this id before, print that job");
  submit->add_flag("--watch", flags->watch, "Follow the job to its end");
  submit->add_flag("--dry-run", flags->dry_run, "Check it and print the effective spec");
  submit->callback([=] { *code = Submit(*options, *flags); });
  AddResumeCommand(app, options, code);
}

}  // namespace baton::cli
