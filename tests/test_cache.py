"""The cache of kernels: never a stale or broken one, whatever happens to its files."""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import llvmlite
import numpy as np
import pytest
from kernels import HEAD, call, forget

from minispore.commands import cli
from minispore.engine import cache, cpu
from minispore.engine.kernels import by_numba, compiler


def source(number=1):
    return f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    p_f4(slots[0])[0] = f4({number})
"""


def value(address):
    out = np.zeros(1, np.float32)
    call(address, [out])
    return out[0]


@pytest.fixture
def place(monkeypatch, tmp_path):
    """An empty cache, used by a process that knows no kernel yet."""
    monkeypatch.setenv("MINISPORE_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache"
    monkeypatch.undo()
    forget()


def no_compiler(monkeypatch):
    def refuse(*_):
        pytest.fail("compiled again")

    monkeypatch.setattr(compiler, "machine_code", refuse)


def run_process(code, place, *arguments, before=()):
    """A new process, when it has ended; the command `before` starts it."""
    environment = {**os.environ, "MINISPORE_CACHE_DIR": str(place)}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [*before, sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def in_a_process(code, place, *arguments, before=()):
    """What a new process prints."""
    done = run_process(code, place, *arguments, before=before)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kernel_is_compiled_once(place, monkeypatch):
    assert value(cache.kernel(source())) == 1
    (file,) = place.iterdir()
    assert file.suffix == ".kernel" and file.stat().st_size < 4000
    no_compiler(monkeypatch)
    assert cache.kernel(source()) == cache.kernel(source())
    forget()
    assert value(cache.kernel(source())) == 1


def test_another_process_needs_no_compiler(place):
    value(cache.kernel(source()))
    code = """
import ctypes, sys
from minispore.engine import cache
import numpy as np
out = np.zeros(1, np.float32)
slots = np.array([out.ctypes.data])
address = cache.kernel(sys.argv[1])
ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(address)(slots.ctypes.data, 0, 0, 1, 0)
print(out[0], [m for m in sys.modules if m.split('.')[0] in ('numba', 'scipy')
               or 'engine.kernels' in m])
"""
    assert in_a_process(code, place, source()) == "1.0 []\n"


def test_importing_the_package_imports_no_compiler(place):
    code = """
import sys, minispore
print([m for m in sys.modules if m in ("numba", "llvmlite", "scipy")])
"""
    assert in_a_process(code, place) == "[]\n"


def test_compiling_needs_no_numba(place):
    code = """
import sys
from minispore.engine import cache
print(cache.kernel(sys.argv[1]) > 0, 'numba' in sys.modules, 'scipy' in sys.modules)
"""
    assert in_a_process(code, place, source()) == "True False False\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
def test_eight_processes_fill_an_empty_cache(place):
    """At once, all with the same kernels; then each loads what is there."""
    code = """
import ctypes, os, sys
from minispore.engine import cache
def answer(number):
    slots = (ctypes.c_ssize_t * 1)()
    out = ctypes.c_float()
    slots[0] = ctypes.addressof(out)
    address = cache.kernel(sys.argv[1].replace('f4(1)', f'f4({number})'))
    ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(address)(ctypes.addressof(slots), 0, 0, 1, 0)
    return out.value
children = []
for child in range(8):
    process = os.fork()
    if not process:
        os._exit(sum(answer(n) != n for n in range(5)))
    children.append(process)
print([os.waitpid(c, 0)[1] for c in children])
"""
    assert in_a_process(code, place, source()) == f"{[0] * 8}\n"
    assert len(list(place.iterdir())) == 5
    forget()
    assert [value(cache.kernel(source(n))) for n in range(5)] == [0, 1, 2, 3, 4]


# ------------------------------------------------------------------------------- wrong files


def flipped(data):
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: b"\0" * len(data),
        lambda data: b"garbage",
        lambda data: data.replace(b"kernel 1", b"kernel 0"),
        flipped,
    ],
)
def test_a_broken_file_is_replaced(place, monkeypatch, broken):
    cache.kernel(source())
    (file,) = place.iterdir()
    data = file.read_bytes()
    file.write_bytes(broken(data))
    forget()
    assert value(cache.kernel(source())) == 1
    assert file.read_bytes() == data


def test_a_folder_where_the_file_should_be(place):
    cache.kernel(source())
    (file,) = place.iterdir()
    file.unlink()
    file.mkdir()
    forget()
    assert value(cache.kernel(source())) == 1


def test_a_full_disk(place, monkeypatch):
    def full(path, data):
        path.write_bytes(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_whole", full)
    assert value(cache.kernel(source())) == 1
    forget()
    assert value(cache.kernel(source())) == 1


def test_a_disk_that_is_full(place):
    """A file system of 16 kB holds some kernels, whole ones, and the rest is in memory only."""
    code = """
import ctypes, os, subprocess, sys
from minispore.engine import cache
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", sys.argv[2]], check=True)
def answer(number):
    slots, out = (ctypes.c_ssize_t * 1)(), ctypes.c_float()
    slots[0] = ctypes.addressof(out)
    address = cache.kernel(sys.argv[1].replace('f4(1)', f'f4({number})'))
    ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(address)(ctypes.addressof(slots), 0, 0, 1, 0)
    return out.value
for turn in range(2):
    print([answer(n) for n in range(8)] == [*range(8)])
    cache._addresses.clear()
names = os.listdir(sys.argv[2])
print(0 < len(names) < 8, [n for n in names if n.startswith('.')])
"""
    place.mkdir()
    apart = ["unshare", "--mount"]
    try:
        subprocess.run([*apart, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a file system")
    out = in_a_process(code, place, source(), str(place), before=apart)
    assert out == "True\nTrue\nTrue []\n"


def test_a_folder_to_read_only(place, monkeypatch):
    """What is there is used, however old; what is not stays in memory."""
    cache.kernel(source())
    (file,) = place.iterdir()
    os.utime(file, (1, 1))
    forget()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    assert value(cache.kernel(source(2))) == 2
    assert [*place.iterdir()] == [file]
    no_compiler(monkeypatch)
    assert value(cache.kernel(source())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_file_that_cannot_be_written_whole(place):
    code = """
import resource, sys
from minispore.engine import cache
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
print(cache.kernel(sys.argv[1]) > 0)
"""
    assert in_a_process(code, place, source()) == "True\n"
    assert list(place.iterdir()) == []


def test_a_place_that_is_no_folder(place, monkeypatch):
    place.write_text("mine")
    assert value(cache.kernel(source())) == 1
    assert place.read_text() == "mine"


def test_the_place_of_all_caches(place, monkeypatch, tmp_path):
    assert cache.folder() == place
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache.folder() == place
    monkeypatch.delenv("MINISPORE_CACHE_DIR")
    assert cache.folder() == tmp_path / "caches" / "minispore"
    for none in ("", "caches", "./caches"):
        monkeypatch.setenv("XDG_CACHE_HOME", none)
        assert cache.folder() == Path.home() / ".cache" / "minispore"


def test_no_home(place, monkeypatch, capsys):
    def lost():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MINISPORE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lost)
    assert cache.folder() is None
    assert value(cache.kernel(source())) == 1
    assert cli.main(["cache", "info"]) == 2
    assert "no home folder" in capsys.readouterr().err


# ------------------------------------------------------------------------------- the key


def test_everything_is_in_the_key(place, monkeypatch, tmp_path):
    keys = {cache.key("a"), cache.key("b")}

    def another():
        cache._surroundings.cache_clear()
        cpu.target.cache_clear()
        keys.add(cache.key("a"))

    monkeypatch.setattr(llvmlite, "__version__", "0.0")
    another()
    monkeypatch.setattr(llvmlite.binding, "get_default_triple", lambda: "another-system")
    another()
    monkeypatch.setenv("MINISPORE_CPU", "haswell")
    another()
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    for name in ("cache.py", "cpu.py"):
        (tmp_path / name).write_text("")
    for name in ("kernels/vector.py", "cache.py", "cpu.py", "kernels/more.py"):
        for text in ("", "x = 1", "x = 2"):
            (tmp_path / name).write_text(text)
            another()
    assert len(keys) == 5 + 10


def test_a_changed_function_makes_another_kernel(place, tmp_path):
    """A copy of the package, in which a function of kernels changes between two processes."""
    package = tmp_path / "copy"
    home = Path(cache.__file__).parents[1]
    shutil.copytree(home, package / "minispore", ignore=shutil.ignore_patterns("__pycache__"))
    vector = package / "minispore/engine/kernels/vector.py"
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import minispore as ms
assert ms.__file__.startswith(sys.argv[1])
print(float(ms.jit(ms.ops.erf)(ms.Tensor(0.5))))
"""
    first = in_a_process(code, place, str(package))
    assert abs(float(first) - 0.5204999) < 1e-6
    text = vector.read_text()
    old = "    return x * _ERF_SMALL(a * a) + x if a < f4(0.93) else large"
    assert old in text
    vector.write_text(text.replace(old, "    return f4(7)"))
    assert in_a_process(code, place, str(package)) == "7.0\n"
    vector.write_text(text)
    assert in_a_process(code, place, str(package)) == first


# ------------------------------------------------------------------------------- size


def test_the_least_recently_used_kernels_go(place, monkeypatch):
    monkeypatch.setattr(cache, "_stores", iter(range(64, 10**6, 64)))  # looks each time
    files = []
    for n in range(4):
        cache.kernel(source(n))
        (new,) = set(place.iterdir()) - set(files)
        files.append(new)
        os.utime(new, (time.time() - 10**6 + n,) * 2)
    forget()
    cache.kernel(source(0))  # used again: now the youngest
    size = sum(f.stat().st_size for f in files)
    monkeypatch.setenv("MINISPORE_CACHE_SIZE", str(size))
    cache.kernel(source(10))
    left = set(place.iterdir())
    assert files[0] in left and files[1] not in left and len(left) == 4
    monkeypatch.setenv("MINISPORE_CACHE_SIZE", "0")
    assert value(cache.kernel(source(11))) == 11
    assert list(place.iterdir()) == []


def test_unfinished_files_go_too(place):
    place.mkdir()
    unfinished = place / ".k00.kernel.1.2"
    unfinished.write_bytes(b"x")
    (place / "mine").write_text("mine")
    cache.trim(place, 0)
    assert [p.name for p in place.iterdir()] == ["mine"]


@pytest.mark.parametrize("size", ["much", "-1", "1.5", ""])
def test_wrong_sizes(place, monkeypatch, capsys, size):
    monkeypatch.setenv("MINISPORE_CACHE_SIZE", size)
    with pytest.raises(ValueError, match="MINISPORE_CACHE_SIZE must be a number of bytes"):
        cache.kernel(source())
    assert cli.main(["cache", "info"]) == 2
    assert "MINISPORE_CACHE_SIZE" in capsys.readouterr().err


def test_the_program(place, capsys):
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out == f"{place}\n0 kernels, 0.0 MB (at most 64.0 MB)\n"
    for n in range(3):
        cache.kernel(source(n))
    (place / "mine").write_text("mine")
    assert cli.main(["cache", "info"]) == 0
    assert "3 kernels" in capsys.readouterr().out
    assert cli.main(["cache", "clear"]) == 0
    assert "3 kernels removed" in capsys.readouterr().out
    assert [p.name for p in place.iterdir()] == ["mine"]
    forget()
    assert value(cache.kernel(source(2))) == 2


# ------------------------------------------------------------------------------- no compiler


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("llvmlite.binding", "create_pass_builder", "AttributeError"),
        ("llvmlite.binding", "create_mcjit_compiler", "AttributeError"),
        ("llvmlite.binding", "get_host_cpu_name", "AttributeError"),
        ("llvmlite.ir", "IRBuilder", "AttributeError"),
        ("llvmlite.binding", "get_default_triple", "ImportError"),
    ],
)
def test_without_a_name_of_llvmlite_numpy_computes(place, module, name, reason):
    code = f"""
import sys, warnings, {module}
warnings.simplefilter("always")
del {module}.{name}
import minispore as ms
x = ms.Tensor([1.0, 2.0])
for f in (lambda x: ms.ops.exp(x) - x, lambda x: ms.ops.sin(x) * x):
    jitted = ms.jit(f, capture_mode="trace")
    assert abs(jitted(x).asnumpy() - f(x).asnumpy()).max() < 1e-6
    assert abs(jitted(x).asnumpy() - f(x).asnumpy()).max() < 1e-6
"""
    done = run_process(code, place)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert "RuntimeWarning: no machine code can be made here" in warning
    assert reason in warning and "NumPy computes instead" in warning


def test_without_llvmlite_and_numba(place):
    code = """
import sys
sys.modules["llvmlite"] = sys.modules["numba"] = None
import minispore as ms
print(float(ms.jit(lambda x: ms.ops.exp(x) - x, capture_mode="trace")(ms.Tensor(0.0))))
"""
    done = run_process(code, place)
    assert done.stdout == "1.0\n", done.stderr
    assert done.stderr.count("no machine code can be made here (ModuleNotFoundError") == 1


def test_without_numba_what_only_it_compiles(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "minispore.engine.kernels.by_numba", None)
    assert value(cache.kernel(source())) == 1
    with pytest.raises(cache.NoKernel, match="ModuleNotFoundError"):
        cache.kernel(source().replace("f4(1)", "f4(divmod(lo + 7, 4)[1])"))


# ------------------------------------------------------------------------------- the rest


def test_what_only_numba_compiles_is_not_kept(place, monkeypatch):
    text = source().replace("f4(1)", "f4(divmod(lo + 7, 4)[1])")
    assert value(cache.kernel(text)) == 3
    assert not place.exists()
    monkeypatch.setattr(by_numba, "compiled", lambda *_: pytest.fail("compiled again"))
    assert value(cache.kernel(text)) == 3


def test_mistakes_in_a_source_are_not_hidden(place):
    with pytest.raises(SyntaxError):
        cache.kernel("def kernel(:")
    with pytest.raises(NameError):
        cache.kernel("from minispore.engine.kernels.vector import *\nx = nowhere")


def test_many_kernels_in_one_process(place):
    addresses = [cache.kernel(source(n)) for n in range(30)]
    assert len(set(addresses)) == 30
    assert [value(a) for a in addresses] == list(range(30))
    assert all(ctypes.c_ubyte.from_address(a) for a in addresses)
