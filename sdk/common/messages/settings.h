// The settings of a job's spec as its descriptors have them: defaults, bounds and names, which
// baton/v1/setting.proto defines and job_spec.proto says beside each field.
#ifndef BATON_SDK_COMMON_MESSAGES_SETTINGS_H_
#define BATON_SDK_COMMON_MESSAGES_SETTINGS_H_

#include <string>

#include "baton/v1/setting.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "sdk/common/base/bounds.h"
#include "sdk/common/messages/violations.h"

namespace baton {

/// The setting of `field`, with what Setting.as_in adds to it; an empty one for a field without
/// any. `field` belongs to the generated code. Thread-safe.
const v1::Setting& SettingOf(const google::protobuf::FieldDescriptor& field);

/// The setting of the field of T with this number: SettingOf<v1::RolloutSpec>(kNFieldNumber).
template <class T>
const v1::Setting& SettingOf(int number) {
  return SettingOf(*T::descriptor()->FindFieldByNumber(number));
}

Bounds BoundsOf(const v1::Setting& setting);

/// Gives each absent field of `message`, and of the sections that it has, its default. A section
/// that is absent stays so, and maps stay as they are.
void FillDefaults(google::protobuf::Message* message);

/// `message` with its defaults: WithDefaults(spec.rollout()).n() is never absent.
template <class T>
T WithDefaults(T message) {
  FillDefaults(&message);
  return message;
}

/// Adds what is wrong with each single field of `section` and of the sections that it has: missing,
/// out of bounds, or none of its names. A field that is absent and not required is good. `path`:
/// where `section` stands, e.g. "judge"; "" for the whole spec.
void CheckSettings(const google::protobuf::Message& section, const std::string& path,
                   Violations* out);

}  // namespace baton

#endif  // BATON_SDK_COMMON_MESSAGES_SETTINGS_H_
