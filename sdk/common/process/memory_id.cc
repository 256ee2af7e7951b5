#include "sdk/common/process/memory_id.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace baton {

std::string MemoryId(const std::string& directory) {
  struct stat found = {};
  if (stat(directory.c_str(), &found) != 0) return "";
  std::string boot;
  if (!(std::ifstream("/proc/sys/kernel/random/boot_id") >> boot)) return "";
  return absl::StrCat(boot, ":", major(found.st_dev), ".", minor(found.st_dev));
}

}  // namespace baton
