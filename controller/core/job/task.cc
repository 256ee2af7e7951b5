#include "controller/core/job/task.h"

namespace baton::controller {
namespace {

// A token is the magic, the fields of its TaskRef in their order, little-endian, and the job's
// name.
constexpr absl::string_view kMagic = "B1";
constexpr size_t kSize = 2 + 1 + 8 + 4 + 6 * 8;  // without the name

template <typename T>
void PutLittleEndian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

template <typename T>
T TakeLittleEndian(absl::string_view& in) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  in.remove_prefix(sizeof(T));
  return static_cast<T>(value);
}

}  // namespace

absl::string_view MethodName(TaskKind kind) {
  switch (kind) {
    case TaskKind::kAssignRole:
      return "assign_role";
    case TaskKind::kReleaseRole:
      return "release_role";
    case TaskKind::kLoadWeights:
      return "load_weights";
    case TaskKind::kGenerate:
      return "generate";
    case TaskKind::kScore:
      return "score";
    case TaskKind::kUpdate:
      return "update";
    case TaskKind::kPublish:
      return "publish";
    case TaskKind::kSaveCheckpoint:
      return "save_checkpoint";
    case TaskKind::kToGeneration:
      return "to_generation";
    case TaskKind::kExport:
      return "export";
    case TaskKind::kRunAhead:
      return "run_ahead";
  }
  return "";
}

bool IsGroupCommand(TaskKind kind) {
  return kind == TaskKind::kUpdate || kind == TaskKind::kPublish ||
         kind == TaskKind::kToGeneration || kind == TaskKind::kSaveCheckpoint;
}

std::string EncodeToken(const TaskToken& token) {
  std::string out(kMagic);
  out.reserve(kSize + token.job.size());
  PutLittleEndian(out, static_cast<uint8_t>(token.ref.kind));
  PutLittleEndian(out, token.ref.subject);
  PutLittleEndian(out, token.ref.target);
  PutLittleEndian(out, token.ref.attempt);
  PutLittleEndian(out, token.ref.step);
  PutLittleEndian(out, token.ref.incarnation);
  PutLittleEndian(out, token.ref.trajectory_uid);
  PutLittleEndian(out, token.ref.version);
  PutLittleEndian(out, token.ref.prompt);
  out += token.job;
  return out;
}

std::optional<TaskToken> DecodeToken(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kSize) return {};
  bytes.remove_prefix(kMagic.size());
  TaskToken token;
  const auto kind = TakeLittleEndian<uint8_t>(bytes);
  if (kind < 1 || kind > static_cast<uint8_t>(TaskKind::kRunAhead)) return {};
  token.ref.kind = static_cast<TaskKind>(kind);
  token.ref.subject = TakeLittleEndian<uint64_t>(bytes);
  token.ref.target = TakeLittleEndian<uint32_t>(bytes);
  token.ref.attempt = TakeLittleEndian<uint64_t>(bytes);
  token.ref.step = TakeLittleEndian<int64_t>(bytes);
  token.ref.incarnation = TakeLittleEndian<uint64_t>(bytes);
  token.ref.trajectory_uid = TakeLittleEndian<uint64_t>(bytes);
  token.ref.version = TakeLittleEndian<uint64_t>(bytes);
  token.ref.prompt = TakeLittleEndian<uint64_t>(bytes);
  token.job = std::string(bytes);
  return token;
}

}  // namespace baton::controller
