"""Arrays larger than memory: DirectML's operators on a Zarr store, by Dask and by xarray, on a cluster of processes.

python examples/dask_zarr.py
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import numpy as np

import anydml as dml


def main(days: int = 64) -> None:
    try:
        import dask.array as da
        import xarray as xr
        import zarr
        from dask.distributed import Client, LocalCluster
    except ImportError:
        print("This example needs Dask, Zarr and xarray: pip install 'anydml[dask]' zarr xarray")
        return
    from anydml.dask import AnydmlPlugin

    folder = Path(tempfile.mkdtemp())
    store = zarr.create_array(str(folder / "rain.zarr"), shape=(days, 48, 96), chunks=(16, 24, 96), dtype="float32")
    store[:] = np.random.default_rng(1).gamma(0.5, 2.0, store.shape).astype("float32")

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.ERROR}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.register_plugin(AnydmlPlugin())  # our threads times the workers' fit the cores

        # Dask: functions take lazy arrays and give lazy ones; blocks hand their tallies on along the cut axis.
        rain = da.from_zarr(str(folder / "rain.zarr"))
        total = dml.cumulative_summation(rain, axis=0)
        print("lazy:", total)
        total.to_zarr(str(folder / "total.zarr"))
        print("the last day's largest total:", float(zarr.open_array(str(folder / "total.zarr"))[-1].max()))

        # xarray: the same functions, by apply_ufunc.
        field = xr.DataArray(rain, dims=("day", "latitude", "longitude"), name="rain")
        wettest = xr.apply_ufunc(
            lambda x: dml.reduce(x, "argmax", axes=[-1])[..., 0],
            field,
            input_core_dims=[["day"]],
            dask="allowed",
        )
        print("the wettest day of each place:", wettest.dims, wettest.dtype, "of", wettest.data.numblocks, "blocks")
        smooth = xr.apply_ufunc(lambda x: dml.log(dml.add(x, 1.0)), field, dask="allowed")
        print("the mean of ln(1 + rain):", round(float(smooth.mean().compute()), 3))


if __name__ == "__main__":
    main()
