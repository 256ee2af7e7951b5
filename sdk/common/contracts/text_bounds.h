// The longest texts and lists that are taken from elsewhere: from a worker, a command, a model, the
// files of a user.
//
// A text that is longer is cut at the edge of a character and says how long it was
// (sdk/common/base/cut_text.h). A worker cuts what it sends; the controller cuts again what it
// gets, for a worker may be anybody's program (sdk/common/messages/bounded_texts.h). Tokens and
// columns have no bound here: they count in the payload budget.
#ifndef BATON_SDK_COMMON_CONTRACTS_TEXT_BOUNDS_H_
#define BATON_SDK_COMMON_CONTRACTS_TEXT_BOUNDS_H_

#include <cstddef>

namespace baton {

// ---- Texts, in bytes.
/// A name: of a worker, a job, a role, a method, a column, a metric, a file.
inline constexpr size_t kNameBytes = 256;
/// The name of a metric that gets a series; a longer one is dropped and counted.
inline constexpr size_t kMetricNameBytes = 200;
/// A response's finish reason.
inline constexpr size_t kFinishReasonBytes = 64;
/// A reward's error about a response that it cannot judge. Several rows of a response hold it.
inline constexpr size_t kScoreErrorBytes = 2 << 10;
/// The message of a failed task.
inline constexpr size_t kErrorBytes = 8 << 10;
/// A role's reason why it cannot work.
inline constexpr size_t kTroubleBytes = 8 << 10;
/// A line of a log; and what counts as one line where a number of lines is kept, so that these are
/// bounded in bytes as well.
inline constexpr size_t kLogLineBytes = 8 << 10;
inline constexpr size_t kLogUnitBytes = 1 << 10;
/// Another text.
inline constexpr size_t kTextBytes = 8 << 10;
/// A prompt or a response as text: a payload. A longer one is refused, because a part of a response
/// must not be judged in its place.
inline constexpr size_t kPayloadTextBytes = 16 << 20;
/// A token of a task, and a detail of an error: bytes of which a part means nothing.
inline constexpr size_t kTokenBytes = 1 << 10;
inline constexpr size_t kErrorDetailBytes = 8 << 10;

// ---- Lists, in entries.
/// Metrics of one result; surplus ones are dropped. The controller's core keeps fewer.
inline constexpr int kMostMetrics = 4096;
/// Details of an error; surplus ones are dropped.
inline constexpr int kMostErrorDetails = 16;
/// Another list of texts or messages; a longer one is refused.
inline constexpr int kMostListItems = 100'000;

// ---- What waits, in bytes and in lines.
/// Lines of a log that wait at one place: in a worker for the controller, in the controller for the
/// store.
inline constexpr size_t kWaitingLogBytes = 1 << 20;
inline constexpr size_t kWaitingLogLines = 1000;
/// Messages of a worker that wait for its Welcome.
inline constexpr size_t kHeldMessageBytes = size_t{128} << 20;

// ---- Labels of a spec; more or longer ones are refused.
inline constexpr int kMostLabels = 64;
inline constexpr size_t kLabelBytes = 8 << 10;  ///< A label's value; names have kNameBytes.

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_TEXT_BOUNDS_H_
