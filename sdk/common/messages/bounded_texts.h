// The bounds of workers' texts (sdk/common/contracts/text_bounds.h), applied to whole messages.
#ifndef BATON_SDK_COMMON_MESSAGES_BOUNDED_TEXTS_H_
#define BATON_SDK_COMMON_MESSAGES_BOUNDED_TEXTS_H_

#include "absl/status/status.h"
#include "baton/v1/worker_service.pb.h"
#include "google/protobuf/message.h"

namespace baton {

/// Cuts every string in `message`, and in the messages within it, to its bound, and makes it
/// well-formed UTF-8. Fields are found by reflection, so that a new one has a bound as well: that
/// of a name, unless bounded_texts.cc names another. Surplus metrics and details of an error are
/// dropped.
///
/// INVALID_ARGUMENT: something is too long and means nothing, or another thing, if it is cut: the
/// text of a response, a token, a list. It stays as it is, so the message must not be used.
///
/// Numbers and the data of columns have no bound here. Thread-safe.
absl::Status BoundTexts(google::protobuf::Message* message);

/// Bounds a result. One that cannot be bounded becomes the error that says why.
void BoundResult(v1::TaskResult* result);

}  // namespace baton

#endif  // BATON_SDK_COMMON_MESSAGES_BOUNDED_TEXTS_H_
