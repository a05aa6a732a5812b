#include "conformance/cli/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {

int64_t parse_integer(const std::string& option, const std::string& text, int64_t lowest,
                      int64_t highest) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  require(error == std::errc() && stop == end && lowest <= value && value <= highest, option,
          " is '", printable(text), "'; allowed is a whole number from ", lowest, " to ", highest);
  return value;
}

double parse_number(const std::string& option, const std::string& text, double lowest,
                    double highest) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  require(error == std::errc() && stop == end && lowest <= value && value <= highest, option,
          " is '", printable(text), "'; allowed is a number from ", lowest, " to ", highest);
  return value;
}

std::vector<std::string> parse_list(const std::string& option, const std::string& text) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (true) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    require(comma > begin, option, " is '", printable(text),
            "'; allowed is a comma-separated list without empty entries");
    out.push_back(text.substr(begin, comma - begin));
    if (comma == text.size()) {
      return out;
    }
    begin = comma + 1;
  }
}

CLI::Option* add_number(CLI::App& command, const std::string& option, double& value, double lowest,
                        double highest, const std::string& help) {
  return command
      .add_option_function<std::string>(
          option,
          [&value, option, lowest, highest](const std::string& text) {
            value = parse_number(option, text, lowest, highest);
          },
          help)
      ->type_name("NUMBER");
}

CLI::Option* add_text(CLI::App& command, const std::string& option, std::string& value,
                      const std::string& help) {
  return command.add_option_function<std::string>(
      option,
      [&value, option](const std::string& text) {
        require(!text.empty(), option, " is empty; leave it out for the default");
        value = text;
      },
      help);
}

CLI::Option* add_words(CLI::App& command, const std::string& option,
                       std::vector<std::string>& value, const std::string& help) {
  return command
      .add_option_function<std::string>(
          option, [&value, option](const std::string& text) { value = parse_list(option, text); },
          help)
      ->type_name("LIST");
}

CLI::Option* add_integers(CLI::App& command, const std::string& option, std::vector<int>& value,
                          int64_t lowest, int64_t highest, const std::string& help) {
  return command
      .add_option_function<std::string>(
          option,
          [&value, option, lowest, highest](const std::string& text) {
            value.clear();
            for (const std::string& entry : parse_list(option, text)) {
              const auto n = static_cast<int>(parse_integer(option, entry, lowest, highest));
              if (std::find(value.begin(), value.end(), n) == value.end()) {
                value.push_back(n);
              }
            }
          },
          help)
      ->type_name("LIST");
}

}  // namespace bdlm
