# The text of `--version`: the project's version, and the commit that is built. The commit is looked
# up in every build, and written only when it is another one.
set(BATON_COMMIT "" CACHE STRING "The commit, where the sources are in no git repository")
set(BATON_COMMIT_HEADER ${CMAKE_BINARY_DIR}/version/commit.h)
add_custom_target(baton_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${BATON_COMMIT_HEADER}
          -DCOMMIT=${BATON_COMMIT} -P ${CMAKE_CURRENT_LIST_DIR}/WriteCommit.cmake
  BYPRODUCTS ${BATON_COMMIT_HEADER} VERBATIM)
