// Any bytes: a view whose every tensor can be read to its last byte, or an error. Never a crash.
#include <cstddef>
#include <cstdint>

#include "relay/weights/manifest.h"
#include "relay/weights/safetensors_reader.h"

namespace {

volatile uint8_t sink;

void Touch(const baton::relay::SafetensorsView& view) {
  for (const baton::relay::TensorEntry& entry : view.entries()) {
    for (uint8_t byte : view.Data(entry)) sink = byte;
    if (view.Find(entry.name) == nullptr) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const auto view = baton::relay::SafetensorsView::Parse({data, size}); view.ok()) Touch(*view);
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto manifest = baton::relay::Manifest::FromJson(text); manifest.ok()) {
    if (!manifest->Validate().ok()) __builtin_trap();
  }
  return 0;
}
