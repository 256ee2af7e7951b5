// The weights that a test has at hand, published.
#ifndef BATON_TESTS_SUPPORT_WORKERS_WEIGHTS_RELAY_H_
#define BATON_TESTS_SUPPORT_WORKERS_WEIGHTS_RELAY_H_

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "sdk/common/base/status_macros.h"
#include "tests/support/workers/policy.h"
#include "workers/engine/model/weights_io.h"
#include "workers/policy/weights_relay.h"

namespace baton::policy {

/// As one writer.
inline absl::Status PublishImage(WeightsRelay& relay, const Publication& what,
                                 const engine::WeightsImage& image,
                                 const absl::Notification& cancelled = Never()) {
  BATON_ASSIGN_OR_RETURN(const auto writer,
                         relay.Begin(what, image.layout(), /*writers=*/1, cancelled));
  BATON_RETURN_IF_ERROR(image.CopyTo(writer->bytes()));
  BATON_ASSIGN_OR_RETURN(const auto view, relay::SafetensorsView::Parse(writer->bytes()));
  BATON_ASSIGN_OR_RETURN(const auto digests,
                         relay::DigestBoxes(view, relay::WholeTensors(view.entries())));
  BATON_RETURN_IF_ERROR(relay.Commit(*writer, 0, digests));
  return relay.Seal(*writer, cancelled);
}

}  // namespace baton::policy

#endif  // BATON_TESTS_SUPPORT_WORKERS_WEIGHTS_RELAY_H_
