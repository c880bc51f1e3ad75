# The released tree, which needs nothing but glibc.
vcpkg_download_distfile(ARCHIVE
    URLS "@URL@"
    FILENAME "@FOLDER@.tar.xz"
    SHA512 @SHA512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled) # one build serves debug and release
set(VCPKG_POLICY_DLLS_IN_STATIC_LIBRARY enabled)

# onnxc finds the rest of its tree relative to itself.
file(INSTALL "${SOURCE_PATH}/bin" "${SOURCE_PATH}/lib" "${SOURCE_PATH}/share" "${SOURCE_PATH}/include"
    DESTINATION "${CURRENT_PACKAGES_DIR}/tools/onnxc" USE_SOURCE_PERMISSIONS)
file(INSTALL "${SOURCE_PATH}/include/" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
file(INSTALL "${SOURCE_PATH}/lib/libonnxc-rt.a" DESTINATION "${CURRENT_PACKAGES_DIR}/lib")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/onnxc/onnxcConfig.cmake"
    "include(\"\${CMAKE_CURRENT_LIST_DIR}/../../tools/onnxc/lib/cmake/onnxc/onnxcConfig.cmake\")\n")
file(INSTALL "${SOURCE_PATH}/lib/cmake/onnxc/onnxcConfigVersion.cmake" DESTINATION "${CURRENT_PACKAGES_DIR}/share/onnxc")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/onnxc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/share/doc/onnxc/LICENSE")
