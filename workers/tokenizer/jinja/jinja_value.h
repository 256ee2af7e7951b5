// Values of a chat template's expressions, with Python's meaning of them.
//
// A text knows which of its bytes are the template's own (rendered_text.h), and keeps knowing it
// through every operation: the text of a message stays content when the template trims, splits,
// joins or writes it as JSON. Internal to the Jinja renderer (jinja_template.h).
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_error.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer::jinja {

class Value;

using Items = std::vector<Value, Counted<Value>>;
/// In order of insertion, as Python's. Keys are texts.
using Entries =
    std::vector<std::pair<RenderedText, Value>, Counted<std::pair<RenderedText, Value>>>;

/// Arguments of a call, a filter or a test.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index` or called `name`; null when absent.
  const Value* Find(size_t index, absl::string_view name) const;
  /// Throws when there are more than `positional_limit`, or one with a name not in `names`.
  void Check(absl::string_view callee, size_t positional_limit,
             std::initializer_list<absl::string_view> names = {}) const;
};

using Function = std::function<Value(const Arguments&)>;

class Value {
 public:
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDict,
    kNamespace,  ///< A dict whose entries `set` may change.
    kFunction,
  };

  Value() = default;  ///< Undefined, without a name.
  /// `name` is for messages, and cut where it is long.
  static Value Undefined(absl::string_view name);
  static Value None();
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value Text(RenderedText value);
  /// A text that is the template's own.
  static Value Own(absl::string_view value);
  /// List and Dict throw (kLimit) on a value that would be nested more than 200 levels deep, since
  /// nested values are destroyed recursively; and on a list that is too long.
  static Value List(Items items, Kind kind = Kind::kList);
  static Value Dict(Entries entries, Kind kind = Kind::kDict);
  /// `holds`: a value that the function keeps; may be null.
  static Value Callable(Function function, const Value* holds = nullptr);
  /// Texts become content. Throws on an integer beyond 64 bits, and deeper than 200 levels.
  static Value FromJson(const nlohmann::ordered_json& json, int depth = 0);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat;
  }
  bool is_list() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_mapping() const { return kind_ == Kind::kDict; }
  /// Python's name of the type, for messages.
  absl::string_view TypeName() const;

  // Each throws on a value of another kind, naming `what` needs it. The first three spend for a
  // walk over all that they give.
  const RenderedText& text(absl::string_view what) const;
  const Items& items(absl::string_view what) const;      ///< Items of a list or a tuple.
  const Entries& entries(absl::string_view what) const;  ///< Entries of a dict or a namespace.
  int64_t integer(absl::string_view what) const;         ///< Number of an int or a bool.
  double number(absl::string_view what) const;
  const Function& function(absl::string_view what) const;

  bool Truth() const;
  /// The values that `for` walks over: items, keys, characters; nothing of an undefined value.
  Items Iterate(absl::string_view what) const;
  /// Items, entries or characters. Throws on what has none, naming `what` needs it.
  int64_t Length(absl::string_view what = "length") const;
  /// An element of a list, tuple or text; a negative index counts from the end. Undefined if there
  /// is none.
  Value At(int64_t index) const;
  /// The entry of a dict or namespace; null without one.
  const Value* Find(absl::string_view key) const;
  /// Sets an entry of a namespace.
  void SetEntry(absl::string_view key, Value value);
  /// Removes all entries of a namespace, which ends cycles too.
  void ClearEntries();

  /// Python's str() and repr().
  RenderedText ToText() const;
  RenderedText ToRepr() const;
  /// The undefined value's name, if it has one; for messages.
  absl::string_view undefined_name() const {
    return name_ == nullptr ? absl::string_view() : absl::string_view(*name_);
  }

 private:
  void Repr(RenderedText* out, int depth) const;
  /// The index of the entry; the number of entries where there is none.
  size_t PlaceOf(absl::string_view key) const;

  Kind kind_ = Kind::kUndefined;
  int depth_ = 0;  // of lists, dicts and functions, in levels, this one too
  bool bool_ = false;
  int64_t int_ = 0;
  double float_ = 0;
  std::shared_ptr<const std::string> name_;
  std::shared_ptr<const RenderedText> text_;
  std::shared_ptr<const Items> items_;
  std::shared_ptr<Entries> entries_;
  std::shared_ptr<const Function> function_;
};

/// Python's ==.
bool Equal(const Value& a, const Value& b, int depth = 0);
/// Python's <; throws on values without an order.
bool Less(const Value& a, const Value& b);
/// Python's `needle in haystack`.
bool Contains(const Value& haystack, const Value& needle);

struct JsonStyle {
  int indent = -1;  ///< Spaces per level; below 0: one line.
  bool sort_keys = false;
  bool ensure_ascii = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
/// json.dumps.
RenderedText ToJsonText(const Value& value, const JsonStyle& style);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_H_
