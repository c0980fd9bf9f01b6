// Memory that Rust code behind this folder cannot have would abort the process, where C++ throws std::bad_alloc.
#pragma once

namespace knapsack {

// `end` is called instead. It ends the process, with no memory to be had, and must not throw. The first call counts.
void when_out_of_memory(void (*end)());

}  // namespace knapsack
