// Real processes. Where the machine does not let bubblewrap work, what it protects is skipped, and
// the refusal is tested all the same.
#include "workers/reward/command_sandbox.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/test_folder.h"
#include "workers/reward/child_process.h"

namespace baton::reward {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

class CommandSandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_.path("work"));
    Write("secret", "the token\n");
    Write("work/data", "the data\n");
  }

  void Write(const std::string& name, const std::string& text) { dir_.Write(name, text); }

  std::string WriteProgram(const std::string& name, const std::string& text) {
    Write(name, text);
    fs::permissions(dir_.path(name), fs::perms::owner_all);
    return dir_.path(name);
  }

  struct Outcome {
    std::string out, err, exit;
  };
  // The command's last output; it is small, so that no pipe is full.
  static Outcome Run(const CommandSandbox& sandbox, const std::string& command,
                     const std::string& working_dir) {
    const auto launch = sandbox.Prepare(command, working_dir);
    if (!launch.ok()) return {"", std::string(launch.status().message()), "was not started"};
    auto process = ChildProcess::Start(*launch);
    EXPECT_TRUE(process.ok()) << process.status();
    EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
    (*process)->Kill();
    return {ReadToEnd((*process)->stdout_fd()), ReadToEnd((*process)->stderr_fd()),
            (*process)->ExitText()};
  }

  // Null where bubblewrap does not work.
  std::shared_ptr<const CommandSandbox> Bubblewrap() {
    options_.kind = SandboxOptions::Kind::kBubblewrap;
    auto made = CommandSandbox::Create(options_);
    if (made.ok()) return *made;
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
    return nullptr;
  }

  const TestFolder dir_;
  SandboxOptions options_;
};

#define SANDBOX_OR_SKIP(name)     \
  const auto name = Bubblewrap(); \
  if (name == nullptr) GTEST_SKIP() << "bubblewrap does not work here"

TEST_F(CommandSandboxTest, ReadsItsWorkingDirectoryAndWritesNowhereButInItsTemporaryFolder) {
  SANDBOX_OR_SKIP(sandbox);
  const Outcome outcome =
      Run(*sandbox,
          "cat data; pwd; echo mine > $HOME/new && cat /tmp/new; "
          "echo x > ./new || echo refused; echo x > /new || echo refused; id -u",
          dir_.path("work"));
  EXPECT_EQ(outcome.out, absl::StrCat("the data\n", fs::canonical(dir_.path("work")).string(),
                                      "\nmine\nrefused\nrefused\n65534\n"))
      << outcome.err;
  EXPECT_FALSE(fs::exists(dir_.path("work/new")));
}

// Fills every folder that it can write in, and prints for each the bytes that it took.
constexpr char kFiller[] = R"(
import errno, os
total = 0
for folder, below, _ in os.walk('/'):
    below[:] = [b for b in below if not (folder == '/' and b in ('proc', 'usr', 'lib', 'lib64'))]
    path = os.path.join(folder, 'filler')
    try:
        file = open(path, 'wb')
    except OSError:
        continue
    taken = 0
    try:
        while taken < 1 << 28:
            taken += file.write(bytes(1 << 20))
            file.flush()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    total += taken
    print('wrote in', folder)
print('at most 64 MiB:', total <= 64 << 20)
)";

TEST_F(CommandSandboxTest, AllThatItCanWriteIsOnePlaceWithABound) {
  Write("work/fill.py", kFiller);
  options_.limits.memory_bytes = uint64_t{256} << 20;  // a quarter is 64 MiB
  SANDBOX_OR_SKIP(sandbox);
  const Outcome outcome = Run(*sandbox, "python3 fill.py", dir_.path("work"));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("wrote in /dev/shm\n"), Not(HasSubstr("wrote in /dev\n")),
                    HasSubstr("at most 64 MiB: True")))
      << outcome.err;
}

// Memory that neither the address space nor /tmp counts.
TEST_F(CommandSandboxTest, RefusesMemoryOutsideTheLimits) {
  SANDBOX_OR_SKIP(sandbox);
  Write("work/hide.py", R"(
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, result):
    print(name, 'refused' if result < 0 else 'allowed', ctypes.get_errno())
tried('memfd', libc.memfd_create(b'x', 0))
tried('shm', libc.shmget(0, 4096, 0o1600))
tried('queue', libc.msgget(0, 0o1600))
tried('semaphores', libc.semget(0, 1, 0o1600))
os.mkdir('/tmp/inner')
libc.unshare(0x10000000 | 0x20000)  # user and mount namespace
tried('mount', libc.mount(b'none', b'/tmp/inner', b'tmpfs', 0, None))
)");
  const Outcome outcome = Run(*sandbox, "python3 hide.py", dir_.path("work"));
  EXPECT_EQ(outcome.out,
            "memfd refused 38\nshm refused 38\nqueue refused 38\nsemaphores refused 38\n"
            "mount refused 1\n")
      << outcome.err;
  EXPECT_THAT(Run(*CommandSandbox::None(), "python3 hide.py", dir_.path("work")).out,
              HasSubstr("memfd allowed"));  // what it is protected from
}

// POSIX shared memory and terminals, which programs use, work all the same.
TEST_F(CommandSandboxTest, SharesMemoryBetweenItsOwnProcesses) {
  SANDBOX_OR_SKIP(sandbox);
  Write("work/share.py", R"(
import multiprocessing, os, pty, tempfile
from multiprocessing import shared_memory
def child(name, lock):
    with lock:
        shared = shared_memory.SharedMemory(name=name)
        shared.buf[0] = 7
        shared.close()
memory = shared_memory.SharedMemory(create=True, size=100)
process = multiprocessing.Process(target=child, args=(memory.name, multiprocessing.Lock()))
process.start()
process.join()
print(memory.buf[0], tempfile.gettempdir(), os.isatty(pty.openpty()[1]))
memory.unlink()
)");
  const Outcome outcome = Run(*sandbox, "python3 share.py", dir_.path("work"));
  EXPECT_EQ(outcome.out, "7 /tmp True\n") << outcome.err;
}

TEST_F(CommandSandboxTest, SeesNoFileOfItsUser) {
  SANDBOX_OR_SKIP(sandbox);
  const std::string command = absl::StrCat("cat ", dir_.path(), "/secret; cat /etc/shadow; ls ",
                                           fs::current_path().string(), "; echo end");
  const Outcome outcome = Run(*sandbox, command, dir_.path("work"));
  EXPECT_EQ(outcome.out, "end\n");
  EXPECT_EQ(
      Run(*CommandSandbox::None(), absl::StrCat("cat ", dir_.path(), "/secret"), dir_.path()).out,
      "the token\n");  // what it is protected from
}

TEST_F(CommandSandboxTest, HidesFilesAlsoInTheWorkingDirectory) {
  options_.hidden = {dir_.path("secret"), dir_.path("keys")};
  fs::create_directory(dir_.path("keys"));
  Write("keys/one", "a key\n");
  SANDBOX_OR_SKIP(sandbox);
  EXPECT_EQ(Run(*sandbox, "cat secret keys/one work/data; echo end", dir_.path()).out,
            "the data\nend\n");
  EXPECT_THAT(Run(*sandbox, "true", dir_.path("keys")).err, HasSubstr("no command may read"));
}

TEST_F(CommandSandboxTest, WorksInNoPartOfTheSystem) {
  SANDBOX_OR_SKIP(sandbox);
  for (const char* folder : {"/", "/etc", "/proc/self", "/dev"}) {
    EXPECT_THAT(Run(*sandbox, "true", folder).err, HasSubstr("part of the system")) << folder;
  }
  EXPECT_THAT(Run(*sandbox, "true", dir_.path("nowhere")).err, HasSubstr("not a directory"));
}

TEST_F(CommandSandboxTest, ReadsWhatTheOperatorNames) {
  options_.readable = {dir_.path("secret")};
  SANDBOX_OR_SKIP(sandbox);
  EXPECT_EQ(Run(*sandbox, absl::StrCat("cat ", dir_.path(), "/secret"), dir_.path("work")).out,
            "the token\n");
}

TEST_F(CommandSandboxTest, HasNoNetwork) {
  SANDBOX_OR_SKIP(sandbox);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  socklen_t size = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string command =
      absl::StrCat("python3 -c \"import socket; socket.create_connection(('127.0.0.1', ",
                   ntohs(address.sin_port), "), 5); print('reached')\"");
  EXPECT_EQ(Run(*CommandSandbox::None(), command, "").out, "reached\n");
  EXPECT_EQ(Run(*sandbox, command, "").out, "");
  close(listener);
}

TEST_F(CommandSandboxTest, KnowsNoProcessOfTheMachine) {
  SANDBOX_OR_SKIP(sandbox);
  const Outcome outcome = Run(*sandbox, "ls -d /proc/[0-9]*", "");
  EXPECT_THAT(outcome.out, HasSubstr("/proc/1\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr(absl::StrCat("/proc/", getpid(), "\n"))));
}

TEST_F(CommandSandboxTest, TheEnvironmentIsAList) {
  setenv("BATON_TOKEN_FILE", "/secret", 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  const Outcome plain = Run(*CommandSandbox::None(), "env", "");
  EXPECT_THAT(plain.out, AllOf(Not(HasSubstr("BATON_TOKEN_FILE")), HasSubstr("OMP_NUM_THREADS=3\n"),
                               HasSubstr("PYTHONUNBUFFERED=1\n"), HasSubstr("PATH=")));
  SANDBOX_OR_SKIP(sandbox);
  EXPECT_THAT(Run(*sandbox, "env", "").out,
              AllOf(Not(HasSubstr("BATON_TOKEN_FILE")), HasSubstr("OMP_NUM_THREADS=3\n"),
                    HasSubstr("HOME=/tmp\n")));
}

TEST_F(CommandSandboxTest, MemoryAndProcessorTimeHaveLimits) {
  options_.limits.memory_bytes = uint64_t{512} << 20;
  options_.limits.cpu_seconds = 1;
  const auto plain = CommandSandbox::Create(options_).value();
  const std::string hungry = "python3 -c 'x = bytearray(1 << 30)'";
  const std::string endless = "python3 -c 'while True: pass'";
  EXPECT_THAT(Run(*plain, hungry, "").err, HasSubstr("MemoryError"));
  EXPECT_THAT(Run(*plain, endless, "").exit, testing::ContainsRegex("XCPU|time limit|Killed"));
  SANDBOX_OR_SKIP(sandbox);
  EXPECT_THAT(Run(*sandbox, hungry, "").err, HasSubstr("MemoryError"));
  EXPECT_THAT(Run(*sandbox, endless, "").exit, testing::ContainsRegex("time limit|Killed"));
}

TEST_F(CommandSandboxTest, AMachineThatForbidsItIsRefusedWithTheRemedy) {
  options_.kind = SandboxOptions::Kind::kBubblewrap;
  options_.program = WriteProgram("bwrap", "#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n");
  absl::Status refused = CommandSandbox::Create(options_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("bwrap: No permissions"), HasSubstr("namespaces"),
                                       HasSubstr("--command-sandbox none")));
  options_.program = dir_.path("nothing");
  refused = CommandSandbox::Create(options_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("install bubblewrap"));
}

}  // namespace
}  // namespace baton::reward
