// token and project: who may do what, and how much of it.
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "sdk/cli/cluster/commands.h"
#include "sdk/cli/shared/lifetime.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/messages/times.h"

namespace baton::cli {
namespace {

std::string Date(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M", FromProto(time), absl::LocalTimeZone());
}

struct TokenFlags {
  std::string project, note, expires;
  std::vector<std::string> scopes;
};

int CreateToken(const GlobalOptions& options, const TokenFlags& flags) {
  v1::CreateTokenRequest request;
  request.set_project(flags.project);
  request.set_note(flags.note);
  for (const std::string& scope : flags.scopes) request.add_scopes(scope);
  if (!flags.expires.empty()) {
    const auto seconds = ParseLifetime("--expires", flags.expires);
    if (!seconds.ok()) return Fail(options, seconds.status());
    request.mutable_lifetime()->set_seconds(*seconds);
  }
  const auto made = MakeClient(options)->CreateToken(request);
  if (!made.ok()) return Fail(options, made.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*made).c_str());
    return kOk;
  }
  std::printf("%s\n", made->secret().c_str());
  std::fprintf(stderr,
               "token %s for project %s: %s. It is shown this once; keep it in a file that only "
               "its user can read, and give that with --token-file\n",
               made->token().token_id().c_str(), made->token().project().c_str(),
               absl::StrJoin(made->token().scopes(), ", ").c_str());
  return kOk;
}

int ListTokens(const GlobalOptions& options) {
  const auto list = MakeClient(options)->ListTokens();
  if (!list.ok()) return Fail(options, list.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*list).c_str());
    return kOk;
  }
  Table table({"TOKEN", "PROJECT", "SCOPES", "MADE", "EXPIRES", "NOTE"});
  for (const v1::Token& token : list->tokens()) {
    table.Add({token.token_id(), token.project(), absl::StrJoin(token.scopes(), ","),
               Date(token.create_time()),
               token.has_expire_time() ? Date(token.expire_time()) : "never", token.note()});
  }
  std::printf("%s", list->tokens().empty() ? "there are no tokens; `baton token create` makes one\n"
                                           : table.Format().c_str());
  return kOk;
}

int RevokeToken(const GlobalOptions& options, const std::string& id) {
  const absl::Status status = MakeClient(options)->RevokeToken(id);
  if (!status.ok()) return Fail(options, status);
  std::printf("%s", options.json()
                        ? "{}\n"
                        : absl::StrCat("token ", id, " gives no access any more\n").c_str());
  return kOk;
}

std::string Limit(int64_t limit) { return limit == 0 ? "-" : absl::StrCat(limit); }

int SetProject(const GlobalOptions& options, const v1::Project& project) {
  const auto set = MakeClient(options)->SetProject(project);
  if (!set.ok()) return Fail(options, set.status());
  std::printf("%s", options.json() ? absl::StrCat(ToJson(*set), "\n").c_str()
                                   : absl::StrCat("project ", set->project(), " is set\n").c_str());
  return kOk;
}

int ListProjects(const GlobalOptions& options) {
  const auto list = MakeClient(options)->ListProjects();
  if (!list.ok()) return Fail(options, list.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*list).c_str());
    return kOk;
  }
  Table table({"PROJECT", "WEIGHT", "JOBS", "ENDED JOBS", "WORKERS", "WATCHES", "STEP RESPONSES",
               "STEP TOKENS", "UPLOAD BYTES", "OF", "JOB BYTES", "OF", "PRIORITY"});
  for (const v1::Project& project : list->projects()) {
    table.Add({project.project(), absl::StrCat(project.weight()), Limit(project.max_jobs()),
               Limit(project.max_ended_jobs()), Limit(project.max_workers()),
               Limit(project.max_watches()), Limit(project.max_step_responses()),
               Limit(project.max_step_tokens()), absl::StrCat(project.upload_bytes()),
               Limit(project.max_upload_bytes()), absl::StrCat(project.job_bytes()),
               Limit(project.max_job_bytes()),
               project.has_max_priority() ? absl::StrCat(project.max_priority()) : "-"});
  }
  std::printf("%s", list->projects().empty()
                        ? "no project was set: each has weight 1 and no limit\n"
                        : table.Format().c_str());
  return kOk;
}

}  // namespace

void AddAccessCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* token = app.add_subcommand("token", "Make, list and revoke tokens");
  token->require_subcommand(1);
  auto* create = token->add_subcommand("create", "Make a token and print it, once");
  AddOutput(create, options);
  auto t = std::make_shared<TokenFlags>();
  create->add_option("--project", t->project,
                     "The only project it opens (default: default); *: all. Of a worker: the only "
                     "one whose jobs it gets, and it must be given");
  create->add_option("--scope", t->scopes, "read, write, worker or admin; may be repeated")
      ->required();
  create->add_option("--note", t->note, "What it is for");
  create->add_option("--expires", t->expires, "E.g. 90m, 12h or 30d; default: never");
  create->callback([=] { *code = CreateToken(*options, *t); });
  auto* tokens = token->add_subcommand("list", "List tokens: who may do what");
  AddOutput(tokens, options);
  tokens->callback([=] { *code = ListTokens(*options); });
  auto* revoke = token->add_subcommand("revoke", "Revoke a token, which then gives no access");
  AddOutput(revoke, options);
  auto id = std::make_shared<std::string>();
  revoke->add_option("token", *id, "Its id, as `baton token list` shows it")->required();
  revoke->callback([=] { *code = RevokeToken(*options, *id); });

  auto* project = app.add_subcommand("project", "Shares and limits of projects");
  project->require_subcommand(1);
  auto* set = project->add_subcommand("set", "Set a project's share and limits");
  AddOutput(set, options);
  struct ProjectFlags {
    std::string name;
    int weight = 1, jobs = 0, workers = 0, watches = 0;
    int64_t responses = 0, tokens = 0, upload_bytes = 0, job_bytes = 0, ended_jobs = 0;
    std::optional<int> priority;
  };
  auto p = std::make_shared<ProjectFlags>();
  set->add_option("project", p->name, "Its name")->required();
  set->add_option("--weight", p->weight, "Its share of the workers, against other projects'")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  set->add_option("--max-jobs", p->jobs, "Jobs that have not ended; 0: no limit");
  set->add_option("--max-ended-jobs", p->ended_jobs,
                  "Jobs that have ended and are not deleted; 0: the controller's own limit");
  set->add_option("--max-workers", p->workers, "Workers at once; 0: no limit");
  set->add_option("--max-watches", p->watches, "Watches and log readers at once; 0: no limit");
  set->add_option("--max-step-responses", p->responses,
                  "Responses of one step of a job; 0: the controller's own limit");
  set->add_option("--max-step-tokens", p->tokens,
                  "Tokens that these may have together; 0: the controller's own limit");
  set->add_option("--max-upload-bytes", p->upload_bytes,
                  "Bytes of its uploaded files together; 0: the controller's own limit");
  set->add_option(
      "--max-job-bytes", p->job_bytes,
      "Bytes in the folders of its jobs together, when a job is made from a checkpoint; "
      "0: the controller's own limit");
  set->add_option("--max-priority", p->priority,
                  "The highest priority that its jobs may have, -1000 to 1000 (default: 1000)")
      ->check(CLI::Range(-1000, 1000));
  set->callback([=] {
    v1::Project message;
    message.set_project(p->name);
    message.set_weight(p->weight);
    message.set_max_jobs(p->jobs);
    message.set_max_ended_jobs(p->ended_jobs);
    message.set_max_workers(p->workers);
    message.set_max_watches(p->watches);
    message.set_max_step_responses(p->responses);
    message.set_max_step_tokens(p->tokens);
    message.set_max_upload_bytes(p->upload_bytes);
    if (p->priority.has_value()) message.set_max_priority(*p->priority);
    message.set_max_job_bytes(p->job_bytes);
    *code = SetProject(*options, message);
  });
  auto* projects =
      project->add_subcommand("list", "List the projects that have a share or limits of their own");
  AddOutput(projects, options);
  projects->callback([=] { *code = ListProjects(*options); });
}

}  // namespace baton::cli
