#pragma once
// The precision contract: where a backend rounds, and to what. It is judged by what it declares.

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "reference/base/json_file.h"

namespace bdlm {

/// In which order ranks' partial gradients are added.
enum class ReduceOrder : uint8_t {
  ring,   ///< from the rank after the owner around to the owner, each partial sum rounded
  tree,   ///< in pairs, ceil(log2 w) levels, each sum rounded
  fixed,  ///< by rank from 0, each partial sum rounded
};
const char* name(ReduceOrder order);

/// A format at every site where an attention layer may round. A site whose format is as precise as
/// `accumulate` does not round.
struct Contract {
  std::string name;
  /// Q, K, V and dO as they are read.
  Dtype input = Dtype::bf16;
  /// Sums, scores, exponentials, and everything that is not named here.
  Dtype accumulate = Dtype::fp32;
  /// P before it multiplies V and, in the backward, dO.
  Dtype p = Dtype::bf16;
  /// dS before it multiplies K and Q.
  Dtype ds = Dtype::bf16;
  /// O, also as the backward reads it.
  Dtype o = Dtype::bf16;
  /// Partial O between merges: exchanged, or stored between attention calls.
  Dtype partial_o = Dtype::fp32;
  /// LSE, partial and merged: fp32 or f64.
  Dtype lse = Dtype::fp32;
  /// dQ, dK, dV as they are written.
  Dtype gradient = Dtype::bf16;
  /// Partial dK and dV as they travel to the owner and are added.
  Dtype reduce = Dtype::fp32;
  ReduceOrder reduce_order = ReduceOrder::fixed;
  /// The longest sum that is taken in sequence, in terms; sums of such sums follow. 0: whole sums.
  int64_t chain = 0;
  /// Two runs give the same bits.
  bool deterministic = true;

  friend bool operator==(const Contract&, const Contract&) = default;
};

/// "bf16": bf16 in, out and in the reduction (ring), fp32 inside. "bf16-fp32-reduce": the same with
/// gradients reduced in fp32. "fp32" and "f64": that at every site. Throws InputError, naming
/// these, for another name.
Contract builtin_contract(std::string_view name);
std::vector<std::string> builtin_contract_names();

/// Reads a contract. Every format and the order must be there; "chain" may be missing (0), and so
/// may "deterministic" (true). Throws InputError, one line, for unknown or missing keys, formats
/// and orders that do not exist, a name that is empty or has other characters than letters, digits,
/// '.', '_' and '-', an LSE below fp32, and a site more precise than `accumulate`, except inputs
/// and LSE.
Contract parse_contract(const JsonView& json);
/// The same from a file; FileError where it is not JSON, or has a key twice.
Contract read_contract(const std::string& path);
/// One of the built-in names, or else a file.
Contract find_contract(const std::string& name_or_path);

/// JSON that reads back as the same contract, ending with a newline.
std::string write_contract(const Contract& contract);

/// u of a site, or 0 where the site is as precise as what it receives.
double site_unit(const Contract& contract, Dtype site);

}  // namespace bdlm
