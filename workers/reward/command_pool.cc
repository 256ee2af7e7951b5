#include "workers/reward/command_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/command_slot.h"
#include "workers/reward/reply_line.h"

namespace baton::reward {
namespace {

constexpr absl::Duration kExitGrace = absl::Milliseconds(200);
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);
constexpr absl::Duration kFirstBackOff = absl::Milliseconds(50);
constexpr int kSecondChances = 2;
constexpr size_t kAnsweredIds = 1024;
constexpr absl::Duration kLongestBackOff = absl::Seconds(5);

std::string Shorten(absl::string_view text) {
  constexpr size_t kBytes = 300;
  std::string out = ReplaceInvalidUtf8(text.substr(0, kBytes));
  if (text.size() > kBytes) absl::StrAppend(&out, "… (", text.size(), " bytes)");
  return out;
}

// The "id" of a reply's line; of a line that is no reply what is wrong with it.
struct ReplyHead {
  std::optional<uint64_t> id;
  std::string wrong;
};

ReplyHead ReadHead(const std::string& line) {
  const nlohmann::json json = ParseReplyLine(line);
  if (!json.is_object()) {
    return {std::nullopt, NoObject(line)};
  }
  const auto id = json.find("id");
  if (id == json.end()) {
    return {std::nullopt, "answered without \"id\" (copy the request's into the reply)"};
  }
  if (!id->is_number_unsigned()) {
    return {std::nullopt, "answered with an \"id\" that is no request's (copy the request's)"};
  }
  return {id->get<uint64_t>(), ""};
}

// The end of stderr below `what`. If the process ended by itself, the first line repeats the last
// line of stderr, which mostly is the exception.
std::string WithStderr(const std::string& what, const std::string& tail, bool ended) {
  if (tail.empty()) return ended ? absl::StrCat(what, "; it wrote nothing to stderr") : what;
  const size_t newline = tail.rfind('\n');
  if (ended && newline == std::string::npos) return absl::StrCat(what, ": ", tail);
  const std::string last = newline == std::string::npos ? tail : tail.substr(newline + 1);
  return absl::StrCat(what, ended ? absl::StrCat(": ", last) : "", "\nThe end of its stderr:\n",
                      tail);
}

}  // namespace

// The I/O thread and all it knows.
class CommandPool::Loop {
 public:
  Loop(CommandOptions options, int wake_fd)
      : options_(std::move(options)),
        wake_fd_(wake_fd),
        slots_(static_cast<size_t>(options_.processes)),
        thread_([this] { Main(); }) {}

  ~Loop() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    close(wake_fd_);
  }

  void Run(absl::Span<Exchange> batch) {
    if (batch.empty()) return;
    absl::BlockingCounter done(static_cast<int>(batch.size()));
    {
      absl::MutexLock lock(&mu_);
      for (Exchange& exchange : batch) incoming_.push_back({exchange.id, &exchange, &done});
    }
    Wake();
    done.Wait();
  }

  uint64_t NewId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  void Wake() {
    const uint64_t one = 1;
    // The write can fail only when a wake-up is pending already.
    if (write(wake_fd_, &one, sizeof(one)) < 0) return;
  }

 private:
  static void Settle(CommandRequest& request, absl::StatusOr<std::string> reply) {
    if (request.exchange == nullptr) return;
    std::exchange(request.exchange, nullptr)->reply = std::move(reply);
    request.done->DecrementCount();
  }

  static bool IsCancelled(const CommandRequest& request) {
    return request.exchange != nullptr && request.exchange->cancelled != nullptr &&
           *request.exchange->cancelled;
  }

  // Settled requests stay with their process, so that their replies are recognised.
  void SettleCancelled() {
    const absl::Status cancelled = absl::CancelledError("nobody wants the score any more");
    for (std::deque<CommandRequest>* queue : {&pending_, &alone_}) {
      for (CommandRequest& request : *queue) {
        if (IsCancelled(request)) Settle(request, cancelled);
      }
      EraseSettled(queue);
    }
    for (CommandSlot& slot : slots_) {
      for (CommandRequest& request : slot.outstanding) {
        if (IsCancelled(request)) Settle(request, cancelled);
      }
    }
  }

  static void EraseSettled(std::deque<CommandRequest>* queue) {
    queue->erase(std::remove_if(queue->begin(), queue->end(),
                                [](const CommandRequest& r) { return r.exchange == nullptr; }),
                 queue->end());
  }

  void Main() {
    // A process that is gone is seen by EPIPE.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    StartProcesses(BootNow());
    while (TakeIncoming()) {
      const absl::Time now = BootNow();
      SettleCancelled();
      ExpireOldest(now);
      TellSilence(now);
      if (!alone_.empty() || !pending_.empty()) StartProcesses(now);
      Dispatch(now);
      if (!broken_.ok()) FailAll();
      WaitForEvents();
    }
    ShutDown();
  }

  // False: it is time to end.
  bool TakeIncoming() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    for (const CommandRequest& request : incoming_) pending_.push_back(request);
    incoming_.clear();
    return !stopping_;
  }

  void StartProcesses(absl::Time now) {
    for (CommandSlot& slot : slots_) {
      if (slot.running() || now < slot.start_after || !broken_.ok()) continue;
      if (absl::Status status = slot.Start(options_); !status.ok()) {
        CountFault(&slot, std::string(status.message()));
      }
    }
  }

  // Requests that must be alone first; else each to the process with the fewest.
  void Dispatch(absl::Time now) {
    for (CommandSlot& slot : slots_) {
      if (alone_.empty()) break;
      if (!slot.running() || !slot.outstanding.empty()) continue;
      Assign(&slot, &alone_, now);
      slot.alone = true;
    }
    while (alone_.empty() && !pending_.empty()) {
      CommandSlot* best = nullptr;
      for (CommandSlot& slot : slots_) {
        if (!slot.running() || slot.alone ||
            slot.outstanding.size() >= static_cast<size_t>(options_.window)) {
          continue;
        }
        const bool fewest = best == nullptr || slot.outstanding.size() < best->outstanding.size();
        if (fewest) best = &slot;
      }
      if (best == nullptr) break;
      Assign(best, &pending_, now);
    }
  }

  void Assign(CommandSlot* slot, std::deque<CommandRequest>* from, absl::Time now) {
    if (slot->outstanding.empty()) slot->oldest_since = now;
    slot->outstanding.push_back(from->front());
    from->pop_front();
    slot->Send(slot->outstanding.back().exchange->line);
  }

  absl::Time Deadline(const CommandSlot& slot) const {
    if (slot.outstanding.empty()) return absl::InfiniteFuture();
    return AskedAt(slot) + options_.timeout;
  }

  // The begin of the time limit of the slot's oldest request.
  absl::Time AskedAt(const CommandSlot& slot) const {
    if (slot.has_answered) return slot.oldest_since;
    return std::max(slot.oldest_since, slot.started + options_.startup);
  }

  void ExpireOldest(absl::Time now) {
    for (CommandSlot& slot : slots_) {
      if (!slot.running() || now < Deadline(slot)) continue;
      std::string what =
          absl::StrCat("gave no reply within ", absl::FormatDuration(options_.timeout));
      if (!slot.partial_line().empty()) {
        absl::StrAppend(&what, ", but a line without an end: ", Shorten(slot.partial_line()));
      } else if (slot.has_answered) {
        absl::StrAppend(&what, " (reward.timeout_seconds)");
      } else {
        absl::StrAppend(
            &what, " (reward.timeout_seconds) of its start",
            options_.startup > absl::ZeroDuration()
                ? absl::StrCat(" and the ", absl::FormatDuration(options_.startup),
                               " before (reward.startup_seconds)")
                : "",
            ": it must write each reply at once, as one line, and flush it; if it needs "
            "longer to start, raise reward.startup_seconds");
      }
      Fault(&slot, absl::StatusCode::kDeadlineExceeded, what, absl::ZeroDuration());
    }
  }

  // The time to report a command that has never answered: long before the time limit.
  absl::Time TellSilenceAt() const {
    if (ever_answered_ || !trouble_.empty() || !options_.trouble_sink)
      return absl::InfiniteFuture();
    absl::Time at = absl::InfiniteFuture();
    for (const CommandSlot& slot : slots_) {
      if (!slot.outstanding.empty()) at = std::min(at, AskedAt(slot) + options_.silence);
    }
    return at;
  }

  void TellSilence(absl::Time now) {
    if (now < TellSilenceAt()) return;
    Tell(absl::StrCat("your command has not answered its first request for ",
                      absl::FormatDuration(options_.silence), "; it may take ",
                      absl::FormatDuration(options_.timeout + options_.startup),
                      " (reward.timeout_seconds and reward.startup_seconds). It must write each "
                      "reply at once, as one line, and flush it"));
  }

  void Tell(const std::string& text) {
    trouble_ = text;
    if (options_.trouble_sink) options_.trouble_sink(text);
  }

  void WaitForEvents() {
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    std::vector<CommandSlot*> owners = {nullptr};
    absl::Time until = TellSilenceAt();
    const auto watch = [&](CommandSlot* slot, int fd, short events) {
      if (fd < 0) return;
      fds.push_back({fd, events, 0});
      owners.push_back(slot);
    };
    for (CommandSlot& slot : slots_) {
      until = std::min(until, Deadline(slot));
      if (!slot.running()) {
        if (!pending_.empty() || !alone_.empty()) until = std::min(until, slot.start_after);
        continue;
      }
      watch(&slot, slot.process()->stdout_fd(), POLLIN);
      if (!slot.stderr_ended) watch(&slot, slot.process()->stderr_fd(), POLLIN);
      if (slot.wants_write()) watch(&slot, slot.process()->stdin_fd(), POLLOUT);
    }
    int timeout_ms = -1;
    if (until != absl::InfiniteFuture()) {
      const absl::Duration left = std::max(until - BootNow(), absl::ZeroDuration());
      timeout_ms = static_cast<int>(std::min<int64_t>(
          absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), 60'000));
    }
    if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
    if (fds[0].revents != 0) {
      uint64_t count;
      if (read(wake_fd_, &count, sizeof(count)) < 0) count = 0;
    }
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && owners[i]->running()) Serve(owners[i], fds[i].fd);
    }
  }

  void Serve(CommandSlot* slot, int fd) {
    if (fd == slot->process()->stdin_fd()) return slot->Write();
    if (fd == slot->process()->stderr_fd()) {
      slot->stderr_ended = !slot->ReadStderr(options_.stderr_sink);
      return;
    }
    if (fd != slot->process()->stdout_fd()) return;
    std::vector<std::string> lines;
    const CommandSlot::ReadState state = slot->ReadReplies(options_.max_line_bytes, &lines);
    for (std::string& line : lines) {
      if (!TakeReply(slot, std::move(line))) return;  // it was killed for this line
    }
    if (state == CommandSlot::ReadState::kTooLong) {
      Fault(slot, absl::StatusCode::kDataLoss,
            absl::StrCat("wrote a reply that is longer than ", options_.max_line_bytes,
                         " bytes: ", Shorten(slot->partial_line())),
            absl::ZeroDuration());
    } else if (state == CommandSlot::ReadState::kEnded) {
      Fault(slot, absl::StatusCode::kAborted,
            !slot->partial_line().empty()
                ? absl::StrCat(" within a line: ", Shorten(slot->partial_line()))
            : slot->has_answered ? " without a reply"
                                 : " before it answered",
            kExitGrace);
    }
  }

  bool TakeReply(CommandSlot* slot, std::string line) {
    if (absl::StripAsciiWhitespace(line).empty()) return true;
    auto [id, wrong] = ReadHead(line);
    const auto request = std::find_if(slot->outstanding.begin(), slot->outstanding.end(),
                                      [id = id](const CommandRequest& r) { return r.id == id; });
    if (request == slot->outstanding.end()) {
      if (id.has_value()) {
        const bool twice =
            std::find(slot->answered.begin(), slot->answered.end(), *id) != slot->answered.end();
        wrong = twice ? "answered twice (one reply to each request)"
                      : "answered an \"id\" that it was not asked (copy the request's)";
      }
      Fault(slot, absl::StatusCode::kDataLoss, absl::StrCat(wrong, ": ", Shorten(line)),
            absl::ZeroDuration());
      return false;
    }
    const bool was_oldest = request == slot->outstanding.begin();
    CommandRequest answered = *request;
    slot->outstanding.erase(request);
    if (was_oldest) slot->oldest_since = BootNow();
    if (slot->outstanding.empty()) slot->alone = false;
    slot->has_answered = ever_answered_ = true;
    slot->answered.push_back(answered.id);
    if (slot->answered.size() > kAnsweredIds) slot->answered.pop_front();
    slot->faults = faults_in_a_row_ = 0;
    if (!trouble_.empty() && BootNow() >= last_fault_ + options_.calm) {
      Tell("");
      restarts_ = 0;
    }
    Settle(answered, std::move(line));
    return true;
  }

  // Kills the process and settles what it was asked (see the header of command_pool.h).
  void Fault(CommandSlot* slot, absl::StatusCode code, const std::string& what,
             absl::Duration exit_grace) {
    const CommandSlot::End end = slot->Stop(exit_grace, options_.stderr_sink);
    const bool ended = code == absl::StatusCode::kAborted;
    const std::string text = WithStderr(absl::StrCat("your command ", ended ? end.how : "", what),
                                        end.stderr_tail, ended);
    const bool oldest_is_guilty = IsOldestGuilty(slot, code);
    if (oldest_is_guilty) {
      CommandRequest guilty = slot->outstanding.front();
      slot->outstanding.pop_front();
      Settle(guilty, absl::Status(code, text));
    }
    EraseSettled(&slot->outstanding);
    std::deque<CommandRequest>* again = oldest_is_guilty ? &pending_ : &alone_;
    again->insert(again->begin(), slot->outstanding.begin(), slot->outstanding.end());
    slot->outstanding.clear();
    slot->alone = false;
    CountFault(slot, text);
  }

  bool IsOldestGuilty(CommandSlot* slot, absl::StatusCode code) const {
    if (slot->outstanding.empty()) return false;
    if (code == absl::StatusCode::kDeadlineExceeded) return true;
    if (slot->outstanding.size() > 1) return false;
    // A process that has answered may have been about to end, or to write something more.
    CommandRequest& only = slot->outstanding.front();
    return !slot->has_answered || ++only.second_chances > kSecondChances;
  }

  void CountFault(CommandSlot* slot, const std::string& text) {
    ++slot->faults;
    if (++faults_in_a_row_ == 1) first_fault_ = text;
    last_fault_ = BootNow();
    ++restarts_;
    Tell(WithRestarts(text));
    // The first restart is at once; then each waits twice as long.
    absl::Duration wait = absl::ZeroDuration();
    if (slot->faults > 1) {
      wait =
          std::min(kLongestBackOff, kFirstBackOff * (int64_t{1} << std::min(slot->faults - 2, 20)));
    }
    slot->start_after = BootNow() + wait;
    const int most = ever_answered_ ? options_.max_faults
                                    : std::min(options_.max_faults, options_.max_first_faults);
    if (faults_in_a_row_ < most * options_.processes || !broken_.ok()) return;
    broken_ = absl::UnavailableError(absl::StrCat("the command '", Shorten(options_.command),
                                                  "' failed ", faults_in_a_row_, " times in a row",
                                                  ever_answered_ ? "" : ", never answered",
                                                  " and is given up. The first: ", first_fault_));
  }

  // "…: ValueError: boom (restarted 3 times)", before the rest of stderr.
  std::string WithRestarts(const std::string& text) const {
    const size_t line = std::min(text.find('\n'), text.size());
    return absl::StrCat(text.substr(0, line), " (restarted ", restarts_,
                        restarts_ == 1 ? " time)" : " times)", text.substr(line));
  }

  // Everything that waits gets `broken_`.
  void FailAll() {
    for (CommandSlot& slot : slots_) {
      if (slot.running()) (void)slot.Stop(absl::ZeroDuration(), options_.stderr_sink);
      pending_.insert(pending_.end(), slot.outstanding.begin(), slot.outstanding.end());
      slot.outstanding.clear();
    }
    pending_.insert(pending_.end(), alone_.begin(), alone_.end());
    alone_.clear();
    for (CommandRequest& request : pending_) Settle(request, broken_);
    pending_.clear();
  }

  void ShutDown() {
    for (CommandSlot& slot : slots_) {
      if (slot.running()) slot.process()->CloseStdin();
    }
    const absl::Time deadline = BootNow() + kShutdownGrace;
    for (CommandSlot& slot : slots_) {
      if (!slot.running()) continue;
      const absl::Duration left = std::max(deadline - BootNow(), absl::ZeroDuration());
      (void)slot.Stop(left, options_.stderr_sink);
    }
  }

  // Constant after construction.
  const CommandOptions options_;
  const int wake_fd_;
  // Own synchronisation.
  std::atomic<uint64_t> next_id_{1};
  absl::Mutex mu_;
  std::vector<CommandRequest> incoming_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  // The I/O thread's own.
  std::vector<CommandSlot> slots_;
  std::deque<CommandRequest> pending_;  // any process, with others
  std::deque<CommandRequest> alone_;    // one at a time
  int faults_in_a_row_ = 0;
  std::string first_fault_;  // of these
  absl::Time last_fault_;
  int restarts_ = 0;  // since there is trouble
  bool ever_answered_ = false;
  std::string trouble_;  // what was told last
  absl::Status broken_;
  std::thread thread_;  // last: it uses all of the above
};

CommandPool::CommandPool(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
CommandPool::~CommandPool() = default;

absl::StatusOr<std::unique_ptr<CommandPool>> CommandPool::Create(CommandOptions options) {
  const auto require = [](bool condition, absl::string_view what) {
    return condition ? absl::OkStatus() : absl::InvalidArgumentError(what);
  };
  for (const absl::Status& status :
       {require(!absl::StripAsciiWhitespace(options.command).empty(), "command: it is empty"),
        require(options.processes >= 1 && options.processes <= 64,
                absl::StrCat("command_processes: ", options.processes, " is not in [1, 64]")),
        require(options.window >= 1 && options.window <= 1024,
                absl::StrCat("window: ", options.window, " is not in [1, 1024]")),
        require(options.timeout > absl::ZeroDuration(), "timeout_seconds: it must be above 0"),
        require(options.max_faults >= 1, "max_faults: it must be at least 1")}) {
    if (!status.ok()) return status;
  }
  if (auto launch = options.sandbox->Prepare(options.command, options.working_dir); !launch.ok()) {
    return launch.status();
  }
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return absl::UnavailableError("command: cannot make an eventfd");
  return std::unique_ptr<CommandPool>(
      new CommandPool(std::make_unique<Loop>(std::move(options), wake_fd)));
}

void CommandPool::Run(absl::Span<Exchange> batch) { loop_->Run(batch); }
void CommandPool::NoticeCancelled() { loop_->Wake(); }
uint64_t CommandPool::NewId() { return loop_->NewId(); }

}  // namespace baton::reward
