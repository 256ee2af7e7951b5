#include "workers/tokenizer/templates/jinja_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "workers/tokenizer/templates/jinja_evaluator.h"
#include "workers/tokenizer/templates/jinja_scopes.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {
namespace {

/// Templates of real models have some tens of thousands of bytes. Parsing takes memory a hundred
/// times as large.
constexpr size_t kMaxSourceBytes = size_t{1} << 20;

absl::Status ToStatus(const Error& error) {
  const std::string message = absl::StrCat("line ", error.line, ": ", error.message);
  switch (error.kind) {
    case Error::Kind::kUnsupported:
      return absl::UnimplementedError(message);
    case Error::Kind::kLimit:
      return absl::ResourceExhaustedError(message);
    case Error::Kind::kRefused:
      return absl::InvalidArgumentError(
          absl::StrCat("line ", error.line, ": the template refuses it: ", error.message));
    default:
      return absl::InvalidArgumentError(message);
  }
}

}  // namespace

struct Template::Parts {
  Statements statements;
  HiddenNames hidden;
  std::vector<std::string> names;  ///< Names of variables that it mentions; sorted.
};

Template::Template(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

absl::StatusOr<Template> Template::Parse(absl::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the template has ", source.size(), " bytes, more than ", kMaxSourceBytes));
  }
  try {
    auto parts = std::make_unique<Parts>();
    parts->statements = jinja::Parse(source);
    parts->hidden = FindHiddenNames(parts->statements);
    for (const Token& token : Lex(source)) {
      if (token.kind == Token::Kind::kName) parts->names.push_back(token.text);
    }
    std::sort(parts->names.begin(), parts->names.end());
    return Template(std::move(parts));
  } catch (const Error& error) {
    return ToStatus(error);
  }
}

absl::StatusOr<RenderedText> Template::Render(const Variables& variables,
                                              std::vector<TextRange>* generated) const {
  try {
    Evaluator evaluator(variables, parts_->hidden);
    RenderedText text = evaluator.Run(parts_->statements);
    if (generated != nullptr) *generated = evaluator.generated();
    return text;
  } catch (const Error& error) {
    return ToStatus(error);
  }
}

bool Template::Mentions(absl::string_view name) const {
  return std::binary_search(parts_->names.begin(), parts_->names.end(), name);
}

}  // namespace baton::tokenizer::jinja
