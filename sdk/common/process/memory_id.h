// The shared memory that this process opens, as a name that tells hosts apart.
#ifndef BATON_SDK_COMMON_PROCESS_MEMORY_ID_H_
#define BATON_SDK_COMMON_PROCESS_MEMORY_ID_H_

#include <string>

namespace baton {

/// Names the file system in which `directory` lies: "BOOT_ID:DEVICE", from
/// /proc/sys/kernel/random/boot_id and st_dev of stat(2). Two processes with the same name open the
/// same file under the same path of it. A host's name would not do: containers of one machine may
/// share it and not /dev/shm, or the other way round. Empty: the directory or the boot id cannot be
/// read.
std::string MemoryId(const std::string& directory = "/dev/shm");

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_MEMORY_ID_H_
