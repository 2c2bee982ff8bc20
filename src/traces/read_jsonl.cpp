// JSON lines: one record a line. Megatron-Core's router trace (the tokens of one router call), the vLLM
// loggers' `route` lines (one token), counts per expert, or bare arrays.
#include <simdjson.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "traces/axis_plan.hpp"
#include "traces/known_names.hpp"
#include "traces/line_reader.hpp"
#include "traces/log_builder.hpp"
#include "traces/readers.hpp"
#include "traces/unread_names.hpp"

namespace dropless::traces {
namespace {

namespace ondemand = simdjson::ondemand;

/// Out of the way of the code that reads well-formed records.
[[noreturn]] void contradiction(const char* key, std::int64_t stated, std::int64_t found) {
  throw std::invalid_argument(fmt::format("{} is {}, but {} follow", key, stated, found));
}

[[noreturn, gnu::cold]] void refuse_second_name(std::string_view key) {
  throw std::invalid_argument(
      fmt::format("{}: the record has that number already, under this name or another", key));
}

/// Where in a line a value stands: "layer", "topk_ids[1][0]", or "[3]" in a bare array.
struct ValuePlace {
  std::string_view key;
  std::int64_t row = -1, column = -1;  // -1: no such index
};

[[noreturn, gnu::cold]] void refuse_value(const ValuePlace& place, const std::string& reason) {
  std::string text(place.key);
  for (const std::int64_t index : {place.row, place.column})
    if (index >= 0) text += fmt::format("[{}]", index);
  throw std::invalid_argument(text + ": " + reason);
}

const char* type_text(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::array:
      return "an array";
    case ondemand::json_type::object:
      return "an object";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::string:
      return "a string";
    case ondemand::json_type::boolean:
      return "a boolean";
    default:
      return "null";
  }
}

/// Throws simdjson_error where the value is no JSON at all.
[[noreturn, gnu::cold]] void refuse_type(ondemand::value value, const char* expected,
                                         const ValuePlace& place) {
  refuse_value(place, fmt::format("{} where {} is expected", type_text(value.type()), expected));
}

/// What is not written as an integer may be one all the same (12.0).
[[gnu::noinline]] std::int64_t whole_fraction(ondemand::value value, ValuePlace place) {
  double fraction = 0;
  if (value.get_double().get(fraction) != simdjson::SUCCESS) {
    if (value.type() == ondemand::json_type::number) refuse_value(place, "a number that cannot be read");
    refuse_type(value, "a number", place);
  }
  if (!(std::abs(fraction) < 9.2e18) || fraction != std::trunc(fraction))
    refuse_value(place, fmt::format("{} is no whole number", fraction));
  return static_cast<std::int64_t>(fraction);
}

/// Both arguments are copied on the rare path only: whose address is taken does not stay in registers.
[[gnu::always_inline]] inline std::int64_t whole_number(ondemand::value value, ValuePlace place) {
  std::int64_t number = 0;
  if (value.get_int64().get(number) == simdjson::SUCCESS) return number;
  return whole_fraction(value, place);
}

/// An array of numbers, or of rows of numbers.
struct NumberArray {
  bool nested = false;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> numbers;

  /// `key`: what the array stands under; empty for a bare one.
  void read(ondemand::array array, std::string_view key) {
    nested = false;
    rows = columns = 0;
    numbers.clear();
    for (ondemand::value element : array) {
      if (element.type() == ondemand::json_type::array) {
        if (!nested && !numbers.empty()) throw std::invalid_argument("numbers and arrays in one array");
        nested = true;
        const auto before = static_cast<std::int64_t>(numbers.size());
        for (ondemand::value number : element.get_array())
          numbers.push_back(
              whole_number(number, {key, rows, static_cast<std::int64_t>(numbers.size()) - before}));
        const std::int64_t length = static_cast<std::int64_t>(numbers.size()) - before;
        if (rows > 0 && length != columns)
          throw std::invalid_argument(
              fmt::format("ragged rows: one of {} numbers after rows of {}", length, columns));
        columns = length;
        ++rows;
      } else {
        if (nested) throw std::invalid_argument("numbers and arrays in one array");
        numbers.push_back(whole_number(element, {key, static_cast<std::int64_t>(numbers.size())}));
      }
    }
    if (!nested) {
      rows = numbers.empty() ? 0 : 1;
      columns = static_cast<std::int64_t>(numbers.size());
    }
  }
};

struct Line {
  bool has_array = false, counts = false, route = false, other_type = false;
  std::optional<std::int64_t> layer, step, token_index, tokens, top_k, experts;
  NumberArray array;
  std::vector<std::string_view> not_read;  ///< keys, valid as long as the line

  /// The number that stands under a key; null for a key that names none.
  std::optional<std::int64_t>* number_under(std::string_view key) {
    switch (key.empty() ? ' ' : key[0]) {  // which settles it for most of the keys that name none
      case 'l':
        if (names_layer(key)) return &layer;
        break;
      case 's':
      case 'i':
        if (names_step(key)) return &step;
        break;
      case 'n':
        if (key == "num_tokens") return &tokens;
        if (key == "num_experts") return &experts;
        break;
      case 't':
        if (key == "token_idx") return &token_index;
        if (key == "top_k" || key == "topk") return &top_k;
    }
    return nullptr;
  }

  /// By value and not inlined: a key whose address is taken does not stay in registers.
  [[gnu::noinline]] void skip(std::string_view key) { not_read.push_back(key); }

  void clear() {
    has_array = counts = route = other_type = false;
    layer = step = token_index = tokens = top_k = experts = std::nullopt;
    not_read.clear();
  }
};

/// What the first record of a log is, and so what its format is called and how its batches are bounded.
enum class Kind { none, token, tokens, counts, arrays };

class JsonLines {
 public:
  JsonLines(const FilePointer& file, const TraceOptions& options)
      : lines_(file), options_(options), builder_(file->path(), options) {
    info_.path = file->path();
  }

  ParsedLog parse() {
    std::string_view text;
    while (lines_.next(text)) {
      if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
      try {
        read_line(text);
      } catch (const simdjson::simdjson_error& error) {
        refuse(fmt::format("not the JSON of a routing record ({})", simdjson::error_message(error.error())));
      } catch (const std::invalid_argument& error) {
        refuse(error.what());
      }
    }
    describe();
    return {builder_.finish(), std::move(info_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw FileError(info_.path, lines_.place(), reason);
  }

  void read_line(std::string_view text) {
    static_assert(LineReader::padding >= simdjson::SIMDJSON_PADDING);
    ondemand::document document = parser_.iterate(
        simdjson::padded_string_view(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING));
    line_.clear();
    const ondemand::json_type type = document.type();
    const bool bare = type == ondemand::json_type::array;
    if (!bare && type != ondemand::json_type::object)
      throw std::invalid_argument(fmt::format("{} where an object or an array is expected", type_text(type)));
    if (bare)
      line_.array.read(document.get_array(), "");
    else
      for (ondemand::field field : document.get_object()) read_field(field);
    if (document.current_location().error() == simdjson::SUCCESS)
      throw std::invalid_argument("more than one JSON value in the line");
    if (bare)
      add_bare_array();
    else if (line_.has_array && !line_.other_type)
      add_record();
    else
      read_meta();
  }

  /// Inlined, so that the field stays in registers: through memory it stalls the loop, a third of the time.
  [[gnu::always_inline]] void read_field(ondemand::field& field) {
    const std::string_view key = field.unescaped_key();
    if (std::optional<std::int64_t>* number = line_.number_under(key)) {
      if (number->has_value()) refuse_second_name(key);
      *number = whole_number(field.value(), {key});
    } else if (key == "type") {
      ondemand::value value = field.value();
      std::string_view name;
      if (value.get_string().get(name) != simdjson::SUCCESS) refuse_type(value, "a string", {key});
      line_.route = name == "route";
      line_.other_type = !line_.route;
    } else if (names_ids(key) || names_counts(key))
      read_array(field.value(), key);
    else
      line_.skip(key);
  }

  void read_array(ondemand::value value, std::string_view key) {
    if (line_.has_array) throw std::invalid_argument("more than one array of ids or counts in the line");
    ondemand::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) refuse_type(value, "an array", {key});
    line_.array.read(array, key);
    line_.has_array = true;
    line_.counts = names_counts(key);
  }

  /// A line without routing: what it says of the model is used, the rest is skipped.
  void read_meta() {
    if (line_.route) throw std::invalid_argument("a route record without topk_ids");
    ++other_lines_;
    if (line_.top_k && *line_.top_k > 0) info_.top_k = *line_.top_k;
    if (line_.experts && *line_.experts > 0) state_experts(*line_.experts);
  }

  /// What the options say counts instead.
  void state_experts(std::int64_t experts) {
    if (options_.experts > 0) return;
    const std::string reason = builder_.state_experts(experts);
    if (!reason.empty()) throw std::invalid_argument(reason);
    info_.experts = experts;
  }

  void add_record() {
    if (!options_.axes.empty())
      throw Error("axes", axes_text(options_.axes), "none, for records that say what they hold");
    // An empty array is a router call without tokens.
    const bool one_token = !line_.counts && !line_.array.nested && line_.array.columns > 0;
    if (line_.array.rows > 0 || kind_ == Kind::token)
      set_kind(line_.counts ? Kind::counts : one_token ? Kind::token : Kind::tokens);
    check_record();
    for (const std::string_view key : line_.not_read) keys_not_read_.add(key);
    const std::int64_t layer = line_.layer.value_or(0);
    if (!builder_.wants(layer)) return;
    if (line_.experts) state_experts(*line_.experts);
    if (line_.counts && line_.array.nested)
      add_layers_counts();
    else if (one_token)
      add_token(layer);
    else
      add(layer, line_.step.value_or(0), line_.array.rows, line_.array.columns, line_.counts);
  }

  /// What a record says of itself must be what it holds, and every record names its layer or none does.
  void check_record() {
    const NumberArray& array = line_.array;
    if (line_.counts && array.nested) return;  // its rows are the layers
    const bool many_tokens = array.nested || array.rows == 0;
    if (!line_.counts && many_tokens && line_.tokens && *line_.tokens != array.rows)
      contradiction("num_tokens", *line_.tokens, array.rows);
    if (!line_.counts && line_.top_k && array.rows > 0 && *line_.top_k != array.columns)
      contradiction("topk", *line_.top_k, array.columns);
    if (layers_named_ && *layers_named_ != line_.layer.has_value())
      throw std::invalid_argument(line_.layer ? "names a layer, which records before it did not"
                                              : "names no layer, which records before it did");
    layers_named_ = line_.layer.has_value();
  }

  /// One token a line: its index within a forward pass says where the next pass starts.
  void add_token(std::int64_t layer) {
    Pass& pass = passes_[layer];
    if (line_.token_index) {
      if (pass.last_token && *line_.token_index <= *pass.last_token) {
        ++pass.number;
        ++restarts_;
        builder_.end_batch(layer);
      }
      pass.last_token = *line_.token_index;
    }
    add(layer, pass.number, line_.array.rows, line_.array.columns, false, false);
  }

  void add_layers_counts() {
    for (std::int64_t layer = 0; layer < line_.array.rows; ++layer)
      if (builder_.wants(layer))
        add(layer, line_.step.value_or(0), 1, line_.array.columns, true, true, layer * line_.array.columns);
  }

  void add_bare_array() {
    const NumberArray& array = line_.array;
    if (kind_ == Kind::none) settle_bare_arrays();
    set_kind(Kind::arrays);
    if (array.nested != bare_nested_)
      throw std::invalid_argument("rows of numbers and plain numbers in one log");
    if (!builder_.wants(0)) return;
    if (bare_axis_ == Axis::token)
      add(0, 0, array.columns, 1, false);
    else
      add(0, 0, array.rows, array.columns, bare_axis_ == Axis::expert,
          bare_axis_ == Axis::expert || array.nested);
  }

  /// The first line decides what a flat array is: rows per expert, where it is long or names a number twice.
  void settle_bare_arrays() {
    const NumberArray& array = line_.array;
    bare_nested_ = array.nested;
    std::vector<std::int64_t> sorted = array.numbers;
    std::sort(sorted.begin(), sorted.end());
    const bool repeats = std::adjacent_find(sorted.begin(), sorted.end(),
                                            [](auto a, auto b) { return a == b && a >= 0; }) != sorted.end();
    if (!options_.axes.empty()) {
      bare_axis_ = options_.axes.back();
      const bool fits = array.nested ? options_.axes == std::vector<Axis>{Axis::token, Axis::slot}
                                     : options_.axes.size() == 1 &&
                                           (bare_axis_ == Axis::token || bare_axis_ == Axis::slot ||
                                            bare_axis_ == Axis::expert);
      if (!fits)
        throw Error(
            "axes", axes_text(options_.axes),
            array.nested ? "token,slot for lines of rows" : "slot, token or expert for lines of numbers");
      return;
    }
    bare_axis_ = !array.nested && (repeats || array.columns > 32) ? Axis::expert : Axis::slot;
    info_.assumptions.push_back(
        array.nested ? "Each line was taken as a batch, and each row in it as the expert ids of a token."
        : bare_axis_ == Axis::expert ? "Each line was taken as the rows per expert of a batch."
                                     : "Each line was taken as the expert ids of one token.");
  }

  void add(std::int64_t layer, std::int64_t step, std::int64_t rows, std::int64_t columns, bool counts,
           bool own_batch = true, std::int64_t first = 0) {
    LogRecord record;
    record.layer = layer;
    record.step = step;
    record.names_step = line_.step && own_batch;
    record.numbers = line_.array.numbers.data() + first;
    record.tokens = rows;
    record.columns = columns;
    record.counts = counts;
    if (own_batch) builder_.end_batch(layer);
    builder_.add(record, [&] { return lines_.place(); });
  }

  void set_kind(Kind kind) {
    if (kind_ != Kind::none && kind != kind_)
      throw std::invalid_argument("records of another kind than before");
    kind_ = kind;
  }

  void describe() {
    const bool own_batches = !options_.batch_axes_given && options_.batch_tokens == 0;
    switch (kind_) {
      case Kind::token:
        info_.format = "jsonl (one token a line)";
        if (own_batches)
          info_.assumptions.push_back(
              restarts_ > 0
                  ? "A token_idx that restarts within a layer was taken as the start of a new batch."
                  : "No token_idx restarts: everything in a layer was taken as one batch.");
        break;
      case Kind::tokens:
        info_.format = "jsonl (one router call a line)";
        if (own_batches) info_.assumptions.push_back("Each record of a layer was taken as one batch.");
        break;
      case Kind::counts:
        info_.format = "jsonl (rows per expert)";
        if (own_batches) info_.assumptions.push_back("Each record of a layer was taken as one batch.");
        break;
      default:
        info_.format = "jsonl (arrays)";
        if (own_batches && bare_axis_ == Axis::slot && !bare_nested_)
          info_.assumptions.push_back("Everything was taken as one batch.");
    }
    if (layers_named_ == false)
      info_.assumptions.push_back("No record names a layer: all were taken as layer 0.");
    if (!keys_not_read_.empty()) info_.assumptions.push_back("Keys not read: " + keys_not_read_.text() + ".");
    if (other_lines_ > 0)
      info_.assumptions.push_back(
          fmt::format("Lines without routing, such as meta data, were skipped: {}.", other_lines_));
  }

  struct Pass {
    std::optional<std::int64_t> last_token;
    std::int64_t number = 0;
  };

  LineReader lines_;
  const TraceOptions& options_;
  LogBuilder builder_;
  TraceInfo info_;
  ondemand::parser parser_;
  Line line_;
  Kind kind_ = Kind::none;
  std::optional<bool> layers_named_;  // whether records name their layer; empty before the first
  bool bare_nested_ = false;
  Axis bare_axis_ = Axis::slot;
  std::map<std::int64_t, Pass> passes_;
  std::int64_t restarts_ = 0;
  std::int64_t other_lines_ = 0;
  UnreadNames keys_not_read_;
};

}  // namespace

ParsedLog parse_jsonl(const FilePointer& file, const TraceOptions& options) {
  return JsonLines(file, options).parse();
}

}  // namespace dropless::traces
