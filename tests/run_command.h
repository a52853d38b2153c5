// Runs the built command in a folder of its own. The test is compiled with ECMV_BINARY.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ecmv::tests {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder of its own for every test, in which the command runs.
class Command {
 public:
  explicit Command(std::string program = ECMV_BINARY) : program_(std::move(program)) {
    std::string name = (std::filesystem::temp_directory_path() / "ecmv_command_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
  }
  Command(const Command&) = delete;
  ~Command() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  int operator()(const std::vector<std::string>& arguments) {
    wait_for(start(arguments));
    return code;
  }
  pid_t start(const std::vector<std::string>& arguments) {
    std::fflush(nullptr);  // or the child writes the buffers' content once more
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child > 0) return child;
    std::vector<char*> argv = {program_.data()};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (chdir(folder.c_str()) != 0 || freopen((folder / "stdout").c_str(), "w", stdout) == nullptr ||
        freopen((folder / "stderr").c_str(), "w", stderr) == nullptr)
      _exit(99);
    execv(program_.c_str(), argv.data());
    _exit(99);
  }
  void wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    out = text_of(folder / "stdout");
    err = text_of(folder / "stderr");
    INFO(err);
  }

  std::filesystem::path folder;
  std::map<std::string, std::string> environment;  // set for the command
  int code = -1;
  std::string out, err;

 private:
  std::string program_;
};

}  // namespace ecmv::tests
