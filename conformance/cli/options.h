#pragma once
// Options whose values are checked as they are read: strict, within a range, with errors that say
// what is allowed.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace bdlm {

/// A whole number in decimal digits, a sign allowed, nothing else. Throws InputError naming
/// `option`, the text and the range.
int64_t parse_integer(const std::string& option, const std::string& text, int64_t lowest,
                      int64_t highest);

/// A finite number. Throws InputError as above.
double parse_number(const std::string& option, const std::string& text, double lowest,
                    double highest);

/// The entries of a comma-separated list. Throws InputError on an empty one.
std::vector<std::string> parse_list(const std::string& option, const std::string& text);

// Each registers `option` so that its value goes to `value`, and throws InputError while parsing
// when the value is empty or not of its kind.

/// `value` is an integer or a std::optional of one.
template <class Integer>
CLI::Option* add_integer(CLI::App& command, const std::string& option, Integer& value,
                         int64_t lowest, int64_t highest, const std::string& help) {
  using Plain = std::conditional_t<std::is_integral_v<Integer>, Integer, int64_t>;
  return command
      .add_option_function<std::string>(
          option,
          [&value, option, lowest, highest](const std::string& text) {
            value = static_cast<Plain>(parse_integer(option, text, lowest, highest));
          },
          help)
      ->type_name("INTEGER");
}

CLI::Option* add_number(CLI::App& command, const std::string& option, double& value, double lowest,
                        double highest, const std::string& help);
CLI::Option* add_text(CLI::App& command, const std::string& option, std::string& value,
                      const std::string& help);
/// A comma-separated list of words.
CLI::Option* add_words(CLI::App& command, const std::string& option,
                       std::vector<std::string>& value, const std::string& help);
/// A comma-separated list of integers, each kept once.
CLI::Option* add_integers(CLI::App& command, const std::string& option, std::vector<int>& value,
                          int64_t lowest, int64_t highest, const std::string& help);

}  // namespace bdlm
