# %% [markdown]
# # Published records, and an array of one's own
#
# A notebook as a plain program: editors that know `# %%` run it cell by cell, and `python example.py` runs it at once.
# Its figure is made from records that come with the source, in reports/published.

# %%
import pathlib

import numpy as np

import ecmv

FOLDER = pathlib.Path(__file__).parent
H200 = "../../reports/published/2026-11-27-h200/headline/records.jsonl"
REAL = "../../reports/published/2026-11-22-real-weights/records.jsonl"

# %% [markdown]
# A row is a case, a column a field or a metric. The fastest kernel of every codec with its settings:

# %%
cases = ecmv.read_records(FOLDER / H200)
large = cases[(cases.status == "ok") & (cases.op == "matvec") & (cases.rows == 16384) & (cases.sigma == 4)]
stored_as = ["codec"] + [name for name in large if name.startswith("setting.")]
best = large.sort_values("elements_per_s", ascending=False).drop_duplicates(stored_as)
shown = ["codec", "bits_per_element", "elements_per_s", "speedup_vs_raw", "speedup_vs_raw_low", "speedup_vs_raw_high"]
print(best[shown].head(10).to_string(index=False))

# %% [markdown]
# Real weights, quantised: the smallest codec for each quantiser, scales included.

# %%
sizes = ecmv.read_records(FOLDER / REAL)
quantised = sizes[(sizes.status == "ok") & (sizes.op == "size") & sizes["data.quantise"].notna() & sizes.snr_db.notna()]
smallest = quantised.sort_values("bits_per_element").drop_duplicates(["data.file", "data.quantise"])
shown = ["data.quantise", "codec", "entropy_bits_per_element", "bits_per_element", "snr_db"]
print(smallest[shown].to_string(index=False))

# %% [markdown]
# The figure, if matplotlib is installed (`pip install '.[figures]'`).

# %%
try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None

if plt is not None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for codec, group in best.groupby("codec"):
        speeds = ("elements_per_s", "elements_per_s_p10", "elements_per_s_p90")
        middle, low, high = (group[name] / 1e12 for name in speeds)
        left.errorbar(group.bits_per_element, middle, yerr=(middle - low, high - middle), fmt="o", label=codec)
    left.axvline(best.entropy_bits_per_element.iloc[0], color="gray", linestyle=":", label="entropy")
    left.set(xlabel="stored bits an element", ylabel="T elements/s, 10th to 90th percentile",
             title=f"{best.device.iloc[0]}: int8 matrices, 16384 × 16384, σ = 4")
    left.legend(fontsize="small")
    for name, group in smallest.groupby(smallest["data.quantise"].str.replace(r"\[.*", "", regex=True)):
        right.plot(group.bits_per_element, group.snr_db, "o", label=name)
    right.set(xlabel="stored bits a weight, smallest codec", ylabel="signal to noise, dB",
              title="real weights, quantised")
    right.legend(fontsize="small")
    figure.savefig("example.svg")

# %% [markdown]
# An array of one's own: what a codec stores of it, and a product that is exact.

# %%
rng = np.random.default_rng(1)
weights = np.rint(rng.normal(0, 4, (1024, 2048))).astype(np.int8)
vector = rng.integers(-100, 100, 2048).astype(np.int8)
for codec in ("raw_int8", "rans"):
    if codec in ecmv.codecs():
        matrix = ecmv.encode(weights, codec)
        assert (matrix @ vector == weights.astype(np.int64) @ vector).all()
        print(matrix, "by the kernel", matrix.kernel())
