// Methods of texts and dicts, as Python has them.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_builtins.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

using Kind = Value::Kind;

const Value& First(const Arguments& arguments, absl::string_view method) {
  if (arguments.positional.empty()) {
    throw Error{Error::Kind::kType, absl::StrCat(method, " needs an argument")};
  }
  return arguments.positional[0];
}

template <Side side>
Value StripMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("strip", 1);
  const Value* characters = arguments.Find(0, "");
  if (characters == nullptr || characters->is(Kind::kNone)) return Value::Text(Strip(text, side));
  return Value::Text(Strip(text, side, characters->text("strip").text()));
}

template <bool from_right>
Value SplitMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("split", 2, {"sep", "maxsplit"});
  const Value* separator = arguments.Find(0, "sep");
  const Value* limit_value = arguments.Find(1, "maxsplit");
  const int64_t limit = limit_value == nullptr ? -1 : limit_value->integer("split");
  Items items;
  Texts parts;
  if (separator == nullptr || separator->is(Kind::kNone)) {
    if (from_right && limit >= 0) {
      throw Error{Error::Kind::kUnsupported, "rsplit at white space with a limit is not supported"};
    }
    parts = SplitWords(text, limit);
  } else {
    const std::string& at = separator->text("split").text();
    if (at.empty()) throw Error{Error::Kind::kType, "split at an empty string"};
    parts = Split(text, at, limit, from_right);
  }
  for (RenderedText& part : parts) items.push_back(Value::Text(std::move(part)));
  return Value::List(std::move(items));
}

Value SplitLinesMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("splitlines", 0);
  Items items;
  for (RenderedText& line : SplitLines(text)) items.push_back(Value::Text(std::move(line)));
  return Value::List(std::move(items));
}

/// startswith and endswith: of one string, or any of several.
template <bool at_start>
Value Affix(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("startswith or endswith", 1);
  const Value& wanted = First(arguments, "startswith or endswith");
  const Items any = wanted.is_list() ? wanted.items("startswith") : Items{wanted};
  return Value::Bool(std::any_of(any.begin(), any.end(), [&](const Value& one) {
    const std::string& part = one.text("startswith or endswith").text();
    return at_start ? absl::StartsWith(text.text(), part) : absl::EndsWith(text.text(), part);
  }));
}

template <bool prefix>
Value RemoveAffix(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("removeprefix or removesuffix", 1);
  const std::string& part = First(arguments, "removeprefix").text("removeprefix").text();
  const size_t size = text.text().size();
  if (prefix && absl::StartsWith(text.text(), part)) {
    return Value::Text(text.Slice(part.size(), size));
  }
  if (!prefix && absl::EndsWith(text.text(), part)) {
    return Value::Text(text.Slice(0, size - part.size()));
  }
  return Value::Text(text);
}

Value ReplaceMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("replace", 3, {"count"});
  if (arguments.positional.size() < 2) {
    throw Error{Error::Kind::kType, "replace needs two strings"};
  }
  const Value* count = arguments.Find(2, "count");
  return Value::Text(Replace(text, arguments.positional[0].text("replace").text(),
                             arguments.positional[1].text("replace"),
                             count == nullptr ? -1 : count->integer("replace")));
}

/// In characters; -1 when it is nowhere.
template <bool from_right>
Value FindMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("find", 1);
  const std::string& part = First(arguments, "find").text("find").text();
  const size_t at = from_right ? LastPart(text.text(), part) : FindPart(text.text(), part, 0);
  if (at == std::string::npos) return Value::Int(-1);
  return Value::Int(CountCharacters(absl::string_view(text.text()).substr(0, at)));
}

Value CountMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("count", 1);
  const std::string& part = First(arguments, "count").text("count").text();
  if (part.empty()) return Value::Int(CountCharacters(text.text()) + 1);
  return Value::Int(static_cast<int64_t>(Split(text, part, -1).size()) - 1);
}

Value JoinMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("join", 1);
  RenderedText out;
  bool first = true;
  for (const Value& item : First(arguments, "join").Iterate("join")) {
    if (!first) out.Add(text);
    first = false;
    out.Add(item.text("join"));
  }
  return Value::Text(std::move(out));
}

template <Case how>
Value CaseMethod(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 0);
  return Value::Text(ChangeCase(text, how));
}

/// Tests ASCII characters; any other is in no class.
template <int (*holds)(int)>
Value EveryCharacter(const RenderedText& text, const Arguments& arguments) {
  arguments.Check("the method", 0);
  const std::string& bytes = text.text();
  Budget::SpendWalk(2 * bytes.size());
  return Value::Bool(!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && holds(byte) != 0;
  }));
}

using TextMethod = Value (*)(const RenderedText&, const Arguments&);

const std::map<absl::string_view, TextMethod>& TextMethods() {
  static const auto* const methods = new std::map<absl::string_view, TextMethod>{
      {"capitalize", &CaseMethod<Case::kCapitalize>},
      {"count", &CountMethod},
      {"endswith", &Affix<false>},
      {"find", &FindMethod<false>},
      {"isalnum", &EveryCharacter<&isalnum>},
      {"isalpha", &EveryCharacter<&isalpha>},
      {"isdigit", &EveryCharacter<&isdigit>},
      {"isspace", &EveryCharacter<&isspace>},
      {"join", &JoinMethod},
      {"lower", &CaseMethod<Case::kLower>},
      {"lstrip", &StripMethod<Side::kLeft>},
      {"removeprefix", &RemoveAffix<true>},
      {"removesuffix", &RemoveAffix<false>},
      {"replace", &ReplaceMethod},
      {"rfind", &FindMethod<true>},
      {"rsplit", &SplitMethod<true>},
      {"rstrip", &StripMethod<Side::kRight>},
      {"split", &SplitMethod<false>},
      {"splitlines", &SplitLinesMethod},
      {"startswith", &Affix<true>},
      {"strip", &StripMethod<Side::kBoth>},
      {"title", &CaseMethod<Case::kTitle>},
      {"upper", &CaseMethod<Case::kUpper>},
  };
  return *methods;
}

Value CallDictMethod(const Value& dict, absl::string_view name, const Arguments& arguments) {
  if (name == "get") {
    arguments.Check("get", 2);
    const Value& key = First(arguments, "get");
    const Value* value = key.is(Kind::kText) ? dict.Find(key.text("get").text()) : nullptr;
    if (value != nullptr) return *value;
    return arguments.positional.size() > 1 ? arguments.positional[1] : Value::None();
  }
  arguments.Check(name, 0);
  Items items;
  for (const auto& [key, value] : dict.entries(name)) {
    items.push_back(name == "keys"     ? Value::Text(key)
                    : name == "values" ? value
                                       : Value::List({Value::Text(key), value}, Kind::kTuple));
  }
  return Value::List(std::move(items));
}

}  // namespace

bool IsDictMethod(absl::string_view name) {
  return name == "get" || name == "items" || name == "keys" || name == "values";
}

std::optional<Value> CallMethod(const Value& object, absl::string_view name,
                                const Arguments& arguments) {
  if (object.is(Kind::kText)) {
    const auto it = TextMethods().find(name);
    if (it != TextMethods().end()) return it->second(object.text(name), arguments);
  }
  if (object.is(Kind::kDict) && IsDictMethod(name)) return CallDictMethod(object, name, arguments);
  return std::nullopt;
}

}  // namespace baton::tokenizer::jinja
