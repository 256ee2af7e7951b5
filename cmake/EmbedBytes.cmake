# cmake -DINPUT=FILE -DOUTPUT=FILE.cc -DHEADER=H -DNAMESPACE=N -DNAME=N -P EmbedBytes.cmake
# Writes a C++ source that has the bytes of INPUT as `N::NAME` and their number as `N::NAMESize`.
file(READ ${INPUT} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n
namespace ${NAMESPACE} {\n
const unsigned char ${NAME}[] = {\n${bytes}};
const size_t ${NAME}Size = ${size};\n
}  // namespace ${NAMESPACE}\n")
