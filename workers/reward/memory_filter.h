// A seccomp filter against memory that no limit of a sandboxed command counts.
#ifndef BATON_WORKERS_REWARD_MEMORY_FILTER_H_
#define BATON_WORKERS_REWARD_MEMORY_FILTER_H_

#include <string>

#include "absl/status/statusor.h"

namespace baton::reward {

/// A BPF program, as bwrap's --seccomp reads it. It forbids the system calls that keep memory
/// outside of the address space and of /tmp: files without a name (memfd), System V shared memory,
/// queues and semaphores (all ENOSYS), and mounts (EPERM; in a user namespace of its own a command
/// could mount a tmpfs of any size). All other calls are allowed.
///
/// UNIMPLEMENTED: libseccomp does not know this machine's architecture.
[[nodiscard]] absl::StatusOr<std::string> MakeMemoryFilter();

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_MEMORY_FILTER_H_
