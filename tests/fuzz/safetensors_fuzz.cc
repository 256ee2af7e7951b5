// Any bytes: a view whose every tensor can be read to its last byte, or an error. Never a crash.
#include <cstddef>
#include <cstdint>

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
  return 0;
}
