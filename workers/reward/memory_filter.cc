#include "workers/reward/memory_filter.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::reward {
namespace {

struct ForbiddenCall {
  const char* name;
  int error;
};
constexpr ForbiddenCall kForbidden[] = {
    {"memfd_create", ENOSYS}, {"memfd_secret", ENOSYS}, {"shmget", ENOSYS}, {"msgget", ENOSYS},
    {"semget", ENOSYS},       {"mount", EPERM},         {"fsopen", EPERM},  {"fsmount", EPERM},
    {"open_tree", EPERM},     {"move_mount", EPERM}};

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, Release>;

/// `code` is negative, as libseccomp returns it.
absl::Status FilterError(absl::string_view what, int code) {
  return absl::UnimplementedError(
      absl::StrCat("cannot make a seccomp filter: ", what, ": ", std::strerror(-code)));
}

absl::StatusOr<std::string> ReadBack(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  std::string out(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  if (out.empty() || pread(fd, out.data(), out.size(), 0) != size) {
    return FilterError("its program is empty", -EIO);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> MakeMemoryFilter() {
  const Filter filter(seccomp_init(SCMP_ACT_ALLOW));
  if (filter == nullptr) return FilterError("seccomp_init", -ENOMEM);
  if (seccomp_arch_native() == SCMP_ARCH_X86_64) {
    // A filter ends programs of architectures that it does not name.
    const int code = seccomp_arch_add(filter.get(), SCMP_ARCH_X86);
    if (code != 0) return FilterError("32-bit programs", code);
  }
  for (const ForbiddenCall& call : kForbidden) {
    const int number = seccomp_syscall_resolve_name(call.name);
    if (number == __NR_SCMP_ERROR) continue;  // a call that this libseccomp is too old to know
    const int code = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(call.error), number, 0);
    if (code != 0) return FilterError(call.name, code);
  }
  const int fd = memfd_create("filter", MFD_CLOEXEC);
  if (fd < 0) return FilterError("memfd_create", -errno);
  const int code = seccomp_export_bpf(filter.get(), fd);
  absl::StatusOr<std::string> out =
      code == 0 ? ReadBack(fd) : absl::StatusOr<std::string>(FilterError("export", code));
  close(fd);
  return out;
}

}  // namespace baton::reward
