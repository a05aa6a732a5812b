#pragma once
// The table for people: one line a case or tensor, columns that explain themselves.

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "conformance/report/report.h"

namespace bdlm {

/// A column that shows a figure.
struct Column {
  /// Name of the figure, as in Figures.
  std::string figure;
  /// Head of the column, for instance "err/H".
  std::string title;
  /// One line for the legend: what it is, in which unit, what is good.
  std::string meaning;
  /// Characters; grows to the title.
  int64_t width = 9;
};

/// The columns of a tensor compared under a precision contract: err/H, max z, RMS z, gain-1, LSE
/// (figures err_over_h, max_z, rms_z, gain_minus_1, lse).
std::vector<Column> contract_columns();

/// Writes a table line by line, as cases come.
class Table {
 public:
  /// `id_width` is the room for the longest id; a longer one moves the rest of its line.
  Table(std::ostream& out, std::vector<Column> columns, int64_t id_width = 44, bool strict = false);

  /// The legend, each line begun by '#', and the heads of the columns.
  void head();
  /// A line a tensor, before them one for the case where it has figures of its own or is worse than
  /// its tensors; a figure that a line lacks is "-". Under a case that the list of known failures
  /// has, what it says; under one that fails the run the command that runs just this one.
  void row(const CaseResult& result);
  /// The counts, on one line: verdicts that did not occur are left out, PASS and FAIL never are.
  void foot(const Summary& summary);

 private:
  void line(const std::string& id, const std::string& tier, const std::string& tensor,
            const Figures& figures, Verdict verdict, Reason reason, const std::string& detail);

  std::ostream& out_;
  std::vector<Column> columns_;
  int64_t id_width_;
  bool strict_;
};

}  // namespace bdlm
