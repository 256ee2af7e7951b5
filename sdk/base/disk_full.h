#ifndef BATON_SDK_BASE_DISK_FULL_H_
#define BATON_SDK_BASE_DISK_FULL_H_

#include <cerrno>

namespace baton {

/// True for the errors that end when somebody makes room: no space, a quota, a limit of the file.
inline bool IsDiskFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace baton

#endif  // BATON_SDK_BASE_DISK_FULL_H_
