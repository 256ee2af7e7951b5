// Every command against a service made up for it: what is asked, printed and answered to the shell.
#include "sdk/cli/command_line.h"

#include <cstdlib>
#include <filesystem>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/fake_job_service.h"
#include "sdk/client/client.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/sdk/command_line.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandLineTest : public CommandTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) const override {
    arguments.insert(arguments.end(), {"--controller", service_.address()});
    return RunBaton(arguments);
  }

  FakeJobService service_;
};

v1::JobEvent Event(int64_t revision, const std::string& type, int64_t step) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.set_type(type);
  event.set_step(step);
  return event;
}
v1::JobEvent StateEvent(int64_t revision, v1::Job::State state, const std::string& message = "") {
  v1::JobEvent event = Event(revision, "state", 0);
  event.set_state(state);
  event.set_message(message);
  return event;
}

TEST_F(CommandLineTest, HelpsAfterAMissingOrMistypedCommand) {
  Outcome outcome = RunBaton({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("submit"));
  outcome = RunBaton({"sumbit", "job.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no command 'sumbit'; did you mean 'submit'?"));
  outcome = RunBaton({"--controller", "h:1", "jbos"});
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'jobs'?"));
  outcome = RunBaton({"submit", "job.yaml", "--dryrun"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("has no option --dryrun; did you mean '--dry-run'?"));
  EXPECT_THAT(outcome.err, HasSubstr("`baton submit --help`"));
  outcome = RunBaton({"show"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("job is required"));
  outcome = RunBaton({"token", "create"});
  EXPECT_THAT(outcome.err, HasSubstr("--scope is required\n`baton token create --help`"));
  outcome = RunBaton({"token", "create", "--scope", "read", "--expries", "1d"});
  EXPECT_THAT(outcome.err,
              HasSubstr("`baton token create` has no option --expries; did you mean '--expires'?"));
  outcome = RunBaton({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("why"));
}

TEST_F(CommandLineTest, ReportsThatNoControllerAnswers) {
  const Outcome outcome = RunBaton({"jobs", "--controller", "127.0.0.1:1", "-o", "json"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(outcome.err, HasSubstr("baton up"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("addresses"))) << "gRPC's words for the same";
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["code"], "UNAVAILABLE");
}

// An error on this machine is not blamed on a controller elsewhere.
TEST_F(CommandLineTest, SaysWhatCannotBeWritten) {
  Write("state/data", "a file where `up` makes a folder");
  const Outcome outcome = RunBaton({"up", "--state-dir", folder_.path("state")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write " + folder_.path("state/data/relay.key")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("controller")));
}

TEST_F(CommandLineTest, NamesAJobThatDoesNotExist) {
  for (const char* command : {"show", "why", "cancel", "pause", "resume", "delete", "checkpoints",
                              "metrics", "samples", "watch"}) {
    const Outcome outcome = Run({command, "nope", "-o", "json"});
    EXPECT_EQ(outcome.code, 3) << command;
    EXPECT_THAT(outcome.err, HasSubstr("no job 'nope'; `baton jobs` lists them")) << command;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["reason"], "JOB_NOT_FOUND") << command;
  }
}

TEST_F(CommandLineTest, ListsAndShowsJobs) {
  EXPECT_THAT(Run({"jobs"}).out, HasSubstr("add  rl    RUNNING  3/10  0.250"));
  EXPECT_EQ(Json({"jobs"})["jobs"][0]["name"], "projects/default/jobs/add");
  EXPECT_THAT(Run({"show", "add"}).out, HasSubstr("step      3 of 10"));
  EXPECT_EQ(Json({"show", "add"})["state"], "STATE_RUNNING");
  v1::PoolSpec* pool = service_.job.mutable_effective_spec()->mutable_resources()->add_pools();
  pool->add_roles("actor");
  pool->add_roles("rollout");
  pool->set_devices(4);
  EXPECT_THAT(Run({"show", "add"}).out, HasSubstr("pools     actor+rollout 4\n"));
  service_.job.mutable_effective_spec()->mutable_rollout()->set_n(8);
  EXPECT_THAT(Run({"show", "add", "--spec"}).out, HasSubstr("n: 8"));
}

TEST_F(CommandLineTest, SteersAJob) {
  for (const char* command : {"cancel", "pause", "resume"}) {
    const Outcome outcome = Run({command, "add"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, "add is RUNNING\n");
    EXPECT_THAT(service_.calls, Contains(absl::StrCat(command, " add")));
    EXPECT_EQ(Json({command, "add"})["step"], "3");
  }
  EXPECT_EQ(Run({"delete", "add"}).out, "add is deleted\n");
}

TEST_F(CommandLineTest, PrunesWhatEndedLongAgo) {
  service_.job.set_state(v1::Job::STATE_SUCCEEDED);
  service_.job.mutable_end_time()->set_seconds(absl::ToUnixSeconds(absl::Now()) - 3 * 86400);
  const std::vector<std::string> old = {"jobs", "prune", "--older-than", "2d"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), old.begin(), old.end());
    return Run(more);
  };
  Outcome outcome = Run(old);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("1 job would be deleted, with files"));
  EXPECT_THAT(outcome.err, HasSubstr("add --yes to delete them"));
  EXPECT_EQ(with({"--yes", "--dry-run"}).code, 0);
  EXPECT_THAT(with({"--yes", "--keep", "1"}).out, HasSubstr("no job ended longer ago than 2d"));
  EXPECT_THAT(Run({"jobs", "prune", "--older-than", "4d", "--yes"}).out, HasSubstr("no job ended"));
  EXPECT_THAT(service_.calls, Not(Contains("delete projects/default/jobs/add")));
  outcome = with({"--yes"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 job deleted, with files"));
  EXPECT_THAT(service_.calls, Contains("delete projects/default/jobs/add"));
  for (const char* wrong : {"2", "d", "-2d", "0d", "2w"}) {
    EXPECT_EQ(Run({"jobs", "prune", "--older-than", wrong}).code, 2) << wrong;
  }
  EXPECT_THAT(Run({"jobs"}).out, HasSubstr("add  rl    SUCCEEDED")) << "the plain list";
}

// The commands of a user who lost the controller's store and still has the jobs' folders.
TEST_F(CommandLineTest, ResumesFromAFolder) {
  const std::string folder = folder_.path("jobs/default/add");
  std::filesystem::create_directories(folder);
  Outcome outcome = Run({"resume", "--from", folder + "/../add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "add is submitted; follow it with `baton watch add`\n");
  EXPECT_EQ(service_.create.checkpoint(), folder);
  EXPECT_EQ(service_.create.job_id(), "");
  EXPECT_FALSE(service_.create.has_spec());
  EXPECT_EQ(Run({"resume", "--from", "jobs/default/other", "--name", "copy"}).code, 0);
  EXPECT_EQ(service_.create.checkpoint(), "jobs/default/other");  // the controller may see it
  EXPECT_EQ(service_.create.job_id(), "copy");
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"resume"},
                                                {"resume", "add", "--from", folder},
                                                {"resume", "add", "--name", "x"}}) {
    outcome = Run(wrong);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--from"));
  }
}

TEST_F(CommandLineTest, AJobGoesOnFromAnotherOneWithChanges) {
  Outcome outcome = Run({"submit", "--from", "add", "--name", "longer", "--set",
                         "trainer.total_training_steps=2000", "--set", "actor.lr=1e-5"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(service_.create.checkpoint(), "job:add");
  EXPECT_EQ(service_.create.job_id(), "longer");
  EXPECT_EQ(service_.create.changes().trainer().total_training_steps(), 2000);
  EXPECT_EQ(service_.create.changes().actor().lr(), 1e-5);
  EXPECT_FALSE(service_.create.has_spec());
  EXPECT_EQ(Run({"submit", "--from", "add", "--best"}).code, 0);
  EXPECT_EQ(service_.create.checkpoint(), "job:add@best");
  EXPECT_EQ(Run({"submit", "--from", "add@120"}).code, 0);
  EXPECT_EQ(service_.create.checkpoint(), "job:add@120");
  EXPECT_EQ(Run({"submit", "--from", "projects/p/jobs/add"}).code, 0);
  EXPECT_EQ(service_.create.checkpoint(), "job:projects/p/jobs/add");
  EXPECT_EQ(Run({"submit", "--from", "jobs/default/add/checkpoints/step-4"}).code, 0);
  EXPECT_EQ(service_.create.checkpoint(), "jobs/default/add/checkpoints/step-4");
  outcome = Run({"submit", "--from", "add", "--set", "trainer.total_trainig_steps=9"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("total_training_steps"));
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"submit"},
                                                {"submit", "--from", "jobs/x", "--best"},
                                                {"submit", "--from", "add", "--dry-run"}}) {
    EXPECT_EQ(Run(wrong).code, 2);
  }
}

// A value of the earlier job may not go with a new one.
TEST_F(CommandLineTest, AChangeIsNamedThatBringsAProblem) {
  service_.created = ToGrpc(MakeSpecError(
      {Violation("spec.data.gen_batch_size", "16 is more than train_batch_size 3"),
       Violation("spec.trainer.total_training_steps", "there is nothing left to do")}));
  const Outcome outcome = Run(
      {"submit", "--from", "rev", "--set", "actor.lr=1e-5", "--set", "data.train_batch_size=3"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "baton: the spec has 2 problems\n"
            "--from rev --set actor.lr=1e-5 --set data.train_batch_size=3: "
            "trainer.total_training_steps: there is nothing left to do\n"
            "--set data.train_batch_size=3: data.gen_batch_size: 16 is more than train_batch_size "
            "3\n");
}

// For each sample that is wanted, 16 responses are asked for, and 200 at most.
TEST_F(CommandLineTest, SamplesSayWhenOlderResponsesWereNotLookedAt) {
  const auto last_line = [this](int responses, const char* count) {
    service_.trajectories = responses;
    const std::string out = Run({"samples", "add", "-n", count}).out;
    const size_t begin = out.rfind('\n', out.size() - 2) + 1;
    return out.substr(begin);
  };
  EXPECT_EQ(last_line(48, "3"), "only the newest 48 responses were looked at\n");
  EXPECT_EQ(last_line(200, "20"), "only the newest 200 responses were looked at\n");
  EXPECT_EQ(last_line(47, "3"), "  response  5\n");  // there are no older ones
  EXPECT_EQ(last_line(32, "2"), "  response  5\n");  // as many samples as were wanted
}

TEST_F(CommandLineTest, ReadsWhatAJobMade) {
  EXPECT_THAT(Run({"checkpoints", "add"}).out,
              AllOf(HasSubstr("416.1kB"), HasSubstr("\n1 (best, weights only)  138.0kB"),
                    HasSubstr("554.1kB in all; trainer.max_checkpoints"),
                    HasSubstr("`baton submit --from add@STEP` goes on from one")));
  EXPECT_EQ(Json({"checkpoints", "add"})["checkpoints"][0]["path"], "/data/step-2");
  // Equal samples are one, also for -n.
  EXPECT_EQ(Run({"samples", "add"}).out,
            "step 3  train-1  reward 1  2 times\n  prompt    2+2=\n  response  4⏎and more\n"
            "step 3  train-1  reward 1\n  prompt    2+2=\n  response  5\n");
  EXPECT_THAT(
      Run({"samples", "add", "--full"}).out,
      AllOf(HasSubstr("train-2"), HasSubstr("rendered  <user>2+2="), Not(HasSubstr("2 times"))));
  EXPECT_EQ(Run({"samples", "add", "-n", "1"}).out,
            "step 3  train-1  reward 1  2 times\n  prompt    2+2=\n  response  4⏎and more\n");
  EXPECT_EQ(Json({"samples", "add"})["trajectories"][0]["prompt_text"], "2+2=");
  EXPECT_EQ(Run({"samples", "add", "--tokens"}).out,
            "step 3  train-1  reward 1  2 times\n  prompt    2+2=\n  response  4⏎and more\n"
            "  tokens    7:-0.250 130:-1.500\n"
            "step 3  train-1  reward 1\n  prompt    2+2=\n  response  5\n"
            "  tokens    not kept any more\n");
  EXPECT_EQ(Json({"samples", "add", "--tokens"})["trajectories"][0]["columns"].size(), 2u);
  EXPECT_THAT(Run({"logs", "add"}).out, HasSubstr("INFO  actor-0      actor is ready"));
  EXPECT_EQ(Json({"logs", "add"})["message"], "actor is ready");
  EXPECT_THAT(Run({"metrics", "add"}).out, HasSubstr("0.750"));
  EXPECT_THAT(Run({"metrics", "add", "--plot", "critic/score/mean"}).out, HasSubstr("(3 steps)"));
  const Outcome typo = Run({"metrics", "add", "--plot", "critic/score/maen"});
  EXPECT_EQ(typo.code, 3);
  EXPECT_THAT(typo.err, HasSubstr("did you mean 'critic/score/mean'?"));
}

// A model or a worker may write anything. ESC [2J clears the screen. U+009B is ESC [ in one
// character. A line feed would add a false line to a log. Ill-formed UTF-8 is not tried here: gRPC
// refuses it in these fields.
TEST_F(CommandLineTest, NoTextOfAWorkerCommandsTheTerminal) {
  const std::string evil = "a\x1b[2Jb\x7f\u009b2J\rc";
  const std::string clean = "a [2Jb  2J c";
  service_.log_message = evil + "\n12:00:00 ERROR controller all is lost";
  EXPECT_THAT(Run({"logs", "add"}).out,
              EndsWith("actor-0      " + clean + "⏎12:00:00 ERROR controller all is lost\n"));
  EXPECT_EQ(Json({"logs", "add"})["message"], service_.log_message);
  service_.job.mutable_error()->set_message(evil + "\nmore");
  service_.job.add_warnings(evil);
  service_.job.add_workers(evil);
  service_.explanation.set_summary(evil);
  service_.explanation.add_waits()->set_cause(evil);
  service_.created = {grpc::StatusCode::FAILED_PRECONDITION, evil + "\nmore"};
  const std::string spec = Write("job.yaml", "kind: rl\n");
  for (const std::string& text : {Run({"show", "add"}).out, Run({"why", "add"}).out,
                                  Run({"show", "add", "--graph"}).out, Run({"submit", spec}).err}) {
    EXPECT_THAT(text, AllOf(HasSubstr(clean), Not(HasSubstr("\x1b")), Not(HasSubstr("\x7f")),
                            Not(HasSubstr("\u009b")), Not(HasSubstr("\r"))));
  }
  EXPECT_THAT(Run({"show", "add"}).out, AllOf(HasSubstr("error     " + clean + "\nmore\n"),
                                              HasSubstr("warning   " + clean + "\n"),
                                              HasSubstr("worker    " + clean + "\n")));
  EXPECT_THAT(Run({"submit", spec}).err, HasSubstr(clean + "\nmore\n")) << "lines stay lines";
}

TEST_F(CommandLineTest, ShowLeavesTheMetricsOfSpeculationToMetrics) {
  EXPECT_THAT(Run({"show", "add"}).out, Not(HasSubstr("speculation")));
  (*service_.job.mutable_metrics())["rollout/spec/acceptance"] = 0.5;
  (*service_.job.mutable_metrics())["rollout/spec/draft_tokens"] = 100;
  EXPECT_THAT(Run({"show", "add"}).out,
              AllOf(HasSubstr("critic/score/mean"), Not(HasSubstr("acceptance")),
                    HasSubstr("and 2 of speculation: `baton metrics add --prefix rollout/spec/`")));
  EXPECT_EQ(Json({"show", "add"})["metrics"]["rollout/spec/acceptance"], 0.5);
}

// An evaluation every other step: its rows alone, and of those the newest.
TEST_F(CommandLineTest, MetricsOfAPrefixHaveARowForEachStepThatHasOne) {
  service_.rare_metrics = {{"val/accuracy", 0.5}};  // of step 2
  Outcome outcome = Run({"metrics", "add", "--prefix", "val", "-n", "1"});
  EXPECT_EQ(outcome.out, "STEP  val/accuracy\n2     0.500\n");
  service_.rare_metrics.clear();
  outcome = Run({"metrics", "add", "--prefix", "val"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("no metric begins with val so far"));
}

TEST_F(CommandLineTest, ExportsToAPathOfThisShell) {
  const Outcome outcome = Run({"export", "add", "some/folder"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr((std::filesystem::current_path() / "some/folder").string()));
  EXPECT_THAT(Run({"export", "add", "folder", "--dtype", "float16"}).out,
              AllOf(HasSubstr("folderfloat16"), HasSubstr("it keeps is not known")));
  // Weights are trained in float32, so the command says nothing of rounding.
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("keeps")), HasSubstr("baton generate --model")));
  EXPECT_THAT(Run({"export", "add", "folder", "--dtype", "bfloat16"}).out,
              HasSubstr("bfloat16 keeps 8.7% of the update: of 1000 weights that training changed, "
                        "87 still differ"));
  EXPECT_EQ(Run({"export", "add", "folder", "--best"}).code, 0);
  EXPECT_NE(Run({"export", "add", "folder", "--best", "--step", "2"}).code, 0);
  const Outcome typo = Run({"export", "add", "folder", "--dtype", "bf16"});
  EXPECT_NE(typo.code, 0);
  EXPECT_THAT(typo.err, HasSubstr("bfloat16"));
}

// The command that an export advises must work on what was exported.
TEST_F(CommandLineTest, AnExportAdvisesWhatGoesWithTheJob) {
  v1::JobSpec& spec = *service_.job.mutable_effective_spec();
  const auto advice = [&] { return Run({"export", "add", "folder"}).out; };
  EXPECT_THAT(advice(), HasSubstr("baton generate --model folder --prompt '…'"));
  spec.mutable_model()->set_chat_template("chatml");  // the folder has no template of its own
  EXPECT_THAT(advice(), HasSubstr("--model folder --chat-template chatml --prompt"));
  spec.mutable_model()->set_chat_template("auto");
  auto& kwargs = *spec.mutable_model()->mutable_chat_template_kwargs();
  (*kwargs.mutable_fields())["note"].set_string_value("it's");
  EXPECT_THAT(advice(),
              HasSubstr("folder --chat-template-kwargs '{\"note\":\"it'\\''s\"}' --prompt"));
  kwargs.clear_fields();
  spec.mutable_model()->set_chat_template("none");
  EXPECT_THAT(advice(), HasSubstr("--model folder --raw --prompt"));
  spec.set_kind(v1::JOB_KIND_REWARD_MODEL);
  EXPECT_THAT(advice(), AllOf(HasSubstr("reward_model.model.path"), Not(HasSubstr("generate"))));
}

TEST_F(CommandLineTest, SaysWhatAJobWaitsFor) {
  EXPECT_THAT(Run({"why", "add"}).out, HasSubstr("nothing is waiting"));
  service_.explanation.set_summary("job add is RUNNING");
  v1::Wait& wait = *service_.explanation.add_waits();
  wait.set_subject("trajectory 4");
  wait.set_cause("worker rollout-0");
  wait.mutable_since()->set_seconds(12);
  wait.mutable_deadline_in()->set_seconds(18);
  wait.set_action("it moves");
  EXPECT_EQ(Run({"why", "add"}).out,
            "job add is RUNNING\n"
            "  trajectory 4 has waited 12s for worker rollout-0; in 18s it moves\n");
  EXPECT_EQ(Json({"why", "add"})["waits"][0]["cause"], "worker rollout-0");
}

TEST_F(CommandLineTest, ShowsAndDrainsWorkers) {
  EXPECT_THAT(Run({"workers"}).out, HasSubstr("rollout-0  READY  rollout  add"));
  const auto workers = Json({"workers"});  // of two pages
  EXPECT_EQ(workers["workers"][0]["worker_id"], "rollout-0");
  EXPECT_EQ(workers["workers"][1]["worker_id"], "trainer-0");
  EXPECT_EQ(workers["next_page_token"], "");
  const Outcome drain = Run({"drain", "rollout-0"});
  EXPECT_EQ(drain.code, 0) << drain.err;
  EXPECT_THAT(drain.out, HasSubstr("no new work until `baton drain rollout-0 --undo`"));
  EXPECT_THAT(service_.calls, Contains("drain rollout-0"));
  const Outcome undo = Run({"drain", "rollout-0", "--undo"});
  EXPECT_EQ(undo.code, 0) << undo.err;
  EXPECT_THAT(undo.out, HasSubstr("rollout-0 gets work again"));
  EXPECT_THAT(service_.calls, Contains("undrain rollout-0"));
}

TEST_F(CommandLineTest, AWatchGoesOnWhereItsStreamBroke) {
  service_.watches = {{StateEvent(1, v1::Job::STATE_RUNNING), Event(2, "step", 1)},
                      {Event(3, "step", 2), StateEvent(4, v1::Job::STATE_SUCCEEDED)}};
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(service_.watched_after, ElementsAre(0, 2));
  // Without a terminal steps are a line every few seconds; the first and the last one are there.
  EXPECT_THAT(outcome.out,
              HasSubstr("add is RUNNING, step 3 of 10\nstate RUNNING\nstep 1/10\nno connection"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing is left out\nstep 2/10"));
  EXPECT_THAT(outcome.out, HasSubstr("\nstate SUCCEEDED\n"));
}

TEST_F(CommandLineTest, AWatchTellsHowTheJobEnded) {
  service_.watches = {{StateEvent(1, v1::Job::STATE_FAILED, "the trainer was lost 4 times")}};
  const Outcome outcome = Run({"watch", "add"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the trainer was lost 4 times"));
  service_.watched_after.clear();
  const Outcome json = Run({"watch", "add", "-o", "json"});
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(nlohmann::json::parse(json.out)["state"], "STATE_FAILED");
}

TEST_F(CommandLineTest, ABusyControllerIsAskedAgain) {
  service_.busy = 3;
  const Outcome outcome = Run({"pause", "add"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "baton: the controller is busy; it is asked again (many wait)\n");
  EXPECT_EQ(service_.busy, 0);
}

// No longer than the call's deadline.
TEST_F(CommandLineTest, ABusyControllerIsNotAskedForEver) {
  service_.busy = 1'000'000;
  ClientOptions options;
  options.timeout = absl::Milliseconds(300);
  const auto client = Client::Connect(service_.address(), options).value();
  const absl::Time begin = absl::Now();
  const absl::Status refused = client->GetJob("add").status();
  EXPECT_EQ(ErrorReason(refused), "SUBMISSIONS_WAITING") << refused;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  EXPECT_LT(service_.busy, 1'000'000 - 1);
}

TEST_F(CommandLineTest, SubmitsWithLocalFilesAndOverrides) {
  Write("train.jsonl", "{\"prompt\": \"1+1=\"}\n");
  const std::string spec = Write("job.yaml",
                                 "kind: rl\n"
                                 "data: {train_files: [train.jsonl]}\n"
                                 "rollout: {n: 4}\n");
  const Outcome outcome = Run({"submit", spec, "--set", "rollout.n=16"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "add is submitted; follow it with `baton watch add`\n");
  EXPECT_EQ(service_.uploaded, "{\"prompt\": \"1+1=\"}\n");
  EXPECT_EQ(service_.submitted.data().train_files(0), "files/0123/train.jsonl");
  EXPECT_EQ(service_.submitted.rollout().n(), 16);
  // A job that no worker is free for says so, and how to help it.
  service_.job.set_state(v1::Job::STATE_QUEUED);
  v1::Wait* wait = service_.explanation.add_waits();
  wait->set_cause("1 actor worker to attach or to become free");
  wait->set_action("it starts as soon as these workers are there; have more");
  EXPECT_EQ(Run({"submit", spec}).out,
            "add is submitted; follow it with `baton watch add`\n"
            "it is queued and waits for 1 actor worker to attach or to become free\n"
            "it starts as soon as these workers are there; have more\n");
  service_.job.set_state(v1::Job::STATE_RUNNING);
  EXPECT_EQ(service_.upload_projects, "");  // the token's own
  EXPECT_EQ(Run({"--project", "vision", "submit", spec}).code, 0);
  EXPECT_EQ(service_.upload_projects, "vision");
  service_.watches = {{StateEvent(1, v1::Job::STATE_SUCCEEDED)}};
  EXPECT_EQ(Run({"submit", spec, "--watch"}).code, 0);
  EXPECT_THAT(Run({"submit", spec, "--dry-run"}).out, HasSubstr("n: 4"));
}

TEST_F(CommandLineTest, AFolderOrAnEmptyFileIsNoSpec) {
  const std::string spec = Write("empty.yaml", "# nothing yet\n");
  Outcome outcome = Run({"submit", spec});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("empty.yaml has no settings; `baton presets show grpo`"));
  outcome = Run({"submit", folder_.path()});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr(folder_.path() + " is a folder; give the spec itself"));
}

// Nothing is wrong with such a spec, but it may not be what was meant.
TEST_F(CommandLineTest, WarnsOfSuspiciousSettings) {
  const std::string spec = Write("job.yaml",
                                 "kind: rl\n"
                                 "data: {train_batch_size: 8}\n"
                                 "rollout: {n: 4}\n"
                                 "actor: {ppo_mini_batch_size: 24}\n");
  Outcome outcome = Run({"submit", spec, "--dry-run"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: spec.actor.ppo_mini_batch_size: 24 sequences"));
  EXPECT_THAT(outcome.out, HasSubstr("ppo_mini_batch_size: 24  # sequences"));
  *service_.job.mutable_effective_spec() = service_.submitted;
  outcome = Run({"submit", spec});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: spec.actor.ppo_mini_batch_size: 24 sequences"));
  EXPECT_THAT(Run({"submit", spec, "--set", "actor.ppo_mini_batch_size=16", "--dry-run"}).err,
              Not(HasSubstr("warning")));
}

// A file named without its folder is one of the working directory, and so is its reward's command.
TEST_F(CommandLineTest, ASpecOfTheWorkingDirectoryNeedsNoFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  Write("job.yaml", "kind: rl\nreward: {command: python3 reward.py}\n");
  std::filesystem::current_path(folder_.path());
  const Outcome outcome = Run({"submit", "job.yaml"});
  const std::string folder = std::filesystem::current_path().string();
  std::filesystem::current_path(before);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(service_.submitted.reward().working_dir(), folder);
}

// YAML is no shell, and the controller has another home.
TEST_F(CommandLineTest, ATildeInASpecIsTheUsersHome) {
  Write("train.jsonl", "{\"prompt\": \"1+1=\"}\n");
  const std::string spec = Write("specs/job.yaml",
                                 "kind: rl\nmodel: {path: ~/models/small}\n"
                                 "data: {train_files: [~/train.jsonl]}\n");
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", folder_.path().c_str(), 1);
  const Outcome outcome = Run({"submit", spec});
  ::setenv("HOME", before.c_str(), 1);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(service_.uploaded, "{\"prompt\": \"1+1=\"}\n");
  EXPECT_EQ(service_.submitted.model().path(), folder_.path("models/small"));
}

TEST_F(CommandLineTest, TellsAllProblemsOfASpecAtOnce) {
  Write("train.jsonl", "{}\n");
  const std::string spec = Write("job.yaml",
                                 "kind: rl\n"
                                 "modle: {path: x}\n"
                                 "data: {train_files: [train.jsonl, gone.jsonl]}\n"
                                 "rollout: {n: 0, temperature: hot}\n"
                                 "reward: {rules: 5, timeout_seconds: soon}\n");
  auto violation = [&](const char* path, const char* text) {
    v1::FieldViolation& v = *service_.validation.add_violations();
    v.set_field(absl::StrCat("spec.", path));
    v.set_description(text);
  };
  violation("kind", "is missing");
  violation("model", "needs path: not told, for its name is misspelled");
  violation("rollout.n", "0 is not in [1, 1024]");
  violation("rollout.temperature", "not told twice");
  violation("reward.rules[0].type", "not told of what could not be read");
  violation("reward", "has a fault of its own beside them");
  violation("data.train_files", "/data/files/0123/train.jsonl:1: `prompt` is missing");
  const Outcome outcome = Run({"submit", spec, "--set", "actor.lr=x", "--set", "kind[0]=rl"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            absl::StrCat("baton: the spec has 11 problems\n",                        //
                         spec, ":1: kind: is missing\n",                             //
                         spec, ":2:1: modle: unknown key; did you mean 'model'?\n",  //
                         spec, ":3: data.train_files[1]: data file ", folder_.path(),
                         "/gone.jsonl does not exist\n",  //
                         spec, ":3: data.train_files: ", folder_.path(),
                         "/train.jsonl:1: `prompt` is missing\n",                      //
                         spec, ":4:30: rollout.temperature: 'hot' is not a number\n",  //
                         spec, ":4: rollout.n: 0 is not in [1, 1024]\n",               //
                         spec, ":5:17: reward.rules: needs a list, not a value\n",     //
                         spec, ":5:37: reward.timeout_seconds: 'soon' is not a number\n", spec,
                         ":5: reward: has a fault of its own beside them\n",
                         "--set kind[0]=rl: the spec has a value at kind, which has no parts\n",
                         "--set actor.lr=x: 'x' is not a number\n"));
}

// A mistake is blamed on the option that makes it, also where the controller finds it.
TEST_F(CommandLineTest, BlamesMistakesInSetOnThatOption) {
  const std::string spec = Write("job.yaml", "kind: rl\nrollout:\n  n: 4\n");
  v1::FieldViolation& v = *service_.validation.add_violations();
  v.set_field("spec.rollout.n");
  v.set_description("0 is not in [1, 1024]");
  const Outcome outcome = Run({"submit", spec, "--set", "rollout.n=0", "--set", "rolout.top_k=1"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "baton: the spec has 2 problems\n"
            "--set rolout.top_k=1: rolout: unknown key; did you mean 'rollout'?\n"
            "--set rollout.n=0: 0 is not in [1, 1024]\n");
}

TEST_F(CommandLineTest, SaysWhichFileOfASpecIsMissing) {
  Outcome outcome = Run({"submit", folder_.path("nope.yaml")});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("nope.yaml cannot be opened"));
  const std::string spec =
      Write("job.yaml", absl::StrCat("kind: rl\ndata: {train_files: [gone.jsonl], val_files: [",
                                     folder_.path(), "]}\n"));
  v1::FieldViolation& v = *service_.validation.add_violations();
  v.set_field("spec.data.train_files");
  v.set_description("is missing: not told, for a file was given");
  outcome = Run({"submit", spec});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err,
            absl::StrCat("baton: the spec has 2 problems\n", spec,
                         ":2: data.train_files[0]: data file ", folder_.path(),
                         "/gone.jsonl does not exist\n", spec, ":2: data.val_files[0]: data file ",
                         folder_.path(), " is not a file; give a JSONL file\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("submitted")));
}

// When no controller answers, the command prints the problems that it found itself, and says that
// there may be more.
TEST_F(CommandLineTest, TellsWhatItKnowsWithoutAController) {
  const std::string spec = Write("job.yaml", "kind: lr\nrollout:\n\tn: many\n");
  const Outcome outcome = RunBaton({"submit", spec, "--controller", "127.0.0.1:1"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("cannot be asked for more problems"));
  EXPECT_THAT(outcome.err, HasSubstr(spec + ":3:1: a tab in the indentation"));
  EXPECT_THAT(outcome.err, HasSubstr("kind: 'lr' is not one of"));
  EXPECT_THAT(outcome.err, HasSubstr("rollout.n: 'many' is not an integer"));
}

}  // namespace
}  // namespace baton::cli
