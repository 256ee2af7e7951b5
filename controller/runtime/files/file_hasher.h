// The checksum of a checkpoint's files, as files.json has it.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_FILE_HASHER_H_
#define BATON_CONTROLLER_RUNTIME_FILES_FILE_HASHER_H_

#include <xxhash.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"

namespace baton::controller {

/// XXH3-64 of bytes that are added in pieces.
class FileHasher {
 public:
  FileHasher() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(const char* bytes, size_t size) { XXH3_64bits_update(state_.get(), bytes, size); }
  /// 16 hexadecimal digits.
  std::string Digest() const { return absl::StrFormat("%016x", XXH3_64bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_FILE_HASHER_H_
