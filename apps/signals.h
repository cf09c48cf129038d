// Requests to stop: SIGTERM, SIGINT and SIGUSR1 ask for a checkpoint and an orderly end at the next
// step.
#pragma once

namespace lockstep {

/// Catches the three signals from here on. A second SIGINT ends the process at once, as usual.
void watch_signals();
/// Whether one of them has come.
bool stop_requested();

}  // namespace lockstep
