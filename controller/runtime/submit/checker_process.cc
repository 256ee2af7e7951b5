#include "controller/runtime/submit/checker_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/contracts/check_protocol.h"
#include "sdk/common/process/spawn.h"

namespace baton::controller {
namespace {

// Processor time beyond a check's limit, so that the limit itself ends a slow check.
constexpr absl::Duration kProcessorSlack = absl::Seconds(30);
constexpr off_t kErrorShown = 1024;  // bytes of standard error shown in a message

// Waits until `fd` is ready for `events`, or its other end is closed.
absl::Status AwaitReady(int fd, short events, absl::Time deadline,
                        const std::function<bool()>& stopped) {
  while (true) {
    if (stopped()) return absl::CancelledError("was ended");
    const auto left = absl::ToInt64Milliseconds(deadline - BootNow());
    if (left <= 0) return absl::DeadlineExceededError("was not done in time");
    pollfd waited = {fd, events, 0};
    if (::poll(&waited, 1, static_cast<int>(std::min<int64_t>(left, 100))) > 0) {
      return absl::OkStatus();
    }
  }
}

}  // namespace

CheckerProcess::CheckerProcess(std::string program)
    : program_(std::move(program)), errors_("errors") {}

CheckerProcess::~CheckerProcess() { End(); }

void CheckerProcess::End() {
  if (!running()) return;
  // The process gets a moment to reap its children, which would otherwise go to process 1. In a
  // container, process 1 often reaps nothing.
  process_->End(absl::Seconds(1));
  process_.reset();
  ::close(std::exchange(socket_, -1));
}

absl::Status CheckerProcess::Start() {
  // A process that died since its last answer (memory was short) did not die because of this
  // request.
  if (running() && !process_->WaitFor(absl::ZeroDuration()).has_value()) return absl::OkStatus();
  End();
  int ends[2] = {-1, -1};
  if (errors_.fd() < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError("no memory for the check of the job");
  }
  SpawnOptions options;
  options.arguments = {program_, "check"};
  options.stdin_fd = ends[1];
  options.stdout_fd = ends[1];
  options.stderr_fd = errors_.fd();
  options.own_group = true;  // it is killed with its children
  const auto pid = Spawn(options);
  ::close(ends[1]);
  if (!pid.ok()) {
    ::close(ends[0]);
    return absl::UnavailableError(pid.status().message());
  }
  process_ = std::make_unique<ProcessGroup>(*pid);
  served_ = false;
  socket_ = ends[0];
  return absl::OkStatus();
}

std::string CheckerProcess::Said() const {
  return std::string(absl::StripAsciiWhitespace(ReplaceInvalidUtf8(errors_.ReadEnd(kErrorShown))));
}

// Describes how the process ended, which has closed its streams or is about to end.
absl::Status CheckerProcess::Ended() {
  // The process gets a moment to end by itself, because its own exit status is the better message.
  const auto end = process_->WaitFor(absl::Seconds(1));
  const std::string said = Said();
  const std::string why = said.empty() ? "" : absl::StrCat(": ", said);
  if (!end.has_value()) return absl::InternalError(absl::StrCat("closed its output", why));
  if (end->unknown) return absl::InternalError(absl::StrCat("ended", why));
  if (end->killed) {
    return absl::InternalError(absl::StrCat("was killed by signal ", end->number, why));
  }
  if (end->number == kCheckCannotBeginCode) {
    return absl::UnavailableError(absl::StrCat("cannot run ", program_, why));
  }
  return absl::InternalError(absl::StrCat("ended with exit code ", end->number, why));
}

absl::Status CheckerProcess::Send(absl::string_view bytes, absl::Time deadline,
                                  const std::function<bool()>& stopped) {
  while (!bytes.empty()) {
    BATON_RETURN_IF_ERROR(AwaitReady(socket_, POLLOUT, deadline, stopped));
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return Ended();
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status CheckerProcess::Receive(char* to, size_t bytes, absl::Time deadline,
                                     const std::function<bool()>& stopped) {
  while (bytes > 0) {
    BATON_RETURN_IF_ERROR(AwaitReady(socket_, POLLIN, deadline, stopped));
    const ssize_t n = ::recv(socket_, to, bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return Ended();
    silent_ = false;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ValidateJobResponse> CheckerProcess::Exchange(
    const Request& request, absl::Duration limit, absl::Time deadline,
    const std::function<bool()>& stopped) {
  const std::string spec = request.spec.SerializeAsString();
  CheckRequestLine asked;
  asked.spec_bytes = spec.size();
  asked.cpu_seconds = absl::ToInt64Seconds(limit + kProcessorSlack);
  asked.filtered_bytes = request.filtered_bytes;
  asked.folder = request.filtered_folder;
  BATON_RETURN_IF_ERROR(Send(FormatCheckLine(asked) + spec, deadline, stopped));
  std::string line;
  for (char next = 0; next != '\n' && line.size() < kMaxCheckLineBytes;) {
    BATON_RETURN_IF_ERROR(Receive(&next, 1, deadline, stopped));
    if (next != '\n') line.push_back(next);
  }
  const auto response = ParseCheckResponseLine(line);
  if (!response.ok()) return absl::InternalError("gave an answer that cannot be read");
  if (response->bytes > kMaxCheckAnswerBytes) {
    return absl::InternalError(
        absl::StrCat("answered ", response->bytes, " bytes, more than ", kMaxCheckAnswerBytes));
  }
  std::string bytes(response->bytes, '\0');
  BATON_RETURN_IF_ERROR(Receive(bytes.data(), bytes.size(), deadline, stopped));
  v1::ValidateJobResponse answer;
  if (response->found && answer.ParseFromString(bytes)) return answer;
  if (response->found) return absl::InternalError("gave an answer that cannot be read");
  // The process is healthy: it reports the result of this check.
  const std::string said = Said();
  return absl::AbortedError(absl::StrCat(ReplaceInvalidUtf8(bytes.substr(0, 4096)),
                                         said.empty() ? "" : absl::StrCat(": ", said)));
}

absl::StatusOr<v1::ValidateJobResponse> CheckerProcess::Check(
    const Request& request, absl::Duration limit, const std::function<bool()>& stopped) {
  const absl::Time deadline = BootNow() + limit;
  while (true) {
    errors_.Clear();
    BATON_RETURN_IF_ERROR(Start());
    const bool served = std::exchange(served_, true);
    silent_ = true;
    auto answer = Exchange(request, limit, deadline, stopped);
    if (absl::IsAborted(answer.status())) return absl::InternalError(answer.status().message());
    if (answer.ok()) return answer;
    End();
    // If a healthy process ended (memory was short), this request is not to blame.
    const bool ended = absl::IsInternal(answer.status()) || absl::IsUnavailable(answer.status());
    if (!ended || !served || !silent_) return answer;
  }
}

}  // namespace baton::controller
