// Finds functions, classes and comments of a source by counting braces, which is enough for code that clang-format has
// laid out.
#pragma once

#include <string>
#include <vector>

namespace ecmv::tests {

struct Definition {
  std::string name;
  bool is_class = false;              // a struct, class or union; else a function
  bool is_nested = false;             // inside of a class
  int first_line = 0, last_line = 0;  // from 1, the signature included
  int lines() const { return last_line - first_line + 1; }
};

struct Comment {
  std::string opening;  // its first line, without the slashes
  int line = 0;         // from 1
};

// C, C++ or CUDA. Local functions and classes count as part of the enclosing function.
std::vector<Definition> definitions_in(const std::string& text);

// Functions of Python, methods included.
std::vector<Definition> python_functions_in(const std::string& text);

// Lines of // that follow each other are one comment.
std::vector<Comment> comments_in(const std::string& text);

// The same for #, in Python, shell, YAML and CMake.
std::vector<Comment> hash_comments_in(const std::string& text);

}  // namespace ecmv::tests
