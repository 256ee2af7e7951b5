# cmake -DSOURCE=FOLDER -DOUTPUT=HEADER -DCOMMIT=FALLBACK -P WriteCommit.cmake
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE _commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT _commit)
  set(_commit ${COMMIT})
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define BATON_COMMIT \"${_commit}\"\n")
