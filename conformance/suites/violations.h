#pragma once
// What a check over plans found wrong.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/base/error.h"

namespace bdlm {

/// Counts every violation and keeps the text of the first ones.
class Violations {
 public:
  static constexpr size_t kept = 20;

  template <class... Parts>
  void add(const Parts&... parts) {
    ++count_;
    if (texts_.size() < kept) {
      texts_.push_back(join(parts...));
    }
  }
  int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  int64_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace bdlm
