# onnxc_model(NAME MODEL [OPTIONS ...])   after idf_component_register() of a component: compiles MODEL into it, and puts NAME.h in its
# include path. Objects for RISC-V; portable C for Xtensa. The compiler onnxc must be in PATH, or named with -DONNXC=FILE.
function(onnxc_model name model)
  find_program(ONNXC onnxc REQUIRED)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "OPTIONS")
  get_filename_component(model "${model}" ABSOLUTE)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}.onnxc")
  file(MAKE_DIRECTORY "${folder}")
  if(CONFIG_IDF_TARGET_ARCH_RISCV)
    set(output "${folder}/${name}.o")
    if(CONFIG_SOC_CPU_HAS_FPU)
      set(options --target=riscv32-none-elf -march=rv32imafc -mabi=ilp32f)
    else()
      set(options --target=riscv32-none-elf -march=rv32imc -mabi=ilp32)
    endif()
    set_source_files_properties("${output}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  else()
    set(output "${folder}/${name}.c")
    set(options --freestanding --threads=1)
  endif()
  add_custom_command(OUTPUT "${output}" "${folder}/${name}.h"
    COMMAND "${ONNXC}" ${options} "--name=${name}" ${ARG_OPTIONS} "${model}" -o "${output}" --header "${folder}/${name}.h"
            -MF "${output}.d"
    DEPENDS "${model}" DEPFILE "${output}.d" COMMENT "Compiling ONNX model ${name}" VERBATIM)
  target_sources(${COMPONENT_LIB} PRIVATE "${output}" "${folder}/${name}.h")
  target_include_directories(${COMPONENT_LIB} PUBLIC "${folder}")
endfunction()
