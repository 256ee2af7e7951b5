// jobs, show, why, cancel, pause, delete, checkpoints, metrics, samples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/jobs/graph.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/shared/wait_text.h"
#include "sdk/client/spec_warnings.h"
#include "sdk/client/spec_writer.h"
#include "sdk/common/base/nearest.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/messages/times.h"

namespace baton::cli {
namespace {

std::string StateText(const v1::Job& job) { return v1::Job::State_Name(job.state()).substr(6); }

std::string Age(const google::protobuf::Timestamp& time) {
  return ShortDuration(absl::ToDoubleSeconds(absl::Now() - FromProto(time)));
}

std::string MetricText(const v1::Job& job, const std::string& name) {
  auto it = job.metrics().find(name);
  return it == job.metrics().end() ? "-" : ShortNumber(it->second);
}

void PrintList(const GlobalOptions& options, const google::protobuf::Message& message,
               const std::string& text) {
  std::printf("%s", options.json() ? (ToJson(message) + "\n").c_str() : ForTerminal(text).c_str());
}

int Jobs(const GlobalOptions& options) {
  auto client = MakeClient(options);
  auto jobs = client->ListJobs({});
  if (!jobs.ok()) return Fail(options, jobs.status());
  v1::ListJobsResponse all;
  Table table({"JOB", "KIND", "STATE", "STEP", "REWARD", "VAL ACC", "AGE"});
  for (const v1::Job& job : *jobs) {
    *all.add_jobs() = job;
    const v1::JobKind of = job.effective_spec().kind();
    const std::string kind = of == v1::JOB_KIND_SFT            ? "sft"
                             : of == v1::JOB_KIND_REWARD_MODEL ? "reward_model"
                                                               : "rl";
    table.Add({ShortJobName(job.name()), kind, StateText(job),
               absl::StrCat(job.step(), "/", job.total_steps()),
               MetricText(job, "critic/score/mean"), MetricText(job, "val/accuracy"),
               Age(job.create_time())});
  }
  PrintList(
      options, all,
      jobs->empty() ? "no jobs yet; submit one with `baton submit job.yaml`\n" : table.Format());
  return kOk;
}

// "actor+rollout 4 | critic 2": which roles share how many workers.
std::string PoolsText(const v1::ResourcesSpec& resources) {
  return absl::StrJoin(resources.pools(), " | ", [](std::string* out, const v1::PoolSpec& pool) {
    absl::StrAppend(out, absl::StrJoin(pool.roles(), "+"), " ", pool.devices());
  });
}

struct ShowFlags {
  bool spec = false, graph = false, dot = false;
};

// The newest metrics. Those of speculation are many, and only say how fast responses were made.
std::string NewestMetrics(const v1::Job& job) {
  constexpr char kSpeculation[] = "rollout/spec/";
  const std::map<std::string, double> metrics(job.metrics().begin(), job.metrics().end());
  Table table({"METRIC", "VALUE"});
  size_t hidden = 0;
  for (const auto& [key, value] : metrics) {
    if (absl::StartsWith(key, kSpeculation)) {
      ++hidden;
    } else {
      table.Add({key, ShortNumber(value)});
    }
  }
  if (metrics.empty()) return "";
  const std::string more =
      hidden == 0 ? ""
                  : absl::StrCat("and ", hidden, " of speculation: `baton metrics ",
                                 ShortJobName(job.name()), " --prefix ", kSpeculation, "`\n");
  return absl::StrCat("\n", table.Format(), more);
}

int ShowGraph(const GlobalOptions& options, Client& client, const std::string& name, bool dot) {
  const auto why = client.ExplainJob(name);
  if (!why.ok()) return Fail(options, why.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*why).c_str());
  } else if (dot) {
    std::printf("%s", GraphAsDot(ShortJobName(name), *why).c_str());
  } else {
    std::printf("%s\n\n%s", ForTerminal(why->summary()).c_str(),
                ForTerminal(GraphAsText(*why)).c_str());
  }
  return kOk;
}

int Show(const GlobalOptions& options, const std::string& name, const ShowFlags& flags) {
  auto client = MakeClient(options);
  if (flags.graph || flags.dot) return ShowGraph(options, *client, name, flags.dot);
  auto job = client->GetJob(name);
  if (!job.ok()) return Fail(options, job.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*job).c_str());
    return kOk;
  }
  if (flags.spec) {
    std::printf("%s", WithUnits(SpecToYaml(job->effective_spec())).c_str());
    return kOk;
  }
  std::printf("job       %s\nstate     %s%s%s\nstep      %ld of %ld\nversion   %lu\n",
              job->name().c_str(), StateText(*job).c_str(), job->phase().empty() ? "" : ", ",
              OneLine(PhaseText(job->phase(), job->phase_done(), job->phase_total())).c_str(),
              static_cast<long>(job->step()), static_cast<long>(job->total_steps()),
              static_cast<unsigned long>(job->policy_version()));
  if (const auto& resources = job->effective_spec().resources(); resources.pools_size() > 0) {
    std::printf("pools     %s\n", PoolsText(resources).c_str());
  }
  if (!job->error().message().empty()) {
    std::printf("error     %s\n", ForTerminal(job->error().message()).c_str());
  }
  if (!job->stop_reason().empty()) {
    std::printf("ends early %s\n", ForTerminal(job->stop_reason()).c_str());
  }
  for (const std::string& line : job->warnings()) {
    std::printf("warning   %s\n", ForTerminal(line).c_str());
  }
  for (const std::string& worker : job->workers()) {
    std::printf("worker    %s\n", OneLine(worker).c_str());
  }
  std::printf("%s", ForTerminal(NewestMetrics(*job)).c_str());
  std::printf("\n`baton show %s --spec` prints its spec\n", ShortJobName(job->name()).c_str());
  return kOk;
}

int Why(const GlobalOptions& options, const std::string& name) {
  auto client = MakeClient(options);
  auto answer = client->ExplainJob(name);
  if (!answer.ok()) return Fail(options, answer.status());
  std::string text = answer->summary() + "\n";
  for (const v1::Wait& wait : answer->waits()) {
    absl::StrAppend(&text, "  ", WaitText(wait), "\n");
  }
  if (answer->waits().empty()) text += "  nothing is waiting\n";
  PrintList(options, *answer, text);
  return kOk;
}

int Steer(const GlobalOptions& options, const std::string& name,
          absl::StatusOr<v1::Job> (Client::*call)(const std::string&)) {
  auto client = MakeClient(options);
  auto job = ((*client).*call)(name);
  if (!job.ok()) return Fail(options, job.status());
  PrintList(options, *job, absl::StrCat(ShortJobName(job->name()), " is ", StateText(*job), "\n"));
  return kOk;
}

int Delete(const GlobalOptions& options, const std::string& name) {
  auto client = MakeClient(options);
  const absl::Status status = client->DeleteJob(name);
  if (!status.ok()) return Fail(options, status);
  std::printf("%s", options.json() ? "{}\n" : (name + " is deleted\n").c_str());
  return kOk;
}

constexpr char kWeightsOnly[] =
    "Those with weights only lost the optimizer's state when the job succeeded "
    "(trainer.keep_optimizer): export them, or train anew with model.path: job:NAME@STEP\n";

std::string CheckpointNotes(const v1::Checkpoint& checkpoint) {
  std::vector<std::string> notes;
  if (checkpoint.best()) notes.push_back("best");
  if (checkpoint.weights_only()) notes.push_back("weights only");
  return notes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(notes, ", "), ")");
}

int Checkpoints(const GlobalOptions& options, const std::string& name) {
  auto client = MakeClient(options);
  auto list = client->ListCheckpoints(name);
  if (!list.ok()) return Fail(options, list.status());
  Table table({"STEP", "SIZE", "AGE", "PATH"});
  double bytes = 0;
  bool weights_only = false;
  for (const v1::Checkpoint& c : list->checkpoints()) {
    bytes += static_cast<double>(c.size_bytes());
    weights_only |= c.weights_only();
    table.Add({absl::StrCat(c.step(), CheckpointNotes(c)),
               ShortNumber(static_cast<double>(c.size_bytes())) + "B", Age(c.create_time()),
               c.path()});
  }
  const std::string job = ShortJobName(name);
  const std::string text =
      absl::StrCat(table.Format(), "\n", ShortNumber(bytes),
                   "B in all; trainer.max_checkpoints says how many are "
                   "kept\n`baton submit --from ",
                   job, "@STEP` goes on from one, `baton export ", job,
                   " DIR --step STEP` writes one as a model\n", weights_only ? kWeightsOnly : "");
  PrintList(options, *list, list->checkpoints().empty() ? "no complete checkpoint yet\n" : text);
  return kOk;
}

struct MetricsFlags {
  std::string name;
  std::vector<std::string> prefixes;
  std::vector<std::string> plots;
  int last = 20;
};

// The newest `last` steps that have a value of one of `names`: an evaluation is not made each step.
std::string MetricsTable(const v1::ListMetricsResponse& list, const std::set<std::string>& names,
                         int last) {
  std::vector<std::string> header = {"STEP"};
  header.insert(header.end(), names.begin(), names.end());
  std::vector<std::vector<std::string>> rows;
  for (const v1::StepMetrics& step : list.steps()) {
    std::vector<std::string> row = {absl::StrCat(step.step())};
    bool any = false;
    for (const std::string& name : names) {
      const auto it = step.metrics().find(name);
      any |= it != step.metrics().end();
      row.push_back(it == step.metrics().end() ? "-" : ShortNumber(it->second));
    }
    if (any) rows.push_back(std::move(row));
  }
  Table table(header);
  const size_t shown = std::min(rows.size(), static_cast<size_t>(std::max(0, last)));
  for (size_t i = rows.size() - shown; i < rows.size(); ++i) table.Add(std::move(rows[i]));
  return table.Format();
}

std::string NoMetrics(const MetricsFlags& flags, const v1::ListMetricsResponse& list) {
  if (flags.prefixes.empty() || list.steps().empty()) return "no metrics yet";
  return absl::StrCat("no metric begins with ", absl::StrJoin(flags.prefixes, " or "),
                      " so far; `baton show ", flags.name, "` lists the metrics that it has");
}

int Metrics(const GlobalOptions& options, const MetricsFlags& flags) {
  auto client = MakeClient(options);
  v1::ListMetricsRequest request;
  request.set_name(flags.name);
  for (const std::string& prefix : flags.prefixes) request.add_prefixes(prefix);
  auto list = client->ListMetrics(request);
  if (!list.ok()) return Fail(options, list.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*list).c_str());
    return kOk;
  }
  std::set<std::string> names;
  for (const v1::StepMetrics& step : list->steps()) {
    for (const auto& [name, value] : step.metrics()) names.insert(name);
  }
  for (const std::string& name : flags.plots) {
    if (names.count(name) == 0) {
      const std::vector<std::string> known(names.begin(), names.end());
      const std::string* nearest = Nearest(name, known);
      return Fail(options,
                  absl::NotFoundError(absl::StrCat(
                      "no step of ", flags.name, " has a metric '", name, "'",
                      nearest == nullptr ? "; `baton show` lists their names"
                                         : absl::StrCat("; did you mean '", *nearest, "'?"))));
    }
    std::vector<double> values;
    for (const v1::StepMetrics& step : list->steps()) {
      auto it = step.metrics().find(name);
      if (it != step.metrics().end()) values.push_back(it->second);
    }
    std::printf("%s (%zu steps)\n%s", name.c_str(), values.size(), Plot(values, 72, 8).c_str());
  }
  if (!flags.plots.empty()) return kOk;
  if (flags.prefixes.empty()) {
    const std::set<std::string> standard = {
        "critic/score/mean", "reward/accuracy/mean", "val/accuracy",    "response_length/mean",
        "actor/pg_loss",     "actor/entropy",        "actor/grad_norm", "actor/lr",
        "train/loss",        "perf/throughput",      "timing_s/step"};
    std::set<std::string> shown;
    for (const std::string& name : names) {
      if (standard.count(name) > 0) shown.insert(name);
    }
    names = shown;
  }
  if (list->steps().empty() || names.empty()) {
    std::printf("%s\n", NoMetrics(flags, *list).c_str());
    return kOk;
  }
  std::printf("%s", ForTerminal(MetricsTable(*list, names, flags.last)).c_str());
  return kOk;
}

struct SamplesFlags {
  std::string name;
  int count = 10;
  std::string purpose;
  int64_t step = 0;
  bool full = false, tokens = false;
};

// Responses to one prompt are stored together, and many of a policy that is sure of itself are
// equal. So for each sample that is printed so many are asked for, within a limit.
constexpr int kAskedPerSample = 16, kMostAsked = 200;

// The elements of a column of 4-byte numbers; empty: the trajectory has no such column.
template <typename T>
std::vector<T> Numbers(const v1::Trajectory& trajectory, const char* name) {
  const v1::Column* const column = FindColumn(trajectory, name);
  if (column == nullptr) return {};
  std::vector<T> numbers(column->data().size() / sizeof(T));
  std::memcpy(numbers.data(), column->data().data(), numbers.size() * sizeof(T));
  return numbers;
}

// "token:log-prob" of each token of the response.
std::string TokensText(const v1::Trajectory& trajectory) {
  const auto tokens = Numbers<int32_t>(trajectory, "tokens");
  const auto log_probs = Numbers<float>(trajectory, "rollout_log_prob");
  if (tokens.empty()) return "not kept any more";
  std::vector<std::string> parts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    parts.push_back(i < log_probs.size() ? absl::StrFormat("%d:%.3f", tokens[i], log_probs[i])
                                         : absl::StrCat(tokens[i]));
  }
  return absl::StrJoin(parts, " ");
}

// The first of each set of samples that look the same to a reader, with their number.
std::vector<std::pair<const v1::Trajectory*, int>> Unlike(const v1::ListTrajectoriesResponse& list,
                                                          bool full) {
  std::vector<std::pair<const v1::Trajectory*, int>> unlike;
  for (const v1::Trajectory& t : list.trajectories()) {
    const auto alike = [&t, full](const std::pair<const v1::Trajectory*, int>& entry) {
      const v1::Trajectory& other = *entry.first;
      const auto reward = t.scores().find("reward"), its = other.scores().find("reward");
      const bool rewarded = reward != t.scores().end(),
                 other_rewarded = its != other.scores().end();
      return t.step() == other.step() && t.purpose() == other.purpose() &&
             t.prompt_text() == other.prompt_text() && t.response_text() == other.response_text() &&
             (!full || t.rendered_prompt() == other.rendered_prompt()) &&
             t.answer() == other.answer() && t.error() == other.error() &&
             rewarded == other_rewarded && (!rewarded || reward->second == its->second);
    };
    const auto it = std::find_if(unlike.begin(), unlike.end(), alike);
    if (it == unlike.end()) {
      unlike.emplace_back(&t, 1);
    } else {
      ++it->second;
    }
  }
  return unlike;
}

int Samples(const GlobalOptions& options, const SamplesFlags& flags) {
  auto client = MakeClient(options);
  v1::ListTrajectoriesRequest request;
  request.set_name(flags.name);
  request.set_page_size(
      options.json() || flags.tokens
          ? flags.count
          : std::max(flags.count, std::min(kAskedPerSample * flags.count, kMostAsked)));
  request.set_step(flags.step);
  request.set_with_columns(flags.tokens);
  if (flags.purpose == "train") request.set_purpose(v1::PURPOSE_TRAIN);
  if (flags.purpose == "eval") request.set_purpose(v1::PURPOSE_EVAL);
  auto list = client->ListTrajectories(request);
  if (!list.ok()) return Fail(options, list.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*list).c_str());
    return kOk;
  }
  if (list->trajectories().empty()) std::printf("no response was generated yet\n");
  auto unlike = Unlike(*list, flags.full);
  unlike.resize(std::min(unlike.size(), static_cast<size_t>(flags.count)));
  for (const auto& [sample, times] : unlike) {
    const v1::Trajectory& t = *sample;
    auto reward = t.scores().find("reward");
    const size_t width = flags.full ? std::string::npos : 100;
    std::printf("step %lu  %s  reward %s%s%s%s\n  prompt    %s\n  response  %s\n",
                static_cast<unsigned long>(t.step()), t.trajectory_id().c_str(),
                reward == t.scores().end() ? "-" : ShortNumber(reward->second).c_str(),
                t.answer().empty() ? "" : "  answer ", OneLine(t.answer()).c_str(),
                times > 1 ? absl::StrCat("  ", times, " times").c_str() : "",
                OneLine(t.prompt_text(), width).c_str(), OneLine(t.response_text(), width).c_str());
    if (flags.full && !t.rendered_prompt().empty() && t.rendered_prompt() != t.prompt_text()) {
      std::printf("  rendered  %s\n", OneLine(t.rendered_prompt(), width).c_str());
    }
    if (flags.tokens) std::printf("  tokens    %s\n", TokensText(t).c_str());
    if (!t.error().empty()) std::printf("  error     %s\n", ForTerminal(t.error()).c_str());
  }
  if (unlike.size() < static_cast<size_t>(flags.count) &&
      list->trajectories_size() >= request.page_size()) {
    std::printf("only the newest %d responses were looked at\n", list->trajectories_size());
  }
  return kOk;
}

}  // namespace

void AddJobCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* jobs = app.add_subcommand("jobs", "List jobs, newest first");
  AddOutput(jobs, options);
  AddPruneCommand(jobs, options, code);
  jobs->callback([=] {
    if (jobs->get_subcommands().empty()) *code = Jobs(*options);
  });

  auto named = [&](const char* command, const char* help, auto run) {
    auto* sub = app.add_subcommand(command, help);
    AddOutput(sub, options);
    auto name = std::make_shared<std::string>();
    sub->add_option("job", *name, "The job's name")->required();
    sub->callback([=] { *code = run(*options, *name); });
    return sub;
  };
  auto f = std::make_shared<ShowFlags>();
  auto* show = named("show", "Show a job: state, workers, newest metrics",
                     [f](const GlobalOptions& o, const std::string& n) { return Show(o, n, *f); });
  show->add_flag("--spec", f->spec, "Print its effective spec as YAML");
  show->add_flag("--graph", f->graph, "Draw its dataflow and how far each node is");
  show->add_flag("--dot", f->dot, "The same for Graphviz: baton show JOB --dot | dot -Tsvg");
  named("why", "Say what a job waits for, root cause first", Why);
  named("cancel", "Stop a job for good", [](const GlobalOptions& o, const std::string& n) {
    return Steer(o, n, &Client::CancelJob);
  });
  named(
      "pause", "Finish the step, save a checkpoint, give the workers back",
      [](const GlobalOptions& o, const std::string& n) { return Steer(o, n, &Client::PauseJob); });
  named("delete", "Delete a finished job and its files", Delete);
  named("checkpoints", "List a job's complete checkpoints", Checkpoints);

  auto* metrics = app.add_subcommand("metrics", "Print a job's metrics, step by step");
  AddOutput(metrics, options);
  auto m = std::make_shared<MetricsFlags>();
  metrics->add_option("job", m->name, "The job's name")->required();
  metrics->add_option("--prefix", m->prefixes,
                      "Only metrics whose names begin with this, e.g. actor/");
  metrics->add_option("--plot", m->plots, "Draw this metric as a curve, e.g. critic/score/mean");
  metrics->add_option("-n,--last", m->last, "Steps to print")->capture_default_str();
  metrics->callback([=] { *code = Metrics(*options, *m); });

  auto* samples = app.add_subcommand("samples", "Read what the model writes");
  AddOutput(samples, options);
  auto s = std::make_shared<SamplesFlags>();
  samples->add_option("job", s->name, "The job's name")->required();
  samples->add_option("-n,--count", s->count, "How many, newest first; equal ones count as one")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  samples->add_option("--purpose", s->purpose, "train or eval")
      ->check(CLI::IsMember({"train", "eval"}));
  samples->add_option("--step", s->step, "Only this step");
  samples->add_flag("--full", s->full, "Do not cut long texts");
  samples->add_flag("--tokens", s->tokens,
                    "Also the response's tokens: id:log-prob of each; with -o json, all columns");
  samples->callback([=] { *code = Samples(*options, *s); });
}

}  // namespace baton::cli
