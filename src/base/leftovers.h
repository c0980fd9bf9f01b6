// What must not outlive a process that a signal, or a lack of memory, ends early: temporary files, folders made for
// results that are not there yet, other programs. Each is remembered while it is there and forgotten by whoever ends it
// in the usual way. Not for what a kill -9 leaves: nothing can run then.
#pragma once

#include <string>

namespace knapsack {

// A file, or a folder that is removed only where nothing is in it.
void remember_path(const std::string& path);
void forget_path(const std::string& path);

// The leader of a group of processes.
void remember_process(int pid);
void forget_process(int pid);

// Ends the processes, removes the paths, what is in a folder before the folder. Any thread; takes no memory.
void remove_leftovers();

}  // namespace knapsack
