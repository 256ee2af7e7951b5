#include "controller/core/task.h"

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

// What follows kind, subject, part and attempt:
constexpr absl::string_view kMadeByMagic =
    "B4";                                        // birth number, version and prompt of a generation
constexpr absl::string_view kBirthMagic = "B3";  // the birth number, of another trajectory's task
constexpr absl::string_view kStepMagic = "B2";   // step and incarnation
constexpr absl::string_view kNarrowMagic = "B1";  // … and the attempt has 32 bits
constexpr size_t kBirthSize = 2 + 1 + 8 + 4 + 8 + 8;
constexpr size_t kStepSize = kBirthSize + 8;
constexpr size_t kMadeBySize = kBirthSize + 2 * 8;
constexpr size_t kNarrowSize = kStepSize - 4;

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
  std::string out;
  out.reserve(kMadeBySize + token.job.size());
  // What has no birth number, or no version, is written as earlier releases did, so that the ack of
  // a token of theirs has its bytes.
  const bool born = token.ref.birth != 0;
  const bool made_by = born && (token.ref.version != 0 || token.ref.prompt != 0);
  absl::StrAppend(&out, made_by ? kMadeByMagic : born ? kBirthMagic : kStepMagic);
  PutLittleEndian(out, static_cast<uint8_t>(token.ref.kind));
  PutLittleEndian(out, token.ref.subject);
  PutLittleEndian(out, token.ref.target);
  PutLittleEndian(out, token.ref.attempt);
  if (born) {
    PutLittleEndian(out, token.ref.birth);
    if (made_by) {
      PutLittleEndian(out, token.ref.version);
      PutLittleEndian(out, token.ref.prompt);
    }
  } else {
    PutLittleEndian(out, token.ref.step);
    PutLittleEndian(out, token.ref.incarnation);
  }
  out += token.job;
  return out;
}

std::optional<TaskToken> DecodeToken(absl::string_view bytes) {
  const absl::string_view magic = bytes.substr(0, 2);
  const bool narrow = magic == kNarrowMagic;
  const bool made_by = magic == kMadeByMagic;
  const bool born = made_by || magic == kBirthMagic;
  if (!narrow && !born && magic != kStepMagic) return {};
  const size_t size = narrow ? kNarrowSize : made_by ? kMadeBySize : born ? kBirthSize : kStepSize;
  if (bytes.size() < size) return {};
  bytes.remove_prefix(2);
  TaskToken token;
  const auto kind = TakeLittleEndian<uint8_t>(bytes);
  if (kind < 1 || kind > static_cast<uint8_t>(TaskKind::kRunAhead)) return {};
  token.ref.kind = static_cast<TaskKind>(kind);
  token.ref.subject = TakeLittleEndian<uint64_t>(bytes);
  token.ref.target = TakeLittleEndian<uint32_t>(bytes);
  token.ref.attempt =
      narrow ? TakeLittleEndian<uint32_t>(bytes) : TakeLittleEndian<uint64_t>(bytes);
  if (born) {
    token.ref.birth = TakeLittleEndian<uint64_t>(bytes);
    if (made_by) {
      token.ref.version = TakeLittleEndian<uint64_t>(bytes);
      token.ref.prompt = TakeLittleEndian<uint64_t>(bytes);
      if (token.ref.version == 0 && token.ref.prompt == 0) return {};  // a token has one form
    }
  } else {
    token.ref.step = TakeLittleEndian<int64_t>(bytes);
    token.ref.incarnation = TakeLittleEndian<uint64_t>(bytes);
  }
  token.job = std::string(bytes);
  return token;
}

}  // namespace baton::controller
