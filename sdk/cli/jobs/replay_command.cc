// replay: trains again on what a job recorded, and compares the weights.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/cli/jobs/commands.h"
#include "sdk/cli/shared/controller_seen.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/table.h"
#include "sdk/cli/watch/commands.h"

namespace baton::cli {
namespace {

struct ReplayFlags {
  std::string job, name, request_id;
  std::optional<int64_t> from_step, to_step;
  bool dry_run = false, no_wait = false, verdict = false;
};

v1::CreateReplayRequest RequestOf(const ReplayFlags& flags) {
  v1::CreateReplayRequest request;
  request.set_name(flags.job);
  if (flags.from_step.has_value()) request.set_from_step(*flags.from_step);
  if (flags.to_step.has_value()) request.set_to_step(*flags.to_step);
  request.set_job_id(flags.name);
  request.set_request_id(flags.request_id);
  return request;
}

void PrintPlan(const v1::Replay& replay) {
  std::printf("steps %ld-%ld of %s are trained again, from %s\n",
              static_cast<long>(replay.from_step()) + 1, static_cast<long>(replay.to_step()),
              ShortJobName(replay.source()).c_str(),
              replay.from_step() == 0
                  ? "its first weights"
                  : absl::StrCat("its weights after step ", replay.from_step()).c_str());
  for (const std::string& note : replay.notes()) std::printf("%s\n", ForTerminal(note).c_str());
  std::fflush(stdout);
}

int64_t BytesOf(const v1::Replay& replay) {
  int64_t bytes = 0;
  for (const v1::ComparedFile& file : replay.compared()) bytes += file.size_bytes();
  return bytes;
}

std::string VerdictText(const v1::Replay& replay) {
  const std::string step = absl::StrCat("step ", replay.to_step());
  switch (replay.verdict()) {
    case v1::Replay::VERDICT_EQUAL:
      return absl::StrCat("EQUAL: all ", replay.compared_size(), " files of the checkpoint of ",
                          step, " have the same bytes (but those that hold version numbers). All ",
                          BytesOf(replay), " bytes of both sides were read:");
    case v1::Replay::VERDICT_DIFFERENT:
      return absl::StrCat("DIFFERENT: the checkpoints of ", step,
                          " differ; the first file: ", replay.difference());
    case v1::Replay::VERDICT_NOT_COMPARED:
      return absl::StrCat("NOT COMPARED: the replay came to ", step, " with the recorded batches; ",
                          replay.difference().empty() ? "the job keeps no checkpoint of that step"
                                                      : replay.difference());
    case v1::Replay::VERDICT_PENDING:
      return "PENDING: the replay has not ended";
    default:
      return absl::StrCat("FAILED: ", replay.difference());
  }
}

// The verdict as the exit code.
int Judge(const GlobalOptions& options, Client& client, const std::string& name) {
  const auto replay = client.GetReplay(name);
  if (!replay.ok()) return Fail(options, replay.status());
  if (options.json()) {
    std::printf("%s\n", ToJson(*replay).c_str());
  } else {
    std::printf("%s\n", ForTerminal(VerdictText(*replay)).c_str());
    for (const v1::ComparedFile& file : replay->compared()) {
      std::printf("  same: %s, %ld bytes, XXH3 %s\n", ForTerminal(file.path()).c_str(),
                  static_cast<long>(file.size_bytes()), ForTerminal(file.xxh3()).c_str());
    }
  }
  // A checkpoint that was to be compared and could not be is no success.
  const bool good =
      replay->verdict() == v1::Replay::VERDICT_EQUAL ||
      (replay->verdict() == v1::Replay::VERDICT_NOT_COMPARED && replay->difference().empty());
  return good ? kOk : kFailed;
}

int WaitAndJudge(const GlobalOptions& options, Client& client, const std::string& name) {
  if (options.json()) {  // one document: no events
    OutageNotice notice(options.Address());
    const absl::Status status = client.WatchJob(
        name, 0, [](const v1::JobEvent&) { return true; },
        [&notice](const Outage& outage) { SayOutage(notice.TextOf(outage)); });
    if (!status.ok()) return Fail(options, status);
  } else if (const int code = WatchToEnd(options, client, name, 0);
             code != kOk && code != kFailed) {
    return code;
  }
  return Judge(options, client, name);
}

int ReplayJob(const GlobalOptions& options, const ReplayFlags& flags) {
  auto client = MakeClient(options);
  if (flags.verdict) {
    const auto replay = client->GetReplay(flags.job);  // or it would wait for some other job
    if (!replay.ok()) return Fail(options, replay.status());
    return WaitAndJudge(options, *client, replay->job());
  }
  v1::CreateReplayRequest request = RequestOf(flags);
  if (!options.json() || flags.dry_run) {  // what is not kept is said before anything starts
    request.set_validate_only(true);
    const auto plan = client->CreateReplay(request);
    if (!plan.ok()) return Fail(options, plan.status());
    if (!options.json()) PrintPlan(*plan);
    if (flags.dry_run) {
      if (options.json()) std::printf("%s\n", ToJson(*plan).c_str());
      return kOk;
    }
    // The job may go on meanwhile: what was said is what is done.
    request.set_from_step(plan->from_step());
    request.set_to_step(plan->to_step());
    request.set_validate_only(false);
  }
  const auto replay = client->CreateReplay(request);
  if (!replay.ok()) return Fail(options, replay.status());
  if (flags.no_wait) {
    const std::string name = ShortJobName(replay->job());
    if (options.json()) {
      std::printf("%s\n", ToJson(*replay).c_str());
    } else {
      std::printf("%s is queued; `baton replay --verdict %s` waits for its verdict\n", name.c_str(),
                  name.c_str());
    }
    return kOk;
  }
  return WaitAndJudge(options, *client, replay->job());
}

}  // namespace

void AddReplayCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* replay = app.add_subcommand(
      "replay",
      "Train again on what a job recorded, without rollouts and rewards, as a new job, and compare "
      "the bytes of the weights (docs/replay.md)");
  AddOutput(replay, options);
  auto flags = std::make_shared<ReplayFlags>();
  replay->add_option("job", flags->job, "The job that is repeated; with --verdict, a replay")
      ->required();
  auto* from = replay->add_option("--from-step", flags->from_step,
                                  "Begin with the weights after this step: 0, or a checkpoint's; "
                                  "default: the earliest from which everything is kept");
  auto* to = replay->add_option("--to-step", flags->to_step,
                                "Train up to this step; default: the newest checkpoint");
  replay->add_option("--name", flags->name, "The replay's name (1-63 of a-z, 0-9, '-')");
  replay->add_option("--request-id", flags->request_id,
                     "If a replay was made with this id before, take that one");
  replay->add_flag("--dry-run", flags->dry_run, "Say what would be replayed, and make nothing");
  replay->add_flag("--no-wait", flags->no_wait, "Do not wait for the verdict");
  replay
      ->add_flag("--verdict", flags->verdict,
                 "Make nothing: wait for the end of this replay, and print its verdict")
      ->excludes(from)
      ->excludes(to);
  replay->callback([=] { *code = ReplayJob(*options, *flags); });
}

}  // namespace baton::cli
