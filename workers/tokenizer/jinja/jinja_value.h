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
/// In order of insertion, as Python's. Keys are hashable.
using Entries = std::vector<std::pair<Value, Value>, Counted<std::pair<Value, Value>>>;

/// Arguments of a call, a filter or a test.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index` or called `name`; null when absent.
  const Value* Find(size_t index, absl::string_view name) const;
  /// As Find, but throws when it is absent.
  const Value& Need(size_t index, absl::string_view name, absl::string_view callee) const;
  /// Throws when there are more than `positional_limit`, one with a name not in `names`, or one
  /// that is given by its place and by its name. `names` are those of the places, in order.
  void Check(absl::string_view callee, size_t positional_limit,
             std::initializer_list<absl::string_view> names = {}) const;
};

using Function = std::function<Value(const Arguments&)>;
/// The next item of a walk, or nothing at its end.
using NextItem = std::function<std::optional<Value>()>;

/// Integers from `begin` on, `step` apart.
struct IntegerRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
  int64_t count = 0;
};

/// A value that is more than data: a loop, a macro. Its attributes are all that a template sees.
class Object {
 public:
  virtual ~Object() = default;
  /// `object.name`; nothing when it has no such attribute.
  virtual std::optional<Value> Attribute(absl::string_view name) = 0;
  /// As Python prints it.
  virtual std::string Repr() = 0;
  virtual bool IsCallable() const { return false; }
  /// Only where IsCallable.
  virtual Value Call(const Arguments& arguments);
  /// Python's len(); nothing without one.
  virtual std::optional<int64_t> Length() { return std::nullopt; }
};

class Value {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kRange,
    kDict,
    kKeys,       ///< dict.keys()
    kValues,     ///< dict.values()
    kPairs,      ///< dict.items()
    kNamespace,  ///< Entries that `set` may change.
    kFunction,
    kIterator,  ///< Items that come one by one, once: what map, select and others return.
    kObject,
  };

  Value() = default;         ///< Undefined, without a name.
  Value(RenderedText text);  // NOLINT: a text is a value
  /// `name` is for messages, and cut where it is long.
  static Value Undefined(absl::string_view name);
  static Value None();
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value Text(RenderedText value) { return Value(std::move(value)); }
  /// A text that is the template's own.
  static Value Own(absl::string_view value);
  /// List and Dict throw (kLimit) on a value that would be nested more than 200 levels deep, since
  /// nested values are destroyed recursively; and on a list that is too long.
  static Value List(Items items, Kind kind = Kind::kList);
  static Value Dict(Entries entries, Kind kind = Kind::kDict);
  /// What the filter groupby gives: a tuple whose items are called `grouper` and `list` too.
  static Value Group(Value key, Value items);
  /// `step` is not 0. Throws (kLimit) as jinja2's sandbox on more than 100,000 items.
  static Value Range(int64_t begin, int64_t end, int64_t step);
  /// A dict's keys, values or pairs.
  static Value View(const Value& dict, Kind kind);
  /// `holds`: a value that the function keeps; may be null.
  static Value Callable(Function function, const Value* holds = nullptr);
  /// `holds`: values that `next` keeps.
  static Value Iterator(NextItem next, std::initializer_list<const Value*> holds);
  static Value OfObject(std::shared_ptr<Object> object, std::initializer_list<const Value*> holds);
  /// Texts become content. Throws on an integer beyond 64 bits, and deeper than 200 levels.
  static Value FromJson(const nlohmann::ordered_json& json, int depth = 0);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat;
  }
  bool is_list() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_mapping() const { return kind_ == Kind::kDict; }
  bool is_view() const {
    return kind_ == Kind::kKeys || kind_ == Kind::kValues || kind_ == Kind::kPairs;
  }
  bool is_group() const { return is_group_; }
  /// Has items by their number: a list, a tuple, a range or a text.
  bool is_sequence() const { return is_list() || kind_ == Kind::kText || kind_ == Kind::kRange; }
  bool is_iterable() const;
  bool is_callable() const;
  /// Whether a dict may have it as a key.
  bool is_hashable() const;
  /// Python's name of the type, for messages.
  absl::string_view TypeName() const;

  // Each throws on a value of another kind, naming `what` needs it. The first three spend for a
  // walk over all that they give.
  const RenderedText& text(absl::string_view what) const;
  const Items& items(absl::string_view what) const;      ///< Items of a list or a tuple.
  const Entries& entries(absl::string_view what) const;  ///< Of a dict, its view or a namespace.
  int64_t integer(absl::string_view what) const;         ///< Number of an int or a bool.
  double number(absl::string_view what) const;
  const Function& function(absl::string_view what) const;
  const IntegerRange& range() const;  ///< Of a kRange.
  Object& object() const;             ///< Of a kObject.

  bool Truth() const;
  /// The values that `for` walks over: items, keys, characters; nothing of an undefined value.
  Items Iterate(absl::string_view what) const;
  /// The same one by one. An iterator goes on where it stood.
  NextItem Walk(absl::string_view what) const;
  /// Python's len(); nothing without one.
  std::optional<int64_t> MaybeLength() const;
  /// Throws on what has none, naming `what` needs it.
  int64_t Length(absl::string_view what = "length") const;
  /// An element of a list, tuple, range or text; a negative index counts from the end. Undefined
  /// if there is none.
  Value At(int64_t index) const;
  /// The entry of a dict or namespace; null without one. Throws on a key that is not hashable.
  const Value* Find(const Value& key) const;
  const Value* Find(absl::string_view key) const;
  /// Sets an entry of a namespace.
  void SetEntry(absl::string_view key, Value value);
  /// Removes all entries of a namespace, which ends cycles too.
  void ClearEntries();
  /// Python's `is`.
  bool Same(const Value& other) const;

  /// Python's str() and repr().
  RenderedText ToText() const;
  RenderedText ToRepr() const;
  /// The undefined value's name, if it has one; for messages.
  absl::string_view undefined_name() const;

 private:
  template <class T>
  const T& as() const {
    return *static_cast<const T*>(data_.get());
  }
  Entries& mutable_entries() const { return *static_cast<Entries*>(data_.get()); }
  void Repr(RenderedText* out, int depth) const;
  void ReprItems(RenderedText* out, int depth) const;
  void ReprEntries(RenderedText* out, int depth) const;
  /// Raises the depth of this value above that of `part`.
  void Hold(const Value* part);

  Kind kind_ = Kind::kUndefined;
  bool is_group_ = false;
  int depth_ = 0;  // of lists, dicts and functions, in levels, this one too
  union {
    int64_t int_ = 0;
    double float_;
  };
  /// By kind: std::string (an undefined value's name), RenderedText, Items, IntegerRange, Entries,
  /// Function, NextItem, Object.
  std::shared_ptr<void> data_;
};

/// Puts `value` at `key`, in place of an equal one. Throws on a key that is not hashable.
void PutEntry(Entries* entries, Value key, Value value);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_VALUE_H_
