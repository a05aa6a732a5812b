#pragma once
// The float CPU backend as the plug-in interface sees it.

#include "conformance/plugin/bdlm_plugin.h"

/// fp32 at every site. Also what the library bdlm_cpu exports as bdlm_plugin.
extern "C" const bdlm_backend* bdlm_cpu_backend(void);

/// bf16 in and out, fp32 between. Also what the library bdlm_cpu_bf16 exports as bdlm_plugin.
extern "C" const bdlm_backend* bdlm_cpu_bf16_backend(void);
