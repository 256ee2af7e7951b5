// Submits a spec, follows the job to its end, and prints what it ended with.
#include <baton/client.h>

#include <cstdio>
#include <fstream>
#include <iterator>

int Fail(const absl::Status& status) {
  return std::fprintf(stderr, "%s\n", std::string(status.message()).c_str()), 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CONTROLLER SPEC\n", argv[0]), 2;
  std::ifstream file(argv[2]);
  const std::string yaml{std::istreambuf_iterator<char>(file), {}};
  const baton::ParsedSpec parsed = baton::ParseSpecYaml(yaml, {});
  std::fputs(baton::FormatProblems(argv[2], parsed.problems).c_str(), stderr);
  if (!parsed.problems.empty()) return 2;

  auto client = baton::Client::Connect(argv[1]);
  if (!client.ok()) return Fail(client.status());
  auto job = (*client)->CreateJob(parsed.spec, /*job_id=*/"", /*request_id=*/"");
  if (!job.ok()) return Fail(job.status());
  auto print = [](const baton::v1::JobEvent& event) {
    std::printf("%s step %d %s\n", event.type().c_str(), static_cast<int>(event.step()),
                event.message().c_str());
    return true;  // false: stop watching
  };
  if (auto end = (*client)->WatchJob(job->name(), 0, print); !end.ok()) return Fail(end);
  job = (*client)->GetJob(job->name());
  if (!job.ok()) return Fail(job.status());
  std::printf("%s\n", baton::v1::Job::State_Name(job->state()).c_str());
  for (const auto& [name, value] : job->metrics()) std::printf("%s %g\n", name.c_str(), value);
  return job->state() == baton::v1::Job::STATE_SUCCEEDED ? 0 : 1;
}
