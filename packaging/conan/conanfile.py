import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, get

required_conan_version = ">=2.0"


class OnnxcConan(ConanFile):
    name = "onnxc"
    version = "@VERSION@"
    description = "Ahead-of-time compiler for ONNX models"
    license = "Apache-2.0"
    url = "@HOME@"
    homepage = "@HOME@"
    topics = ("onnx", "compiler", "machine-learning", "embedded")
    package_type = "static-library"
    settings = "os", "arch"

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch != "x86_64":
            raise ConanInvalidConfiguration("the released archive is for Linux on x86_64; build other ones from source")

    def build(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def package(self):
        copy(self, "*", src=self.build_folder, dst=self.package_folder)
        copy(self, "LICENSE", src=os.path.join(self.build_folder, "share", "doc", "onnxc"), dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package's own configuration file has onnxc_add_model.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "onnxc")]
        self.cpp_info.set_property("pkg_config_name", "onnxc")
        self.cpp_info.libs = ["onnxc-rt"]
        self.cpp_info.system_libs = ["pthread", "dl", "m"]
        self.buildenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
        self.runenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
