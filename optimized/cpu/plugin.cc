#include "optimized/cpu/backend.h"

BDLM_EXPORT const bdlm_backend* bdlm_plugin(void) {
  return bdlm_cpu_backend();
}
