#pragma once
// Case ids: a case's parameters are its name, its filter and its file name.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bdlm {

/// Builds ids such as `csbp-P4-L4096-M32-h16k4-d128-f64-gauss-s7`: the subject, then parts joined
/// by
/// '-'. The order of the parts does not depend on the order of the calls, so equal parameters give
/// equal ids: P, L, M, w, heads, d; other numbers by key; dtype, data; other words by key; the
/// seed. Keys, words and the subject hold only what file names and shells take as it is. Every
/// function throws InputError for anything else and for a part that is there already.
class CaseId {
 public:
  /// What is judged: letters, digits, '_' and '.', for instance "csbp" or "lse_merge".
  explicit CaseId(std::string_view subject);

  /// A part of key and value, for instance ("L", 4096) → `L4096`. The key is of letters, the value
  /// is not negative. The seed has the key "s".
  CaseId& number(std::string_view key, int64_t value);

  /// `h16k4`: 16 query heads over 4 KV heads.
  CaseId& heads(int64_t query_heads, int64_t kv_heads);

  /// A part that is a word, for instance ("dtype", "bf16") → `bf16`. The key only gives the place.
  CaseId& word(std::string_view key, std::string_view value);

  /// The id.
  std::string str() const;

 private:
  struct Part {
    int64_t place;
    std::string key;
    std::string text;
  };

  CaseId& add(Part part);

  std::string subject_;
  std::vector<Part> parts_;  // sorted by place, then key
};

/// True where the whole of `text` matches the pattern: `*` is any run of characters, `?` any one,
/// `[a-f0]` one of these, `[!a-f0]` one other than these; anything else is itself. Takes at most
/// |pattern|·|text| steps. Throws InputError for a '[' without its ']'.
bool glob_match(std::string_view pattern, std::string_view text);

/// The command that runs just this case, for instance
/// `bdlm verify --case csbp-P4-L64-f64-gauss-s7 --tier T3`, and behind it further options.
std::string reproducer_line(std::string_view id, std::string_view tier,
                            std::string_view options = "");

}  // namespace bdlm
