"""The machine, and what else it does while something is measured."""

import contextlib
import glob
import os
import platform
import time

import torch


def cpu_model():
    return _line_of("/proc/cpuinfo", "model name") or platform.processor()


def _line_of(path, key):
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(key):
                return line.partition(":")[2].strip()
    return ""


def _memory_bytes():
    return int((_line_of("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) * 1024


def _cache_bytes():
    """Of the CPU's last level."""
    most = 0
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            text = file.read().strip()
            most = max(most, int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]])
    return most


def last_level_cache_bytes(device):
    return torch.cuda.get_device_properties(device).L2_cache_size if device.type == "cuda" else _cache_bytes()


def gpu(device):
    """The device as machine.gpus of a run record has it."""
    facts = torch.cuda.get_device_properties(device)
    return {"id": f"cuda:{device.index or 0}", "name": facts.name, "architecture": f"sm_{facts.major}{facts.minor}",
            "driver": f"CUDA runtime {torch.version.cuda}", "compute_units": facts.multi_processor_count,
            "wave_size": facts.warp_size, "memory_bytes": facts.total_memory, "l2_bytes": facts.L2_cache_size,
            "shared_bytes": facts.shared_memory_per_block_optin,
            "highest_clock_hz": getattr(facts, "clock_rate", 0) * 1e3 or None,
            "memory_clock_hz": getattr(facts, "memory_clock_rate", 0) * 1e3 or None}


def description(device):
    """The object `machine` of a run record."""
    cores = len(os.sched_getaffinity(0))
    return {"cpu_model": cpu_model(), "os": f"{platform.system()} {platform.release()}, {platform.machine()}",
            "governor": "", "cores": os.cpu_count() or 0, "threads": torch.get_num_threads(), "l1d_bytes": 0,
            "l2_bytes": 0, "llc_bytes": _cache_bytes(), "memory_bytes": _memory_bytes(), "simd_targets": [],
            "gpus": [gpu(device)] if device.type == "cuda" else [], "host": platform.node(), "allowed_cores": cores,
            "cpu_quota_cores": None,
            "environment": {name: value for name, value in sorted(os.environ.items())
                            if name.startswith(("OMP_", "GOMP_", "CUDA_VISIBLE", "PYTORCH_"))}}


def allocated(device):
    """Bytes of PyTorch's on a GPU; from here on most_allocated() counts."""
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def most_allocated(device):
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


# --- disturbances ----------------------------------------------------------------------------------------------


def _waited_s():
    """Seconds that threads of this process have waited for a core, all together."""
    waited = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
            waited += int(file.read().split()[1])
    return waited / 1e9


def _busy_s():
    """(seconds that all programs kept cores busy, seconds that the host of a virtual machine took)."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", encoding="ascii") as file:
        ticks = [int(number) for number in file.readline().split()[1:]]
        return sum(ticks[:3] + ticks[5:7]) / os.sysconf("SC_CLK_TCK"), ticks[7] / os.sysconf("SC_CLK_TCK")
    return None


class Watch:
    """What else the machine did from start() to now."""

    def __init__(self, device):
        self._on_gpu = device.type == "cuda"

    def start(self):
        self._at, self._busy, self._own, self._waited = time.monotonic(), _busy_s(), time.process_time(), _waited_s()
        return self

    def was_disturbed(self):
        """Whether threads waited for a core for 2 % of the time, or on a CPU the host took 2 % of all cores."""
        took, busy = time.monotonic() - self._at, _busy_s()
        if _waited_s() - self._waited > 0.02 * took:
            return True
        cores = os.cpu_count() or 1
        stolen = busy[1] - self._busy[1] if busy and self._busy and not self._on_gpu else 0
        return stolen > 0.02 * took * cores + 0.01  # a tick

    def host(self):
        """The object `host` of a case record."""
        took, busy = max(time.monotonic() - self._at, 1e-9), _busy_s()
        if busy is None or self._busy is None:
            return None
        own = time.process_time() - self._own
        return {"other_cores": max(0.0, (busy[0] - self._busy[0] - own) / took),
                "stolen_share": (busy[1] - self._busy[1]) / took / (os.cpu_count() or 1),
                "waiting_share": (_waited_s() - self._waited) / took / max(1, torch.get_num_threads()),
                "involuntary_switches": 0}
