// ecmv new-codec: makes a folder in codecs/ that compiles and passes the conformance tests, to start from; or one
// anywhere else, for a shared object.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "codecs/registry.h"
#include "ecmv_texts.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

bool is_codecs_folder(const fs::path& folder) {
  return fs::exists(folder / "codec.h") && fs::exists(folder / "registry.h");
}

// codecs/ of the source checkout around this folder; empty if there is none. The program's own location does not count:
// it may be in another checkout.
fs::path find_codecs_folder() {
  std::error_code ignored;
  for (fs::path folder = fs::current_path(ignored); !folder.empty(); folder = folder.parent_path()) {
    if (is_codecs_folder(folder / "codecs")) return folder / "codecs";
    if (folder == folder.root_path()) break;
  }
  return {};
}

// "" or why this cannot be the id of a codec: it becomes a folder and a namespace.
std::string bad_id(const std::string& id) {
  static constexpr std::string_view kTaken[] = {
      "alignas",   "alignof",   "and",       "and_eq",   "asm",      "auto",      "bitand",  "bitor",     "bool",
      "break",     "case",      "catch",     "char",     "class",    "codec",     "compl",   "concept",   "const",
      "consteval", "constexpr", "constinit", "continue", "decltype", "default",   "delete",  "do",        "double",
      "else",      "enum",      "explicit",  "export",   "extern",   "false",     "float",   "for",       "friend",
      "goto",      "if",        "inline",    "int",      "long",     "modelling", "mutable", "namespace", "new",
      "noexcept",  "not",       "not_eq",    "nullptr",  "operator", "or",        "or_eq",   "private",   "protected",
      "public",    "register",  "requires",  "return",   "short",    "signed",    "sizeof",  "static",    "struct",
      "switch",    "template",  "this",      "throw",    "true",     "try",       "typedef", "typeid",    "typename",
      "union",     "unsigned",  "using",     "virtual",  "void",     "volatile",  "while",   "xor",       "xor_eq"};
  const bool letters = !id.empty() && id[0] >= 'a' && id[0] <= 'z' &&
                       id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (!letters)
    return fmt::format("'{}' cannot be a codec's id: use lower-case letters, digits and '_', beginning with a letter.",
                       id);
  if (std::find(std::begin(kTaken), std::end(kTaken), id) != std::end(kTaken))
    return fmt::format("'{}' cannot be a codec's id: the name is reserved.", id);
  if (id.find("__") != std::string::npos)
    return fmt::format("'{}' cannot be a codec's id: C++ reserves names with '__'.", id);
  return {};
}

std::string filled_in(std::string text, const std::string& id) {
  static constexpr std::string_view kPlace = "@ID@";
  for (size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + id.size()))
    text.replace(at, kPlace.size(), id);
  return text;
}

// The lines that a codec has with or without kernels for GPUs.
std::string lines_for(std::string_view text, bool gpu) {
  std::string kept;
  bool keep = true;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    text.remove_prefix(line.empty() ? text.size() : line.size());
    const bool with = line == "@GPU@\n", without = line == "@NO_GPU@\n", end = line == "@END@\n";
    if (with || without || end)
      keep = end || with == gpu;
    else if (keep)
      kept += line;
  }
  return kept;
}

void write_files(const fs::path& folder, std::span<const TemplateFile> files, const std::string& id, bool gpu = false) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError(fmt::format("The folder {} cannot be made: {}.", folder.string(), error.message()));
  for (const TemplateFile& file : files)
    write_output((folder / filled_in(std::string(file.name), id)).string(),
                 [&](std::ostream& out) { out << filled_in(lines_for(file.text, gpu), id); });
}

fs::path folder_of_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Where CMake finds the package of this program, installed or in its build folder; elsewhere a placeholder.
std::string package_prefix() {
  std::error_code ignored;
  const fs::path folder = folder_of_this_program();
  if (fs::exists(folder / "ecmvConfig.cmake", ignored)) return folder.string();
  for (const char* libraries : {"lib", "lib64"})
    if (fs::exists(folder.parent_path() / libraries / "cmake/ecmv/ecmvConfig.cmake", ignored))
      return folder.parent_path().string();
  return "PREFIX";
}

int write_out_of_tree(const std::string& id, const fs::path& folder, bool gpu) {
  static constexpr std::string_view kTargets[] = {
      "all", "clean", "edit_cache", "help", "install", "list_install_components", "package", "rebuild_cache", "test"};
  if (std::find(std::begin(kTargets), std::end(kTargets), id) != std::end(kTargets))
    throw UsageError(fmt::format("'{}' cannot be a codec's id there: CMake has a target of that name.", id));
  std::error_code ignored;
  if (codecs::find_codec(id) != nullptr) throw UsageError(fmt::format("There is a codec '{}' already.", id));
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder, ignored)))
    throw UsageError(fmt::format("{} exists and is no empty folder.", folder.string()));
  write_files(folder, kOutOfTreeFiles, id, gpu);
  if (gpu) write_files(folder, kOutOfTreeGpuFiles, id);
  OwnStdout::stream() << folder.string() << "\n";
  std::cerr << fmt::format(
      "In {0}, build and test it:\n"
      "  export PATH='{1}':$PATH\n"
      "  cmake -B build -DCMAKE_PREFIX_PATH='{2}' && cmake --build build\n"
      "  ecmv verify --codec-library build/lib{3}.so --filter /{3} --corrupt\n"
      "Then measure it:\n"
      "  ecmv run --codec-library build/lib{3}.so --codec raw_int8,{3} --backend scalar --d 2048 --sigma 4\n",
      fs::absolute(folder).lexically_normal().string(), folder_of_this_program().string(), package_prefix(), id);
  if (gpu)
    std::cerr
        << "verify runs its GPU kernels on the emulator and the GPUs that are there; 'ecmv doctor' says how to get "
           "either.\n";
  return kFine;
}

}  // namespace

void add_new_codec(CLI::App& app, CommandLine& line) {
  struct Options {
    std::string id, folder, out_of_tree;
    bool gpu = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("new-codec", "writes a codec folder that compiles and passes conformance, to start from");
  verb->add_option("name", options->id, "id of the codec, in lower_snake_case")->required();
  CLI::Option* inside =
      verb->add_option("--codecs-dir", options->folder,
                       "the folder codecs/ of a source checkout (of the one around the current folder)");
  CLI::Option* outside =
      verb->add_option("--out-of-tree", options->out_of_tree,
                       "a codec in C for a shared object, in a folder DIR of its own with its own build")
          ->type_name("DIR")
          ->excludes(inside);
  verb->add_flag("--gpu", options->gpu, "with --out-of-tree: also kernels for GPUs and for the emulator")
      ->needs(outside);
  verb->callback([options, &line] {
    line.action = [options] {
      const std::string& id = options->id;
      if (const std::string reason = bad_id(id); !reason.empty()) throw UsageError(reason);
      if (!options->out_of_tree.empty()) return write_out_of_tree(id, options->out_of_tree, options->gpu);
      const fs::path codecs = options->folder.empty() ? find_codecs_folder() : fs::path(options->folder);
      if (codecs.empty())
        throw UsageError(
            "This folder is not in a source checkout. Change into one, name its folder codecs/ with --codecs-dir, or "
            "write a codec for a shared object with --out-of-tree DIR.");
      if (!is_codecs_folder(codecs))
        throw UsageError(fmt::format("{} is not the folder codecs/ of a source checkout.", codecs.string()));
      const fs::path folder = codecs / id;
      if (fs::exists(folder) || codecs::find_codec(id) != nullptr)
        throw UsageError(fmt::format("There is a codec '{}' already.", id));
      write_files(folder, kNewCodecFiles, id);
      OwnStdout::stream() << folder.string() << "\n";
      std::cerr << fmt::format(
          "In {0}, build and test it:\n"
          "  cmake --preset cpu && cmake --build build --target ecmv test_conformance test_codecs\n"
          "  ECMV_TEST_CODEC={1} build/test_conformance && build/test_codecs '{1} *'\n"
          "Then measure it:\n"
          "  build/ecmv run --codec raw_int8,{1} --backend scalar --d 2048 --sigma 4\n",
          fs::absolute(codecs).lexically_normal().parent_path().string(), id);
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments
