// bdlm golden: the golden vectors, listed, made and checked.

#include <filesystem>
#include <iostream>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/golden/golden_file.h"
#include "conformance/golden/golden_folder.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

struct GoldenOptions {
  std::string ids;
  std::string level;
  std::string folder = "golden/v1";
  std::string out;
  bool inputs_only = false;
  bool manifest = false;
  bool all = false;
};

/// `--case GLOB` or `--level L`: quick is what is stored, gate and full are all.
std::vector<GoldenCase> chosen(const GoldenOptions& options) {
  require(options.ids.empty() || options.level.empty(),
          "--case and --level exclude each other; give one of them");
  const bool stored_only =
      options.ids.empty() && (options.level.empty() || parse_level(options.level) == Level::quick);
  return select_golden_cases(options.ids.empty() ? "*" : options.ids, stored_only);
}

int list(const GoldenOptions& options) {
  for (const GoldenCase& c : chosen(options)) {
    std::cout << c.id << "  " << c.family() << ", " << c.contract
              << (c.stored ? "" : ", made on demand") << ": " << listed(c.flags) << '\n';
  }
  return 0;
}

int gen(const GoldenOptions& options) {
  if (options.manifest) {
    require(options.ids.empty() && options.level.empty() && !options.inputs_only,
            "--manifest writes all stored vectors; it goes with no --case, --level, --inputs-only");
    const int64_t bytes = write_golden_folder(options.out);
    std::cout << golden_cases().size() << " vectors, " << bytes << " bytes stored in "
              << printable(options.out) << '\n';
    return 0;
  }
  const std::vector<GoldenCase> cases = chosen(options);
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  require<FileError>(!error, printable(options.out, 400),
                     ": cannot make the folder: ", error.message());
  const Making making = options.inputs_only ? Making::inputs : Making::all;
  for (const GoldenCase& c : cases) {
    const std::string path = join(options.out, '/', c.id, ".safetensors");
    write_golden_file(path, c, make_vector(c, making), making);
    std::cout << printable(path, 400) << '\n';
  }
  return 0;
}

int check(const GoldenOptions& options) {
  const std::vector<std::string> differences =
      check_golden_folder(options.folder, options.ids.empty() ? "*" : options.ids, options.all);
  for (const std::string& line : differences) {
    std::cout << line << '\n';
  }
  std::cout << (differences.empty() ? join(printable(options.folder), " is what is made anew")
                                    : join(differences.size(), " differences"))
            << '\n';
  return differences.empty() ? 0 : 1;
}

}  // namespace

void add_golden_command(CLI::App& app, int& status) {
  auto options = std::make_shared<GoldenOptions>();
  CLI::App* command = app.add_subcommand("golden", "Golden vectors: list, make or check them");
  command->require_subcommand(1);
  CLI::App* list_command = command->add_subcommand("list", "Ids, families, contracts and flags");
  CLI::App* gen_command = command->add_subcommand("gen", "Write vectors, one file each");
  CLI::App* check_command =
      command->add_subcommand("check", "Make the stored vectors anew and compare");
  for (CLI::App* with_level : {list_command, gen_command}) {
    add_text(*with_level, "--level", options->level,
             "quick: what is stored (the default); gate, full: all");
  }
  for (CLI::App* with_case : {list_command, gen_command, check_command}) {
    add_text(*with_case, "--case", options->ids, "Only ids that match this glob");
  }
  add_text(*gen_command, "--out", options->out, "The folder to write to")->required();
  gen_command->add_flag("--inputs-only", options->inputs_only, "Without what is expected")
      ->disable_flag_override();
  gen_command
      ->add_flag("--manifest", options->manifest,
                 "The whole folder of a version: families, manifest.json")
      ->disable_flag_override();
  add_text(*check_command, "--golden", options->folder, "The folder; default golden/v1");
  check_command->add_flag("--all", options->all, "Those too that are not stored")
      ->disable_flag_override();
  list_command->callback([options, &status] { status = list(*options); });
  gen_command->callback([options, &status] { status = gen(*options); });
  check_command->callback([options, &status] { status = check(*options); });
}

}  // namespace bdlm
