// What Ctrl-C does: the program ends at once, with the exit code of an interrupted one and no half-written
// output.
#pragma once

/// From here on SIGINT and SIGTERM remove the temporary of the output that is being written and end the
/// program with exit code 128 + their number. One that is ignored (nohup) stays so.
void end_cleanly_when_interrupted();
