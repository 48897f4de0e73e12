#!/usr/bin/env bash
# Does the wheel work by itself? Builds it, installs it into two new environments, without extras and with all of them,
# and runs some commands there, outside the source tree. PYTHON=python3.12 tools/smoke.sh takes another Python.
set -euo pipefail
unset PYTHONPATH
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

environment() {  # NAME WHEEL[EXTRAS]
    "${PYTHON:-python3}" -m venv "$work/$1"
    "$work/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"
    mkdir "$work/$1/run"
    cd "$work/$1/run"
    PATH=$work/$1/bin:$PATH
}

refused() {  # TEXT COMMAND: exit code 2, and one line that has the text
    local text=$1 code=0
    shift
    "$@" >printed 2>&1 || code=$?
    [ "$code" = 2 ] && [ "$(wc -l <printed)" = 1 ] && grep -qF "$text" printed || { cat printed; exit 1; }
}

"${PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" "$source"
wheel=$(echo "$work"/*.whl)

echo "smoke: $(basename "$wheel") without extras"
environment lean "$wheel"
cat >people.csv <<'CSV'
age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,capital-loss,hours-per-week,native-country
39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,United-States
52,Private,209642,Masters,14,Married-civ-spouse,Exec-managerial,Husband,White,Male,15024,0,45,United-States
CSV
tacit train adult --agents 3 --rounds 5 --report report.html 2>told
grep -qF "</html>" report.html
grep -qF "no plot: matplotlib is missing; pip install 'tacit-learn[plot]'" told || { cat told; exit 1; }
test ! -e model.png
tacit predict model.json people.csv --out predictions.csv
test "$(wc -l <predictions.csv)" = 3
tacit plan mr-admm --rows 4000,9000,2500 --epsilon 1 --delta 1e-6
refused "tacit-learn[plot]" tacit reproduce recycled-admm fig1 --quick
refused "tacit-learn[agent]" tacit identity new alder
refused "tacit-learn[ray]" tacit audit pvp --engine ray
touch people.parquet
refused "tacit-learn[parquet]" tacit predict model.json people.parquet

echo "smoke: with all extras"
environment full "$wheel[agent,exchange,parquet,plot,ray,sklearn]"
cp "$work/lean/run/people.csv" .
tacit train adult --agents 3 --rounds 5 >/dev/null
test -s model.png
python -c "from pyarrow import csv, parquet; parquet.write_table(csv.read_csv('people.csv'), 'people.parquet')"
tacit predict model.json people.csv --out predictions.csv
tacit predict model.json people.parquet --out again.csv
cmp predictions.csv again.csv
tacit identity new alder
test -s alder/certificate.pem
tacit federation demo --help >/dev/null
python -c "import tacit.agent.run, tacit.estimators, tacit.exchange, tacit.report.plots"
echo "smoke: all of it works"
