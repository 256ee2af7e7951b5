// An evaluation in a few words.
#ifndef BATON_CONTROLLER_CORE_VIEWS_EVALUATION_TEXT_H_
#define BATON_CONTROLLER_CORE_VIEWS_EVALUATION_TEXT_H_

#include <string>

#include "google/protobuf/map.h"

namespace baton::controller {

/// The results of an evaluation (`val/…` of `metrics`), with four digits: "accuracy 0.9375, reward
/// 0.94". If the data has two to eight sources, the mean of each follows: "; maths 0.95, code 0.9".
/// "" if nothing was measured. Pure.
std::string EvaluationText(const google::protobuf::Map<std::string, double>& metrics);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_EVALUATION_TEXT_H_
