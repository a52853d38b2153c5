# Writes the git revision into a header at every build, touching it only when it changed.
execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git status --porcelain --untracked-files=no WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE changes
                ERROR_QUIET)
set(dirty false)
if(changes)
  set(dirty true)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"#pragma once
#define ECMV_GIT_REVISION \"${revision}\"
#define ECMV_GIT_DIRTY ${dirty}
")
