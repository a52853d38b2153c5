// Two visitors of record fields (record_fields.h): one reads them from JSON, one writes JSON. For record.cpp alone.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

#include "reports/plausible.h"
#include "reports/record.h"

namespace ecmv::reports {

using Json = nlohmann::ordered_json;

// Text from outside (file names, compilers' messages) may not be UTF-8; a record must not fail on it.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A missing field or null keeps the default; a value of the wrong type throws ReportError with the field's name.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(&object) {}

  static bool has(bool) { return true; }

  template <class T>
  void field(const char* name, T& into) {
    if (const Json* value = find(name)) take(name, *value, into);
  }
  template <class T>
  void field(const char* name, T& into, const char* older) {
    field(find(name) ? name : older, into);
  }
  void count(const char* name, std::int64_t& into, int bits) {
    field(name, into);
    expect_count(name, into, bits);
  }
  template <class Fields>
  void object(const char* name, const Fields& fields) {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_object()) throw ReportError(fmt::format("the field \"{}\" is not an object", name));
    inside(*value, fields);
  }
  template <class Entry, class Fields>
  void list(const char* name, std::vector<Entry>& entries, const Fields& fields) {
    const auto value = object_->find(name);
    if (value == object_->end()) return;
    if (!value->is_array()) throw ReportError(fmt::format("the field \"{}\" is not a list", name));
    for (const Json& entry : *value) {
      if (!entry.is_object()) throw ReportError(fmt::format("an entry of \"{}\" is not an object", name));
      inside(entry, [&] { fields(entries.emplace_back()); });
    }
  }

 private:
  const Json* find(const char* name) const {
    const auto found = object_->find(name);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  template <class Fields>
  void inside(const Json& object, const Fields& fields) {
    const Json* outer = std::exchange(object_, &object);
    fields();
    object_ = outer;
  }
  [[noreturn]] static void wrong_type(const char* name, const Json& value) {
    throw ReportError(fmt::format("the field \"{}\" has a value of the wrong type: {}", name, dump(value)));
  }

  template <class T>
  static void take(const char* name, const Json& value, T& into) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      if (!value.is_number_integer()) wrong_type(name, value);
    try {
      into = value.get<T>();
    } catch (const Json::exception&) {
      wrong_type(name, value);
    }
  }
  static void take(const char* name, const Json& value, double& into) {
    if (!value.is_number()) wrong_type(name, value);
    into = value.get<double>();
    if (is_beyond_measure(into))
      throw ReportError(fmt::format("the field \"{}\" has a value beyond all measure: {}", name, dump(value)));
  }
  static void take(const char* name, const Json& value, std::vector<double>& into) {
    if (!value.is_array()) throw ReportError(fmt::format("the field \"{}\" is not a list", name));
    for (const Json& entry : value) {
      into.push_back(kUnknown);
      if (!entry.is_null()) take(name, entry, into.back());
    }
  }
  template <class T>
  static void take(const char* name, const Json& value, std::optional<T>& into) {
    take(name, value, into.emplace());
  }
  static void take(const char* name, const Json& value, Status& into) {
    std::string text;
    take(name, value, text);
    into = parse_status(text);
  }
  static void take(const char* name, const Json& values, Values& into) {
    if (!values.is_object()) throw ReportError(fmt::format("the field \"{}\" is not an object", name));
    for (const auto& [key, value] : values.items()) {
      if (value.is_boolean())
        into[key] = value.get<bool>();
      else if (value.is_number_integer())
        into[key] = value.get<std::int64_t>();
      else if (value.is_number())
        into[key] = value.get<double>();
      else if (value.is_string())
        into[key] = value.get<std::string>();
      else if (value.is_null())
        into[key] = kUnknown;
      else
        into[key] = dump(value);
    }
  }

  const Json* object_;
};

// Infinite, NaN and unknown values become null.
class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : object_(&object) {}

  static bool has(bool condition) { return condition; }

  template <class T>
  void field(const char* name, const T& value, const char* /*older*/ = nullptr) {
    (*object_)[name] = json(value);
  }
  void count(const char* name, std::int64_t value, int /*bits*/) { field(name, value); }
  template <class Fields>
  void object(const char* name, const Fields& fields) {
    inside((*object_)[name] = Json::object(), fields);
  }
  template <class Entry, class Fields>
  void list(const char* name, const std::vector<Entry>& entries, const Fields& fields) {
    Json& list = (*object_)[name] = Json::array();
    for (const Entry& entry : entries) inside(list.emplace_back(Json::object()), [&] { fields(entry); });
  }

 private:
  template <class Fields>
  void inside(Json& object, const Fields& fields) {
    Json* outer = std::exchange(object_, &object);
    fields();
    object_ = outer;
  }

  template <class T>
  static Json json(const T& value) {
    return value;
  }
  static Json json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
  static Json json(const std::vector<double>& values) {
    Json list = Json::array();
    for (const double value : values) list.push_back(json(value));
    return list;
  }
  template <class T>
  static Json json(const std::optional<T>& value) {
    return value ? json(*value) : Json(nullptr);
  }
  static Json json(Status status) { return to_string(status); }
  static Json json(const Values& values) {
    Json object = Json::object();
    for (const auto& [name, value] : values) object[name] = std::visit([](const auto& v) { return json(v); }, value);
    return object;
  }

  Json* object_;
};

}  // namespace ecmv::reports
