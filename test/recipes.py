"""Recipes of packaging/: rendered, read by parsers of their languages, and tried as far as is possible without their tools.

usage: recipes.py      prints N passed, N failed, N skipped
"""
import ast
import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:  # Debian's own Python has it
    if sys.executable == "/usr/bin/python3":
        print("0 passed, 0 failed, 1 skipped")
        sys.exit()
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import render  # noqa: E402

ONNXC = os.path.join(ROOT, "build", "release", "onnxc")
with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as version_file:
    VERSION = version_file.read().strip()
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Skip(Exception):
    pass


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Skip(name + " is not installed")
    return found


def run(*command, **keywords):
    ran = subprocess.run(command, capture_output=True, text=True, **keywords)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-2000:]
    return ran.stdout


def text(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def keys(data, needed, known):
    missing, unknown = set(needed) - set(data), set(data) - set(needed) - set(known)
    assert not missing and not unknown, f"missing {missing}, unknown {unknown}"


@check
def nothing_is_left_to_fill_in(out):
    for folder, _, names in os.walk(out):
        for name in names:
            left = re.findall(r"@(?:VERSION|HOME|MAINTAINER|HANDLE|FOLDER|URL|SOURCE|SHA256|SHA512|SOURCE_SHA256)@", text(folder, name))
            assert not left, f"{name}: {left}"


@check
def checksums_are_those_of_the_files(out):
    with tempfile.TemporaryDirectory() as other:
        render.render(other, archive=ONNXC, source=os.path.join(ROOT, "VERSION"))
        sha512 = run("sha512sum", ONNXC).split()[0]
        assert sha512 in text(other, "vcpkg", "portfile.cmake")
        assert run("sha256sum", ONNXC).split()[0] in text(other, "meson", "onnxc.wrap")
        assert run("sha256sum", os.path.join(ROOT, "VERSION")).split()[0] in text(other, "homebrew", "onnxc.rb")


@check
def conda_forge(out):
    recipe = yaml.safe_load(text(out, "conda-forge", "recipe.yaml"))
    keys(recipe, ["schema_version", "context", "package", "source", "build", "requirements", "tests", "about"], ["extra"])
    assert recipe["schema_version"] == 1 and recipe["context"]["version"] == VERSION
    keys(recipe["build"], ["number", "script"], ["skip"])
    keys(recipe["requirements"], ["build", "host", "run"], [])
    assert all(set(test) & {"script", "package_contents"} for test in recipe["tests"])
    assert re.fullmatch("[0-9a-f]{64}", recipe["source"]["sha256"])


@check
def vcpkg(out):
    manifest = json.loads(text(out, "vcpkg", "vcpkg.json"))
    keys(manifest, ["name", "version", "description", "license"], ["$schema", "homepage", "supports"])
    assert manifest["version"] == VERSION and re.fullmatch("[a-z0-9-]+", manifest["name"])
    # The port file with functions of vcpkg that unpack an installed tree.
    with tempfile.TemporaryDirectory() as w:
        subprocess.run(["sh", "tools/install/install.sh", "build/release", VERSION, w + "/tree"], cwd=ROOT, check=True)
        stub = f"""set(CURRENT_PACKAGES_DIR "{w}/out")
function(vcpkg_download_distfile name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "FILENAME;SHA512" "URLS")
  if(NOT A_URLS OR NOT A_FILENAME OR NOT A_SHA512 MATCHES "^[0-9a-f]+$" OR A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_download_distfile")
  endif()
  set(${{name}} archive PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive name)
  set(${{name}} "{w}/tree" PARENT_SCOPE)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "COMMENT" "FILE_LIST")
  file(INSTALL ${{A_FILE_LIST}} DESTINATION "${{CURRENT_PACKAGES_DIR}}/share/onnxc" RENAME copyright)
endfunction()
include("{out}/vcpkg/portfile.cmake")
"""
        with open(w + "/run.cmake", "w", encoding="utf-8") as f:
            f.write(stub)
        run(tool("cmake"), "-P", w + "/run.cmake")
        shutil.copy(os.path.join(ROOT, "test", "cli", "mlp.onnx"), w)
        with open(w + "/CMakeLists.txt", "w", encoding="utf-8") as f:
            f.write(f"cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(onnxc {VERSION} REQUIRED)\nonnxc_add_model(mlp mlp.onnx)\n")
        run("cmake", "-S", w, "-B", w + "/b", f"-Donnxc_DIR={w}/out/share/onnxc")
        run("cmake", "--build", w + "/b")
        assert os.path.exists(w + "/out/share/onnxc/copyright") and os.path.exists(w + "/out/lib/libonnxc-rt.a")


@check
def conan(out):
    tree = ast.parse(text(out, "conan", "conanfile.py"))
    recipe = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    values = {node.targets[0].id: node.value for node in recipe.body if isinstance(node, ast.Assign)}
    methods = {node.name for node in recipe.body if isinstance(node, ast.FunctionDef)}
    assert ast.literal_eval(values["version"]) == VERSION and ast.literal_eval(values["name"]) == "onnxc"
    assert {"package", "package_info", "build", "validate"} <= methods and {"license", "settings", "package_type"} <= set(values)
    sources = yaml.safe_load(text(out, "conan", "conandata.yml"))["sources"]
    keys(sources[VERSION], ["url", "sha256"], [])


@check
def homebrew(out):
    formula = os.path.join(out, "homebrew", "onnxc.rb")
    run(tool("ruby"), "-wc", formula)
    # The class, with the parts of Homebrew that it uses.
    stub = """class Formula
  def self.method_missing(name, *args, &block) = (@@said ||= {})[name] = args
  def self.test(&block) = @@test = block
  def self.said = @@said
end
load ARGV[0]
puts Formula.said.keys.sort.join(' ')"""
    said = run("ruby", "-e", stub, formula).split()
    assert {"desc", "homepage", "url", "sha256", "license", "depends_on"} <= set(said), said
    assert f"v{VERSION}.tar.gz" in text(formula)


@check
def docker(out):
    lines = re.sub(r"\\\n", " ", text(out, "docker", "Dockerfile")).splitlines()
    words = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    assert set(words) <= {"FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "ENTRYPOINT", "CMD"} and words[0] == "FROM"
    for line in lines:
        if line.startswith(("ENTRYPOINT", "CMD")):
            json.loads(line.split(maxsplit=1)[1])
        if line.startswith("RUN"):
            run("sh", "-nc", line[4:])


@check
def github_actions(out):
    action = yaml.safe_load(text(out, "github-actions", "action.yml"))
    keys(action, ["name", "description", "runs"], ["author", "branding", "inputs", "outputs"])
    assert action["runs"]["using"] == "composite" and action["inputs"]["version"]["default"] == VERSION
    for step in action["runs"]["steps"]:
        keys(step, ["shell", "run"], ["id", "env", "name"])
        run("bash", "-nc", step["run"])
    # The step, with an archive instead of a download.
    with tempfile.TemporaryDirectory() as w:
        os.makedirs(w + "/onnxc-1/bin")
        with open(w + "/onnxc-1/bin/onnxc", "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho \"$@\"\n")
        os.chmod(w + "/onnxc-1/bin/onnxc", 0o755)
        run("tar", "-C", w, "-cJf", w + "/a.tar.xz", "onnxc-1")
        with open(w + "/curl", "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" != -o ] || cp "{w}/a.tar.xz" "$2"; shift; done\n')
        os.chmod(w + "/curl", 0o755)
        env = {"PATH": w + ":" + os.environ["PATH"], "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "RUNNER_TEMP": w, "VERSION": "9.9.9",
               "SHA256": run("sha256sum", w + "/a.tar.xz").split()[0], "GITHUB_PATH": w + "/path", "GITHUB_OUTPUT": w + "/output"}
        assert run("bash", "-c", action["runs"]["steps"][0]["run"], env=env).splitlines()[-1] == "--version"
        assert text(w, "path").strip().endswith("/onnxc-9.9.9/bin") and text(w, "output").startswith("prefix=")


def model_in_cmake(out, stub, call, want):
    """Configures and builds a project that has a model through functions of another build system."""
    with tempfile.TemporaryDirectory() as w:
        shutil.copy(os.path.join(ROOT, "test", "cli", "add.onnx"), w)
        with open(w + "/CMakeLists.txt", "w", encoding="utf-8") as f:
            f.write(f"cmake_minimum_required(VERSION 3.20)\nproject(app C)\nset(ONNXC {ONNXC})\n{stub}\n{call}\n")
        with open(w + "/main.c", "w", encoding="utf-8") as f:
            f.write('#include "add.h"\nint main(void);\nint main(void) { return ADD_WORKSPACE_BYTES != 0; }\n')
        run(tool("cmake"), "-S", w, "-B", w + "/b", "-DCMAKE_C_FLAGS=-ffreestanding")
        run("cmake", "--build", w + "/b", "--verbose")
        found = [name for _, _, names in os.walk(w + "/b") for name in names]
        assert want in found, found


ZEPHYR = """set(CONFIG_ONNXC y)
add_library(app STATIC main.c)
set(folders)
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
endmacro()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
endfunction()
function(zephyr_include_directories)
  target_include_directories(app PRIVATE ${ARGV})
endfunction()
"""


@check
def zephyr(out):
    module = yaml.safe_load(text(out, "zephyr", "zephyr", "module.yml"))
    keys(module, ["name", "build"], [])
    keys(module["build"], ["cmake", "kconfig"], [])
    for path in (module["build"]["kconfig"], module["build"]["cmake"] + "/CMakeLists.txt"):
        assert os.path.exists(os.path.join(out, "zephyr", path)), path
    kconfig = text(out, "zephyr", "zephyr", "Kconfig")
    assert kconfig.count("\nchoice") == kconfig.count("\nendchoice") and kconfig.count("\nif ") == kconfig.count("\nendif")
    include = f'include("{out}/zephyr/zephyr/CMakeLists.txt")\n'
    board = "set(CONFIG_ARM y)\nset(TOOLCHAIN_C_FLAGS -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard -Wall)\n"
    model_in_cmake(out, ZEPHYR + board + include, "zephyr_onnxc_model(add add.onnx)", "add.o")
    model_in_cmake(out, ZEPHYR + include, "zephyr_onnxc_model(add add.onnx)", "add.c")


@check
def esp_idf(out):
    manifest = yaml.safe_load(text(out, "esp-idf", "idf_component.yml"))
    keys(manifest, ["version", "description"], ["url", "repository", "documentation", "issues", "license", "tags", "dependencies", "targets"])
    assert manifest["version"] == VERSION
    stub = f'add_library(main STATIC main.c)\nset(COMPONENT_LIB main)\ninclude("{out}/esp-idf/project_include.cmake")\n'
    model_in_cmake(out, "set(CONFIG_IDF_TARGET_ARCH_RISCV y)\n" + stub, "onnxc_model(add add.onnx)", "add.o")
    model_in_cmake(out, stub, "onnxc_model(add add.onnx OPTIONS -Os)", "add.c")


@check
def platformio(out):
    library = json.loads(text(out, "platformio", "library.json"))
    keys(library, ["name", "version", "description", "keywords", "repository", "license"],
         ["$schema", "homepage", "frameworks", "platforms", "build"])
    assert library["version"] == VERSION and os.path.exists(os.path.join(out, "platformio", library["build"]["extraScript"]))
    # The script, with the parts of SCons that it uses.
    with tempfile.TemporaryDirectory() as w:
        shutil.copy(os.path.join(ROOT, "test", "cli", "add.onnx"), w)
        built = []

        class Environment:
            def GetProjectOption(self, name, default):
                return {"custom_onnxc": ONNXC, "custom_onnxc_models": "\nadd.onnx --name sum"}.get(name, default)

            def subst(self, name):
                return w if name == "$PROJECT_DIR" else w + "/b"

            def Append(self, **keywords):
                built.append(keywords)

            def GetLibBuilders(self):
                return []

            def BuildSources(self, to, folder, src_filter):
                built.append(os.listdir(folder))

        script = text(out, "platformio", library["build"]["extraScript"])
        env = {"env": Environment(), "Import": lambda name: None, "DefaultEnvironment": Environment, "__name__": "script"}
        exec(compile(script, "compile_models.py", "exec"), env)
        assert {"add.c", "add.h"} <= set(built[-1]) and not env["is_old"](w + "/b/onnxc/add/add.c", env["SOURCES"] and ast.literal_eval(
            text(w, "b", "onnxc", "add", "add.c.command")))


@check
def meson(out):
    wrap = configparser.ConfigParser(interpolation=None)
    wrap.read(os.path.join(out, "meson", "onnxc.wrap"))
    keys(wrap["wrap-file"], ["directory", "source_url", "source_filename", "source_hash", "patch_directory"], [])
    keys(wrap["provide"], ["dependency_names", "program_names"], [])
    tool("meson")
    with tempfile.TemporaryDirectory() as w:  # a project with the unpacked archive
        sub = f"{w}/subprojects/{wrap['wrap-file']['directory']}"
        subprocess.run(["sh", "tools/install/install.sh", "build/release", VERSION, sub], cwd=ROOT, check=True)
        shutil.copytree(os.path.join(out, "meson"), f"{w}/subprojects", dirs_exist_ok=True)
        shutil.copy(f"{w}/subprojects/packagefiles/onnxc/meson.build", sub)
        shutil.copy(os.path.join(ROOT, "test", "cli", "add.onnx"), w)
        with open(w + "/main.c", "w", encoding="utf-8") as f:
            f.write('#include "add.h"\nint main(void) { return ADD_WORKSPACE_BYTES != 0; }\n')
        with open(w + "/meson.build", "w", encoding="utf-8") as f:
            f.write("""project('app', 'c')
onnxc = dependency('onnxc')
add = custom_target('add', input: 'add.onnx', output: ['add.o', 'add.h'], depfile: 'add.d',
    command: [find_program('onnxc'), onnxc.get_variable('flags').split(), '@INPUT@', '-o', '@OUTPUT0@', '--header', '@OUTPUT1@',
              '-MF', '@DEPFILE@'])
test('app', executable('app', 'main.c', add, dependencies: onnxc))
""")
        run("meson", "setup", w + "/b", w)
        run("meson", "test", "-C", w + "/b")
        if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"):
            there = f"{sub}/lib/onnxc/aarch64-linux-gnu"
            os.makedirs(there)
            run("make", "-s", "-f", sub + "/share/onnxc/runtime/Makefile", "B=" + there, "CC=aarch64-linux-gnu-gcc", "AR=aarch64-linux-gnu-ar")
            with open(w + "/arm64.ini", "w", encoding="utf-8") as f:
                f.write("""[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'cortex-a72'
endian = 'little'
[built-in options]
c_args = ['-mcpu=cortex-a72']
""")
            run("meson", "setup", "--cross-file", w + "/arm64.ini", w + "/arm64", w)
            run("meson", "test", "-C", w + "/arm64")
            assert "cortex-a72" in text(w, "arm64", "build.ninja")


@check
def bazel(out):
    for name in ("MODULE.bazel", "BUILD.bazel", "archive.BUILD.bazel", "onnxc.bzl"):
        tree = ast.parse(text(out, "bazel", name))  # Starlark is almost a part of Python
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if name == "MODULE.bazel":
            module = next(c for c in calls if getattr(c.func, "id", "") == "module")
            said = {k.arg: ast.literal_eval(k.value) for k in module.keywords}
            assert said["version"] == VERSION and said["name"] == "onnxc"
    loads = re.findall(r'load\("([^"]+)"', text(out, "bazel", "onnxc.bzl"))
    assert loads == ["@onnxc//:onnxc.bzl", "@rules_cc//cc:defs.bzl"], loads


def main():
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as out:
        render.render(out)
        for function in CHECKS:
            try:
                function(out)
                passed += 1
            except Skip as why:
                print(f"skip: {function.__name__}: {why}")
                skipped += 1
            except Exception as wrong:  # noqa: BLE001 whatever is wrong with a recipe
                print(f"FAIL {function.__name__}: {type(wrong).__name__}: {wrong}")
                failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
