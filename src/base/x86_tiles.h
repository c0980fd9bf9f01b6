// AMX's tile registers are large, and a process has them only after it has asked the system for them. For x86 alone.
#pragma once

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace knapsack {

// False where the processor or the system does not grant them. All threads have them then.
inline bool ask_for_tiles() {
  constexpr int tile_data = 18;  // the number of this part of a thread's state
  return ::syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, tile_data) == 0;
}

}  // namespace knapsack
