// A shared library of the system, opened at run time and called through its C interface, so that neither a build nor a
// machine needs it. If something is missing, a sentence says so.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <utility>

namespace ecmv::backends {

class InstalledLibrary {
 public:
  explicit InstalledLibrary(std::string name) : name_(std::move(name)) {}

  // Opens the first of these files that the loader takes; false, with `missing`, if it takes none. An open library
  // stays open until the process ends.
  bool open(std::span<const char* const> files) {
    std::string tried;
    for (const char* file : files) {
      if (open_file(file)) return true;
      tried += (tried.empty() ? "" : ", ") + std::string(file);
    }
    missing = name_ + " is not installed here, or not where the loader looks (" + tried + ").";
    return false;
  }
  bool open_file(const char* file) {
    if (object_ == nullptr) object_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return object_ != nullptr;
  }
  bool is_open() const { return object_ != nullptr; }
  void close() {
    if (object_ != nullptr) dlclose(std::exchange(object_, nullptr));
  }

  // Sets `function` to the one of that name, or to null where the library has none.
  template <typename Function>
  bool find(Function& function, const std::string& symbol) const {
    function = object_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(object_, symbol.c_str()));
    return function != nullptr;
  }
  // Like find(), for a function without which the library cannot be used.
  template <typename Function>
  void take(Function& function, const std::string& symbol) {
    if (!find(function, symbol)) missing = without(symbol);
  }
  std::string without(const std::string& symbol) const {
    return "The " + name_ + " that is installed here has no " + symbol + ".";
  }

  std::string missing;  // why it cannot be used, as a sentence; empty if it can

 private:
  std::string name_;
  void* object_ = nullptr;
};

}  // namespace ecmv::backends
