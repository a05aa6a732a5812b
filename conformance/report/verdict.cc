#include "conformance/report/verdict.h"

#include "reference/base/error.h"

namespace bdlm {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::marginal:
      return "MARGINAL";
    case Verdict::unsupported:
      return "UNSUPPORTED";
    case Verdict::skipped:
      return "SKIPPED";
    case Verdict::mistrusted:
      return "MISTRUSTED";
    case Verdict::fail:
      return "FAIL";
    case Verdict::timeout:
      return "TIMEOUT";
    case Verdict::crash:
      return "CRASH";
  }
  throw LogicError(join("verdict ", static_cast<int>(verdict), " does not exist"));
}

std::string_view summary_key(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::marginal:
      return "marginal";
    case Verdict::unsupported:
      return "unsupported";
    case Verdict::skipped:
      return "skipped";
    case Verdict::mistrusted:
      return "mistrusted";
    case Verdict::fail:
      return "fail";
    case Verdict::timeout:
      return "timeout";
    case Verdict::crash:
      return "crash";
  }
  throw LogicError(join("verdict ", static_cast<int>(verdict), " does not exist"));
}

std::string_view name(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "";
    case Reason::coverage:
      return "coverage";
    case Reason::bound:
      return "bound";
    case Reason::outlier:
      return "outlier";
    case Reason::noise:
      return "noise";
    case Reason::scale:
      return "scale";
    case Reason::nonfinite:
      return "nonfinite";
    case Reason::bitwise:
      return "bitwise";
    case Reason::guard:
      return "guard";
    case Reason::null_entry:
      return "null_entry";
    case Reason::file:
      return "file";
  }
  throw LogicError(join("reason ", static_cast<int>(reason), " does not exist"));
}

bool is_failure(Verdict verdict, Reason reason, bool strict) {
  switch (verdict) {
    case Verdict::pass:
    case Verdict::marginal:
      return false;
    case Verdict::unsupported:
      return strict && reason != Reason::null_entry;
    case Verdict::skipped:
    case Verdict::mistrusted:
      return strict;
    case Verdict::fail:
    case Verdict::timeout:
    case Verdict::crash:
      return true;
  }
  throw LogicError(join("verdict ", static_cast<int>(verdict), " does not exist"));
}

}  // namespace bdlm
