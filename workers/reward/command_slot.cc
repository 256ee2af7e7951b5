#include "workers/reward/command_slot.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"

namespace baton::reward {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr int kChunksPerTurn = 16;  // so that one busy process does not starve the others
constexpr size_t kStderrTailBytes = 2048;

// Bytes read (0: the stream ended, -1: nothing there now).
ssize_t ReadChunk(int fd, char* buffer) {
  while (true) {
    const ssize_t n = read(fd, buffer, kChunkBytes);
    if (n >= 0) return n;
    if (errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : 0;
  }
}

}  // namespace

absl::Status CommandSlot::Start(const CommandOptions& options) {
  BATON_ASSIGN_OR_RETURN(const CommandLaunch launch,
                         options.sandbox->Prepare(options.command, options.working_dir));
  BATON_ASSIGN_OR_RETURN(process_, ChildProcess::Start(launch));
  has_answered = stderr_ended = false;
  answered.clear();
  started = BootNow();
  to_write_.clear();
  partial_.clear();
  stderr_partial_.clear();
  stderr_tail_.clear();
  return absl::OkStatus();
}

void CommandSlot::Send(absl::string_view line) {
  absl::StrAppend(&to_write_, line, "\n");
  Write();
}

void CommandSlot::Write() {
  size_t done = 0;
  while (done < to_write_.size() && process_->stdin_fd() >= 0) {
    const ssize_t n = write(process_->stdin_fd(), to_write_.data() + done, to_write_.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      // The command reads no more. Its further replies decide; else its end or its time limit does.
      process_->CloseStdin();
    }
  }
  to_write_.erase(0, done);
}

CommandSlot::ReadState CommandSlot::ReadReplies(size_t max_line_bytes,
                                                std::vector<std::string>* lines) {
  std::vector<char> buffer(kChunkBytes);
  for (int i = 0; i < kChunksPerTurn; ++i) {
    const ssize_t n = ReadChunk(process_->stdout_fd(), buffer.data());
    if (n < 0) return ReadState::kOpen;
    if (n == 0) return ReadState::kEnded;
    absl::string_view chunk(buffer.data(), static_cast<size_t>(n));
    for (size_t end = chunk.find('\n'); end != absl::string_view::npos; end = chunk.find('\n')) {
      absl::StrAppend(&partial_, chunk.substr(0, end));
      if (partial_.size() > max_line_bytes) return ReadState::kTooLong;
      lines->push_back(std::move(partial_));
      partial_.clear();
      chunk.remove_prefix(end + 1);
    }
    absl::StrAppend(&partial_, chunk);
    if (partial_.size() > max_line_bytes) return ReadState::kTooLong;
  }
  return ReadState::kOpen;
}

bool CommandSlot::ReadStderr(const std::function<void(absl::string_view)>& sink) {
  std::vector<char> buffer(kChunkBytes);
  for (int i = 0; i < kChunksPerTurn; ++i) {
    const ssize_t n = ReadChunk(process_->stderr_fd(), buffer.data());
    if (n <= 0) return n < 0;
    const absl::string_view chunk(buffer.data(), static_cast<size_t>(n));
    absl::StrAppend(&stderr_tail_, chunk);
    if (stderr_tail_.size() > kStderrTailBytes) {
      stderr_tail_.erase(0, stderr_tail_.size() - kStderrTailBytes);
    }
    if (!sink) continue;
    absl::StrAppend(&stderr_partial_, chunk);
    size_t begin = 0;
    for (size_t end; (end = stderr_partial_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      sink(ReplaceInvalidUtf8(absl::string_view(stderr_partial_).substr(begin, end - begin)));
    }
    stderr_partial_.erase(0, begin);
    if (stderr_partial_.size() > kChunkBytes) stderr_partial_.clear();
  }
  return true;
}

CommandSlot::End CommandSlot::Stop(absl::Duration grace,
                                   const std::function<void(absl::string_view)>& sink) {
  // Time to end by itself, for a true exit code.
  if (grace > absl::ZeroDuration()) (void)process_->WaitFor(grace);
  process_->Kill();
  ReadStderr(sink);
  if (sink && !stderr_partial_.empty()) sink(ReplaceInvalidUtf8(stderr_partial_));
  End end = {process_->ExitText(), ReplaceInvalidUtf8(absl::StripAsciiWhitespace(stderr_tail_))};
  process_.reset();
  return end;
}

}  // namespace baton::reward
