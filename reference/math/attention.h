#pragma once
// Attention over intervals of keys: the forward into a state, the backward from the merged state.
//
// A tile is some query rows (of all query heads of one KV head) by some keys. Tiles and panels of
// rows that see none of the keys are skipped; a panel computes only the span of keys that its rows
// see, so that many small blocks in one tile cost little more than their pairs. Bits do not depend
// on the number of threads, and the forward of a row does not depend on which other rows are given.

#include "reference/math/attention_backward.h"
#include "reference/math/attention_forward.h"
