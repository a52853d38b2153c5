// A command with code of strangers works in a process of its own, and this one waits for it. So whatever that code does
// to its process (exit, exec, a signal that it ignores, processes that it leaves behind), the command ends, and a
// command that did not come to its end never ends with 0.
#pragma once

#include <functional>

namespace ecmv::experiments {

// Runs `work` in a child process and returns its exit code. `work` calls its argument once strangers' libraries are
// loaded, within `load_seconds`. A child that ends with 0 but before `work` did, or by a signal, gives `unfinished`, or
// 2 before the libraries were loaded, and a sentence. Signals that ask this process to end go to the child; two seconds
// after the second one the child is killed.
int run_guarded(const std::function<int(const std::function<void()>& loaded)>& work, int unfinished, int load_seconds);

}  // namespace ecmv::experiments
