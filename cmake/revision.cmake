# Writes HEADER with the git revision of SOURCE (empty outside git), but only if it is another than what stands there.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n#define LOCKSTEP_REVISION \"@revision@\"\n" @ONLY)
