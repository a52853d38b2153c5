// Pieces of records as JSON, for record.cpp alone: values, and fields that are taken from an object or kept as they are.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/plausible.h"
#include "reports/record.h"

namespace ecmv::reports {

using Json = nlohmann::ordered_json;

inline Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

inline Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(number(value));
  return list;
}

inline Json to_json(const Values& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) {
    object[name] = std::visit(
        [](const auto& v) -> Json {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>)
            return number(v);
          else
            return v;
        },
        value);
  }
  return object;
}

// Text that came from outside (file names, compilers' messages) may not be UTF-8; a record must not fail on it.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Reading: a missing field keeps the default, a field of the wrong type is an error with the field's name.
template <class T>
void take(const Json& object, const char* name, T& into) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  try {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!found->is_number_integer()) throw ReportError("");
    } else if constexpr (std::is_same_v<T, double>) {
      if (!found->is_number()) throw ReportError("");
      if (is_beyond_measure(found->template get<double>()))
        throw ReportError(fmt::format("the field \"{}\" has a value beyond all measure: {}", name, dump(*found)));
    }
    into = found->template get<T>();
  } catch (const ReportError& error) {
    if (*error.what() != 0) throw;
    throw ReportError(fmt::format("the field \"{}\" has a value of the wrong type: {}", name, dump(*found)));
  } catch (const std::exception&) {
    throw ReportError(fmt::format("the field \"{}\" has a value of the wrong type: {}", name, dump(*found)));
  }
}

inline void take(const Json& object, const char* name, Values& into) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  if (!found->is_object()) throw ReportError(fmt::format("the field \"{}\" is not an object", name));
  for (const auto& [key, value] : found->items()) {
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

inline void take(const Json& object, const char* name, std::vector<double>& into) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  if (!found->is_array()) throw ReportError(fmt::format("the field \"{}\" is not a list", name));
  for (const Json& value : *found) {
    if (!value.is_number() && !value.is_null()) throw ReportError(fmt::format("\"{}\" holds {}", name, dump(value)));
    into.push_back(value.is_null() ? kUnknown : value.get<double>());
    if (is_beyond_measure(into.back()))
      throw ReportError(fmt::format("\"{}\" holds {}, which is beyond all measure", name, dump(value)));
  }
}

inline const Json& part(const Json& object, const char* name) {
  static const Json kEmpty = Json::object();
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return kEmpty;
  if (!found->is_object()) throw ReportError(fmt::format("the field \"{}\" is not an object", name));
  return *found;
}

}  // namespace ecmv::reports
